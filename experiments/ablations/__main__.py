"""Entry point: `python -m experiments.ablations`, from the project's root.

Cells that come to the same config are run once. What has been measured is kept as it goes, and is not measured
again with the same sources, so an interrupted experiment goes on where it stopped.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.ablations.cells import BASE, CELLS, SETTINGS, TASKS, VARIANTS, Cell
from experiments.ablations.plot import draw
from experiments.harness import (
    Stopwatch,
    describe_machine,
    machine_line,
    markdown_table,
    read_json,
    results_folder,
    source_hash,
    write_text,
)

COLUMNS = tuple((task, variant) for task in TASKS for variant in VARIANTS)
_SMOKE = tuple(cell for cell in CELLS if cell.task == "pick" and cell.setting.factor in (BASE.factor, "source demos"))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write table and figure."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ablations", description="Change one choice at a time.")
    parser.add_argument("--attempts", type=int, help="attempts per cell (default: those of the experiment's config)")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    attempts = 4 if args.smoke else args.attempts
    out = results_folder("ablations", args.out, smoke=args.smoke)
    torch.set_num_threads(1)
    results = measure(_SMOKE if args.smoke else CELLS, attempts, out / "ablations.json")
    write_text(out / "ablations.md", render(results))
    draw(results["rows"], out / "ablations.png")
    print(table(results["rows"]))
    return 0


def measure(cells: Sequence[Cell], attempts: int | None, file: Path) -> dict[str, Any]:
    """Measure the cells that the file does not have of these sources, and write it anew; what is in it then."""
    sources, before = source_hash(), read_json(file)
    known = {row["config_hash"]: row for row in before.get("rows", ()) if before["sources"] == sources}
    cpu_s = before["cpu_s"] if known else 0.0
    rows: list[dict[str, Any]] = []
    results: dict[str, Any] = {"machine": describe_machine(), "sources": sources}
    for cell in cells:
        watch, name = Stopwatch(), {"factor": cell.setting.factor, "value": cell.setting.value}
        config_hash = cell.config_hash(attempts)
        if config_hash not in known:
            print(f"{cell.task} {cell.variant}, {name['factor']} {name['value']}", file=sys.stderr, flush=True)
            known[config_hash] = cell.measure(attempts)
            cpu_s += watch.sample(0).cpu_s
        rows.append({**known[config_hash], **name})
        # Rows of later cells stay until then, so that nothing is lost where this is interrupted.
        done = {row["config_hash"] for row in rows}
        ahead = [row for key, row in known.items() if key not in done]
        results |= {"cpu_s": round(cpu_s, 1), "rows": [*rows, *ahead]}
        write_text(file, json.dumps(results, indent=1) + "\n")
    results["rows"] = rows
    write_text(file, json.dumps(results, indent=1) + "\n")
    return read_json(file)


def render(results: dict[str, Any]) -> str:
    """The page of results."""
    rows = results["rows"]
    return (
        "# Ablations: results\n\n"
        "Written by `python -m experiments.ablations`; README.md in its folder explains it.\n\n"
        f"Successful attempts in per cent of {rows[0]['attempts']}, with Wilson's 95 % interval. "
        "*Italic*: as the task's config has it.\n\n"
        f"{table(rows)}\n"
        f"{machine_line(results['machine'])} Took {results['cpu_s'] / 60:.0f} minutes of CPU time.\n"
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each setting, a column for each task and variant."""
    header = ("factor", "value", *(f"{task} {variant}" for task, variant in COLUMNS))
    return markdown_table(header, list(_lines(rows)))


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    found = {(row["factor"], row["value"], row["task"], row["variant"]): row for row in rows}
    for setting in SETTINGS:
        cells = []
        for column in COLUMNS:
            row, base = (
                found.get((setting.factor, setting.value, *column)),
                found.get((BASE.factor, BASE.value, *column)),
            )
            same = row is not None and base is not None and row["config_hash"] == base["config_hash"]
            cells.append(_cell(row, italic=same and setting != BASE))
        if any(cell != "–" for cell in cells):
            yield [setting.factor, setting.value or "–", *cells]


def _cell(row: dict[str, Any] | None, *, italic: bool) -> str:
    if row is None:
        return "–"
    low, high = row["wilson_95"]
    written = f"{100 * row['success_rate']:.0f} ({100 * low:.0f}–{100 * high:.0f})"
    return f"*{written}*" if italic else written


if __name__ == "__main__":
    sys.exit(main())
