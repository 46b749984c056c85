"""Entry point: `python -m experiments.soak [growth] [slow_disk] [--minutes 30]`, from the project's root."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.harness import ROOT, describe_machine, read_json, results_folder, write_text
from experiments.soak.report import TITLES, draw, render
from experiments.soak.runs import measure_growth, measure_slow_disk

RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the runs asked for; what is known of the other one stays. The exit code is 1 if memory was not flat."""
    parser = argparse.ArgumentParser(prog="python -m experiments.soak", description="Long runs.")
    parser.add_argument("section", nargs="*", help=f"what to run: {', '.join(TITLES)} (default: both)")
    parser.add_argument("--episodes", type=int, help="of growth (default: 100,000)")
    parser.add_argument("--minutes", type=float, help="of slow_disk (default: 30)")
    parser.add_argument("--num-envs", type=int, help="default: 1024 for growth, 64 for slow_disk")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.section if name not in TITLES]:
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(TITLES)}")
    episodes, minutes, num_envs = (1000, 0.1, 16) if args.smoke else (100_000, 30.0, None)
    episodes, minutes, num_envs = args.episodes or episodes, args.minutes or minutes, args.num_envs or num_envs
    out = results_folder("soak", args.out, smoke=args.smoke)
    description = describe_machine()  # before the first result makes the work tree differ from the commit
    folder = ROOT / "outputs" / "soak" / time.strftime("%Y-%m-%d_%H-%M-%S")
    flat = True
    for section in args.section or TITLES:
        print(f"{section}: running in {folder / section}", file=sys.stderr, flush=True)
        load = round(os.getloadavg()[0], 2)
        if section == "growth":
            run = measure_growth(folder / section, episodes, num_envs or 1024)
        else:
            run = measure_slow_disk(folder / section, minutes, num_envs or 64)
        flat &= run["rss_flat"]
        file = out / "soak.json"
        results = {**read_json(file), section: {"machine": description, "load_average_before": load, "run": run}}
        write_text(file, json.dumps(results, indent=1) + "\n")
        write_text(file.with_suffix(".md"), render(results))
        draw({section: results[section]}, out)
        print(render({section: results[section]}).split("\n\n", 2)[2])
    return 0 if flat or args.smoke else 1  # memory is flat behind the first thousands of episodes


if __name__ == "__main__":
    sys.exit(main())
