"""Entry point: `python -m experiments.telemetry_cost`, from the project's root."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.harness import describe_machine, machine_line, markdown_table, results_folder, write_text
from experiments.telemetry_cost.measure import CASES, Case, measure

RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write json and page."""
    parser = argparse.ArgumentParser(prog="python -m experiments.telemetry_cost", description="Cost of telemetry.")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    out = results_folder("telemetry_cost", args.out, smoke=args.smoke)
    description, load = describe_machine(), round(os.getloadavg()[0], 2)
    rows = measure((Case("kinematic", 4, 8),), repeats=2) if args.smoke else measure(CASES)
    results = {"machine": description, "load_average_before": load, "rows": rows}
    write_text(out / "telemetry.json", json.dumps(results, indent=1) + "\n")
    page = render(results)
    write_text(out / "telemetry.md", page)
    print(page)
    return 0


def render(results: dict[str, Any]) -> str:
    """The page of a measurement."""
    header = ("env", "num_envs", "CPU s", "counted", "goal", "with against without", "quartiles")
    rows = [
        [
            row["env"],
            f"{row['num_envs']}",
            f"{row['cpu_s']:.2f}",
            f"{row['counted_share']:.2%}",
            f"< {row['goal']:.0%}, {'met' if row['goal_met'] else 'MISSED'}",
            f"{row['difference']:+.1%}",
            f"{row['quartiles'][0]:+.1%} to {row['quartiles'][1]:+.1%}",
        ]
        for row in results["rows"]
    ]
    prices = ", ".join(f"{name} {1e6 * seconds:.2g} µs" for name, seconds in results["rows"][0]["costs"].items())
    return "\n".join(
        (
            "# Cost of telemetry: results\n",
            "Written by `python -m experiments.telemetry_cost`; README.md in its folder explains it.\n",
            f"{machine_line(results['machine'])} Load average before: {results['load_average_before']}.\n",
            markdown_table(header, rows),
            f"One measurement, CPU time: {prices}.\n",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
