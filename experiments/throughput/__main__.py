"""Entry point: `python -m experiments.throughput [orchestration] [physics] [sweep] [peer]`, from the project's root."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.harness import ROOT, describe_machine, measure_section, results_folder, write_text
from experiments.throughput import orchestration, peer, physics, sweep
from experiments.throughput.peer_loop import INSTALL, is_installed
from experiments.throughput.plot import draw
from experiments.throughput.report import render

SECTIONS = ("orchestration", "physics", "sweep", "peer")
FILES = {"peer": "peer"}
"""{section: stem of its json and page}, where they are not the others': this one is measured in another environment."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the sections asked for, and write tables and figures; those of other sections stay as they are."""
    parser = argparse.ArgumentParser(prog="python -m experiments.throughput", description="Measure throughput.")
    parser.add_argument("section", nargs="*", help=f"what to measure: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.section if name not in SECTIONS]:
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(SECTIONS)}")
    if "peer" in args.section and not is_installed():
        parser.exit(1, f"peer: {INSTALL}\n")
    measures = smoke() if args.smoke else full()
    out = results_folder("throughput", args.out, smoke=args.smoke)
    description = describe_machine()  # before the first result makes the work tree differ from the commit
    for section in args.section or SECTIONS:
        if section == "peer" and not is_installed():
            print(f"peer: left out; {INSTALL}", file=sys.stderr)
        else:
            measure(section, measures[section], out, description)
    return 0


def full() -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """The measurements that the committed results come from."""
    return {
        "orchestration": orchestration.measure,
        "physics": physics.measure,
        "sweep": lambda: sweep.measure(_new_folder() / "sweep"),
        "peer": peer.measure,
    }


def smoke() -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """The same at a toy size."""
    cases_a = (orchestration.Case(1, 3), orchestration.Case(64, 64))
    cases_b = (physics.Case(1, 2), physics.Case(16, 16))
    cases_d = (peer.Case(1, 1, 1, compare=True), peer.Case(4, 4, 1))
    toy = ("num_demos=4", "max_attempts=4", "env.num_envs=1,4", "seed=0", "preview=false")
    return {
        "orchestration": lambda: orchestration.measure(cases_a, repeats=2),
        "physics": lambda: physics.measure(cases_b, repeats=1),
        "sweep": lambda: sweep.measure(_new_folder() / "sweep", (1, 4), toy),
        "peer": lambda: peer.measure(cases_d),
    }


def measure(section: str, rows_of: Callable[[], list[dict[str, Any]]], out: Path, description: dict[str, Any]) -> None:
    """Measure one section and bring json, page and figures in `out` up to date."""
    file = out / f"{FILES.get(section, 'throughput')}.json"
    results = measure_section(section, rows_of, file, description)
    write_text(file.with_suffix(".md"), render(results))
    draw({section: results[section]}, out)
    print(render({section: results[section]}).split("\n\n", 2)[2])


def _new_folder() -> Path:
    return ROOT / "outputs" / "throughput" / time.strftime("%Y-%m-%d_%H-%M-%S")


if __name__ == "__main__":
    sys.exit(main())
