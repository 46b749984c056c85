"""Print a hash of what a dataset says, whatever its files look like: `python -m mimicpipe.tools.digest DATASET ...`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.errors import MimicpipeError
from mimicpipe.recorders.digest import digest, digest_parts


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = argparse.ArgumentParser(prog="digest", description="Print a dataset's content hash.")
    parser.add_argument("dataset", nargs="+", type=Path, help="folder of a LeRobot v3 dataset, or an HDF5 file")
    parser.add_argument("--parts", action="store_true", help="a hash for each part, to see what differs")
    args = parser.parse_args(argv)
    for root in args.dataset:
        try:
            if args.parts:
                for name, value in digest_parts(root).items():
                    print(f"{value}  {root}: {name}")
            else:
                print(f"{digest(root)}  {root}")
        except MimicpipeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
