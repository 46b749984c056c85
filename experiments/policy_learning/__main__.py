"""Entry point: `python -m experiments.policy_learning`, from the project's root.

What has been measured is written as it goes and is not measured again, so an interrupted experiment goes on where it
stopped; `--fresh` measures everything again, `--report` nothing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from experiments.harness import (
    ROOT,
    describe_machine,
    machine_line,
    markdown_table,
    read_json,
    results_folder,
    write_text,
)
from experiments.policy_learning.cells import TOY, Size, missing, same
from experiments.policy_learning.plot import draw

RUNS = ROOT / "outputs" / "policy_learning"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write table and figure."""
    parser = argparse.ArgumentParser(prog="python -m experiments.policy_learning", description="Train on the demos.")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--steps", type=int, help="gradient steps of each policy (default: 3000)")
    parser.add_argument("--fresh", action="store_true", help="measure every cell again")
    parser.add_argument("--report", action="store_true", help="measure nothing: only write table and figure")
    parser.add_argument("--runs", type=Path, help="folder for data and policies (default: outputs/policy_learning/)")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    size = TOY if args.smoke else Size()
    if args.steps is not None:
        size = replace(size, training=replace(size.training, steps=args.steps))
    out = results_folder("policy_learning", args.out, smoke=args.smoke)
    runs = args.runs or (out / "runs" if args.smoke else RUNS)
    torch.set_num_threads(1)
    file = out / "policy_learning.json"
    rows = [] if args.fresh else read_json(file).get("rows", [])
    if not args.report:
        rows = measure(size, rows, runs, file)
    if not rows:
        parser.error(f"no results in {out}")
    write_results(rows, read_json(file)["machine"], out)
    print(table(rows))
    return 0


def measure(size: Size, rows: list[dict[str, Any]], runs: Path, file: Path) -> list[dict[str, Any]]:
    """Measure the cells that are not among the rows, and write the file anew after each; all rows of this size."""
    rows = [row for row in rows if any(same(row, cell) for cell in size.cells())]
    for cell in missing(rows, size):
        print(f"{cell.task}, {cell.demos} demos", file=sys.stderr, flush=True)
        rows.append({**cell.measure(runs), "key": cell.key()})
        machine = describe_machine()
        write_text(file, json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
        write_results(rows, machine, file.parent)
    return rows


def write_results(rows: list[dict[str, Any]], machine: dict[str, Any], out: Path) -> None:
    """Write table and figure of what there is."""
    write_text(out / "policy_learning.md", render(rows, machine))
    draw(rows, out / "policy_learning.png")


def render(rows: Sequence[dict[str, Any]], machine: dict[str, Any]) -> str:
    """The page of results."""
    cpu = sum(row["cpu_s"] for row in rows) / 60
    episodes, training = rows[0]["policies"][0]["episodes"], rows[0]["key"]["training"]
    return (
        "# Policy learning: results\n\n"
        "Written by `python -m experiments.policy_learning`; README.md in its folder explains it.\n\n"
        f"Successful rollouts in per cent: {len(rows[0]['policies'])} policies a cell, {episodes} rollouts each; "
        f"{training['steps']:,} gradient steps of {training['batch']} frames.\n\n"
        f"{table(rows)}\n"
        f"{machine_line(machine)} Training and rollouts took {cpu:.0f} minutes of CPU time, without making the data.\n"
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each cell."""
    header = ("task", "demos", "frames", "success", "95 % interval", "each policy", "mean steps of successes", "CPU")
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    ordered = sorted(rows, key=lambda row: (tasks.index(row["task"]), row["demos"]))
    return markdown_table(header, [_line(row) for row in ordered])


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    policies = row["policies"]
    low, high = row["wilson_95"]
    lengths = [p["mean_length_of_successes"] for p in policies if p["successes"]]
    return (
        f"{row['task']} D0",
        f"{row['demos']:,} {'source' if row['source'] else 'generated'}",
        f"{row['frames']:,}",
        f"{100 * row['success_rate']:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        ", ".join(f"{100 * p['success_rate']:.0f}" for p in policies),
        f"{mean(lengths):.0f}" if lengths else "–",
        f"{row['cpu_s']:.0f} s",
    )


if __name__ == "__main__":
    sys.exit(main())
