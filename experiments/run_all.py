"""Runs the experiments one after the other: `python -m experiments.run_all [--smoke] [NAME ...]`, from the root.

An experiment is a folder here with a `__main__.py`; each takes `--smoke`, for a toy size whose results go to
`outputs/smoke/<name>/`, which is emptied first. One that fails does not stop the others; the exit code is 1 then, and
the last line names it. At its toy size it fails, too, if it has not written every file that its results/ has.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NEEDS_MORE = {"gpu": "", "isaaclab": "", "throughput": "peer"}
"""{experiment: how those results begin that another environment is needed for, without which they are left out}."""


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
        print(f"== {name}", file=sys.stderr, flush=True)
        start, cpu = time.perf_counter(), _cpu_of_children()
        ended = run(name, folder, smoke=args.smoke)
        took = f"{time.perf_counter() - start:.0f} s ({_cpu_of_children() - cpu:.0f} s of CPU time)"
        print(f"== {name}: {ended or 'done'}, {took}", file=sys.stderr, flush=True)
        failed += [name] if ended else []
    done = f"{len(wanted) - len(failed)} of {len(wanted)} experiments in {time.perf_counter() - began:.0f} s"
    print(f"{done}; failed: {', '.join(failed)}" if failed else done, file=sys.stderr)
    return int(bool(failed))


def run(name: str, folder: Path, *, smoke: bool) -> str:
    """Run one experiment in a process of its own; what has gone wrong, empty where nothing has."""
    out = folder.parent / "outputs" / "smoke" / name
    if smoke:
        shutil.rmtree(out, ignore_errors=True)  # some keep what they have measured, and would run nothing
    command = [sys.executable, "-m", f"{folder.name}.{name}", *(["--smoke"] if smoke else [])]
    code = subprocess.run(command, cwd=folder.parent, check=False).returncode
    if code or not smoke:
        return f"exit code {code}" if code else ""
    missing = [path.name for path in sorted((folder / name).glob("results/*")) if not (out / path.name).is_file()]
    needed = [file for file in missing if name not in NEEDS_MORE or not file.startswith(NEEDS_MORE[name])]
    if len(missing) > len(needed):
        print(f"{name}: without {', '.join(sorted(set(missing) - set(needed)))}", file=sys.stderr, flush=True)
    return f"did not write {', '.join(needed)}" if needed else ""


def _cpu_of_children() -> float:
    """CPU seconds of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def discover(folder: Path = FOLDER) -> list[str]:
    """Names of the experiments in a folder."""
    return sorted(path.parent.name for path in folder.glob("*/__main__.py"))


if __name__ == "__main__":
    sys.exit(main())
