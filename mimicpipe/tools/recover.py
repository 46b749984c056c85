"""Make a dataset of what a killed run has made durable: `python -m mimicpipe.tools.recover RUN`.

RUN is the run's output folder, or the root of its dataset where that is somewhere else.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.errors import MimicpipeError, RecorderError
from mimicpipe.recorders.joining import find_staged, recover


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = argparse.ArgumentParser(prog="recover", description="Make a dataset of a killed run's durable episodes.")
    parser.add_argument("run", type=Path, help="the run's output folder, or the root of its dataset")
    parser.add_argument("--overwrite", action="store_true", help="replace a dataset that is there")
    args = parser.parse_args(argv)
    try:
        for root in find_staged(args.run.resolve()):
            recovered = recover(root, args.overwrite)
            if recovered is None:
                print(f"{root}: no episode had been made durable")
            else:
                print(f"{root}: {len(recovered.attempts)} episodes")
    except (MimicpipeError, RecorderError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, MimicpipeError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
