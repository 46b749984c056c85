"""Join datasets without encoding anything again: `python -m mimicpipe.tools.merge OUT IN ...`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.recorders.joining import merge
from mimicpipe.tools.exits import exit_code, tool_parser


def in_flags(message: str) -> str:
    """A recorder's message, which speaks of a run's keys, in the words of a tool."""
    words = {
        "dataset.root=": "",
        "dataset.repo_id=": "--repo-id ",
        "dataset.overwrite=true": "--overwrite",
        "dataset.use_videos=false": "--images",
    }
    for key, flag in words.items():
        message = message.replace(key, flag)
    return message


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser("merge", __doc__)
    parser.add_argument("out", metavar="OUT", type=Path, help="folder of the new dataset; must not exist")
    parser.add_argument(
        "dataset", metavar="DATASET", nargs="+", type=Path, help="folders, in the order that their episodes get"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the dataset at OUT, if there is one")
    args = parser.parse_args(argv)

    def work() -> None:
        count = merge(args.out, args.dataset, args.overwrite)
        print(f"{count} episodes of {len(args.dataset)} datasets in {args.out}")

    return exit_code(work, in_words=in_flags)


if __name__ == "__main__":
    sys.exit(main())
