"""Print a hash of what a dataset says, whatever its files look like: `python -m mimicpipe.tools.digest DATASET ...`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.recorders.digest import digest, digest_parts
from mimicpipe.tools.exits import exit_code, tool_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser("digest", __doc__)
    parser.add_argument(
        "dataset", metavar="DATASET", nargs="+", type=Path, help="folder of a LeRobot v3 dataset, or an HDF5 file"
    )
    parser.add_argument(
        "--parts", action="store_true", help="a hash for each column and table, to see in what two differ"
    )
    args = parser.parse_args(argv)

    def work() -> None:
        for root in args.dataset:
            if args.parts:
                for name, value in digest_parts(root).items():
                    print(f"{value}  {root}: {name}")
            else:
                print(f"{digest(root)}  {root}")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
