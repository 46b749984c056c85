"""Entry point: `python -m experiments.recorder [state] [video] [pipeline] [memory] [short] [sweep]`, from the root."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.harness import describe_machine, measure_section, results_folder, write_text
from experiments.recorder import cells
from experiments.recorder.report import draw, render

FULL: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "state": lambda: cells.state(1000, 30, 3),
    "video": lambda: cells.video(24, 3),
    "pipeline": lambda: cells.pipeline(64, 256),
    "memory": lambda: cells.memory(60, 100),
    "short": lambda: cells.short(10_000),
    "sweep": lambda: cells.sweep((1, 4, 16, 64), (1, 4, 16, 64, 256), 64),
}
SMOKE: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "state": lambda: cells.state(6, 2, 1),
    "video": lambda: cells.video(3, 1, frames=25),
    "pipeline": lambda: cells.pipeline(2, 2),
    "memory": lambda: cells.memory(4, 20),
    "short": lambda: cells.short(100),
    "sweep": lambda: cells.sweep((1, 4), (1, 4), 4),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the sections asked for, and write table and figure; those of other sections stay as they are."""
    parser = argparse.ArgumentParser(prog="python -m experiments.recorder", description="Measure the recorders.")
    parser.add_argument("section", nargs="*", help=f"what to measure: {', '.join(FULL)} (default: all)")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.section if name not in FULL]:
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(FULL)}")
    measures = SMOKE if args.smoke else FULL
    out = results_folder("recorder", args.out, smoke=args.smoke)
    description = describe_machine()  # before the first result makes the work tree differ from the commit
    for section in args.section or FULL:
        results = measure_section(section, measures[section], out / "recorder.json", description)
        write_text(out / "recorder.md", render(results))
        draw(results, out / "recorder.png")
    print(render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
