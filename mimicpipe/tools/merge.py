"""Join datasets without encoding anything again: `python -m mimicpipe.tools.merge OUT IN ...`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.errors import MimicpipeError, RecorderError
from mimicpipe.recorders.joining import merge


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
    parser = argparse.ArgumentParser(prog="merge", description="Join datasets that mimicpipe recorders have written.")
    parser.add_argument("out", type=Path, help="folder of the new dataset")
    parser.add_argument("dataset", nargs="+", type=Path, help="datasets, in the order of their episodes")
    parser.add_argument("--overwrite", action="store_true", help="replace a dataset at OUT")
    args = parser.parse_args(argv)
    try:
        count = merge(args.out, args.dataset, args.overwrite)
    except (MimicpipeError, RecorderError, OSError) as error:
        print(f"error: {in_flags(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, MimicpipeError) else 1
    print(f"{count} episodes of {len(args.dataset)} datasets in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
