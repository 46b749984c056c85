"""Entry point: `python -m experiments.generation_success [CELL ...]`, from the project's root.

Each cell is a run of `run.py` in its own folder. A cell whose folder holds a complete run of the same config and the
same sources is not run again, so an interrupted experiment goes on where it stopped. `--report` runs nothing. The table
is made from the `attempts.jsonl` of all cells that there are.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.generation_success.cells import CELLS, SKILLGEN_CELLS, Cell, read_attempts, summarize
from experiments.generation_success.plot import draw, label
from experiments.harness import (
    ROOT,
    compose,
    machine_line,
    markdown_table,
    read_json,
    results_folder,
    source_hash,
    write_text,
)

RUNS = ROOT / "outputs" / "generation_success"
_ALL = (*CELLS, *SKILLGEN_CELLS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cells that are missing, and write table and figure."""
    parser = argparse.ArgumentParser(prog="python -m experiments.generation_success", description="Measure success.")
    parser.add_argument(
        "cell", nargs="*", help=f"cells to run: {', '.join(c.name for c in _ALL)} (default: those without skillgen)"
    )
    parser.add_argument("--attempts", type=int, help="attempts per cell (default: the 500 of the experiment's config)")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--fresh", action="store_true", help="run every cell again")
    parser.add_argument("--report", action="store_true", help="run nothing: only write the table")
    parser.add_argument("--runs", type=Path, help="folder for the runs (default: in outputs/)")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    if unknown := set(args.cell) - {cell.name for cell in _ALL}:
        parser.error(f"unknown cell {', '.join(sorted(unknown))}; choose from {', '.join(c.name for c in _ALL)}")
    attempts = args.attempts or (4 if args.smoke else None)
    budget = () if attempts is None else (f"num_demos={attempts}", f"max_attempts={attempts}")
    out = results_folder("generation_success", args.out, smoke=args.smoke)
    runs = args.runs or (out / "runs" if args.smoke else RUNS)
    by_default = {cell.name for cell in (CELLS[:1] if args.smoke else CELLS)}
    wanted = [cell for cell in _ALL if not args.report and cell.name in (args.cell or by_default)]
    for cell in wanted:
        if args.fresh or not is_complete(cell, runs / cell.name, budget):
            run(cell, runs / cell.name, budget)
    rows = write_results(runs, out)
    if not rows:
        parser.error(f"no complete run below {runs}")
    print(table(rows))
    return 0


def is_complete(cell: Cell, folder: Path, budget: Sequence[str] = ()) -> bool:
    """Whether the folder holds all attempts of this cell, made with this config and these sources."""
    config, record = compose(*cell.overrides, *budget), read_json(folder / "run.json")
    if record.get("config_hash") != config.hash() or record["exit_code"] != 0:
        return False
    same = read_json(folder / "source.json").get("sha256") == source_hash()
    return same and len(read_attempts(folder)) == config.max_attempts


def run(cell: Cell, folder: Path, budget: Sequence[str] = ()) -> None:
    """Run one cell with torch on one thread.

    Raises:
        subprocess.CalledProcessError: it failed; it has said why.
    """
    print(f"{cell.task} {cell.variant}", file=sys.stderr, flush=True)
    for name in ("run.json", "attempts.jsonl", "metrics.jsonl", "source.json"):
        (folder / name).unlink(missing_ok=True)
    write_text(folder / "source.json", json.dumps({"sha256": source_hash()}))
    command = [sys.executable, str(ROOT / "run.py"), *cell.overrides, *budget, f"hydra.run.dir={folder.absolute()}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})


def write_results(runs: Path, out: Path) -> list[dict[str, Any]]:
    """Bring table, json and figure up to date; returns the rows of all cells that have run to their end."""
    done = [(cell, runs / cell.name) for cell in _ALL if (runs / cell.name / "run.json").is_file()]
    rows = [summarize(cell, read_attempts(folder)) for cell, folder in done]
    records = {cell.name: read_json(folder / "run.json") for cell, folder in done}
    if rows:
        kept = ("config_hash", "git", "seed", "started", "setup_s", "wall_s", "rates", "machine", "versions")
        provenance = {name: {key: record[key] for key in kept} for name, record in records.items()}
        write_text(out / "generation_success.json", json.dumps({"rows": rows, "runs": provenance}, indent=1) + "\n")
        write_text(out / "generation_success.md", render(rows, provenance))
        draw(rows, out / "generation_success.png")
    return rows


def render(rows: Sequence[dict[str, Any]], runs: dict[str, dict[str, Any]]) -> str:
    """The page of results."""
    first = next(iter(runs.values()))
    rates = {name: run["rates"]["env_steps_per_s"] for name, run in runs.items()}
    speed = [f"{name} {run['wall_s']:.0f} s ({rates[name]:,.0f} env-steps/s)" for name, run in runs.items()]
    return (
        "# Generation success: results\n\n"
        "Written by `python -m experiments.generation_success`; README.md in its folder explains it.\n\n"
        f"{table(rows)}\n"
        f"Wall time without set-up: {', '.join(speed)}.\n\n"
        f"{machine_line(first['machine'] | {'versions': first['versions'], 'git': first['git']})}\n"
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    header = (
        "cell",
        "attempts",
        "success",
        "95 % interval",
        "goal",
        "published",
        "failures",
        "mean length",
        "of demos",
    )
    cells = [
        (
            label(r),
            str(r["attempts"]),
            _percent(r["success_rate"]),
            f"{_percent(r['wilson_95'][0])} to {_percent(r['wilson_95'][1])}",
            f"≥ {100 * r['goal']:.0f} %: {'met' if r['goal_met'] else 'missed'}",
            "–" if r["published"] is None else f"{100 * r['published']:.0f} %",
            ", ".join(f"{count} {reason}" for reason, count in r["failures"].items()) or "none",
            f"{r['mean_length']:.1f}",
            "–" if r["mean_length_of_demos"] is None else f"{r['mean_length_of_demos']:.1f}",
        )
        for r in rows
    ]
    return markdown_table(header, cells)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
