"""Entry point: `python -m experiments.soak [growth] [slow_disk] [--minutes 30]`, from the project's root."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.harness import ROOT, describe_machine, read_json, write_text
from experiments.soak.report import TITLES, draw, render
from experiments.soak.runs import measure_growth, measure_slow_disk

RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the runs asked for; what is known of the other one stays. The exit code is 1 if memory was not flat."""
    parser = argparse.ArgumentParser(prog="python -m experiments.soak", description="Long runs.")
    parser.add_argument("section", nargs="*", help=f"what to run: {', '.join(TITLES)} (default: both)")
    parser.add_argument("--episodes", type=int, default=100_000, help="of growth (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=30.0, help="of slow_disk (default: %(default)s)")
    parser.add_argument("--num-envs", type=int, help="default: 1024 for growth, 64 for slow_disk")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.section if name not in TITLES]:
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(TITLES)}")
    description = describe_machine()  # before the first result makes the work tree differ from the commit
    folder = ROOT / "outputs" / "soak" / time.strftime("%Y-%m-%d_%H-%M-%S")
    flat = True
    for section in args.section or TITLES:
        print(f"{section}: running in {folder / section}", file=sys.stderr, flush=True)
        load = round(os.getloadavg()[0], 2)
        if section == "growth":
            run = measure_growth(folder / section, args.episodes, args.num_envs or 1024)
        else:
            run = measure_slow_disk(folder / section, args.minutes, args.num_envs or 64)
        flat &= run["rss_flat"]
        file = args.out / "soak.json"
        results = {**read_json(file), section: {"machine": description, "load_average_before": load, "run": run}}
        write_text(file, json.dumps(results, indent=1) + "\n")
        write_text(file.with_suffix(".md"), render(results))
        draw({section: results[section]}, args.out)
        print(render({section: results[section]}).split("\n\n", 2)[2])
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
