"""Runs the experiments one after the other: `python -m experiments.run_all [--smoke] [NAME ...]`, from the root.

An experiment is a folder here with a `__main__.py`; each takes `--smoke`, for a toy size whose results go to
`outputs/smoke/<name>/`. One that fails does not stop the others; the exit code is 1 then, and the last line names it.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """Run those named, or all in `folder`; 1 if one failed."""
    names = discover(folder)
    parser = argparse.ArgumentParser(prog="python -m experiments.run_all", description="Run the experiments.")
    parser.add_argument("name", nargs="*", help=f"which: {', '.join(names)} (default: all)")
    parser.add_argument("--smoke", action="store_true", help="at a toy size, to see whether they run")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.name) - set(names)):
        parser.error(f"no such experiment: {', '.join(unknown)}; choose from {', '.join(names)}")
    failed, began = [], time.perf_counter()
    wanted = args.name or names
    for name in wanted:
        command = [sys.executable, "-m", f"{folder.name}.{name}", *(["--smoke"] if args.smoke else [])]
        print(f"== {name}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        code = subprocess.run(command, cwd=folder.parent, check=False).returncode
        print(f"== {name}: {'done' if code == 0 else f'exit code {code}'}, {time.perf_counter() - start:.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
        failed += [name] if code else []
    done = f"{len(wanted) - len(failed)} of {len(wanted)} experiments in {time.perf_counter() - began:.0f} s"
    print(f"{done}; failed: {', '.join(failed)}" if failed else done, file=sys.stderr)
    return int(bool(failed))


def discover(folder: Path = FOLDER) -> list[str]:
    """Names of the experiments in a folder."""
    return sorted(path.parent.name for path in folder.glob("*/__main__.py"))


if __name__ == "__main__":
    sys.exit(main())
