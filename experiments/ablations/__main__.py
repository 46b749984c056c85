"""Entry point: `python -m experiments.ablations [FACTOR ...]`, from the project's root.

Cells that come to the same config are run once. What has been measured is kept as it goes, and is not measured
again with the same sources, so an interrupted experiment goes on where it stopped. Rows of factors that are not asked
for stay as they are; each row knows what it was measured with.
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
_SMOKE = tuple(
    cell
    for cell in CELLS
    if (cell.task, cell.variant) == ("pick", "D0") and cell.setting.factor in (BASE.factor, "source demos")
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write table and figure."""
    factors = tuple(dict.fromkeys(setting.factor for setting in SETTINGS))
    parser = argparse.ArgumentParser(prog="python -m experiments.ablations", description="Change one choice at a time.")
    parser.add_argument("factor", nargs="*", help=f"what to change: {', '.join(factors)} (default: all)")
    parser.add_argument("--attempts", type=int, help="attempts per cell (default: those of the experiment's config)")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.factor if name not in factors]:
        parser.error(f"unknown factor {', '.join(unknown)}; choose from {', '.join(factors)}")
    attempts = 4 if args.smoke else args.attempts
    out = results_folder("ablations", args.out, smoke=args.smoke)
    torch.set_num_threads(1)
    wanted = [cell for cell in CELLS if cell.setting.factor in (args.factor or factors)]
    results = measure(_SMOKE if args.smoke else wanted, attempts, out / "ablations.json")
    write_text(out / "ablations.md", render(results))
    draw(results["rows"], out / "ablations.png")
    print(table(results["rows"]))
    return 0


def measure(cells: Sequence[Cell], attempts: int | None, file: Path) -> dict[str, Any]:
    """Measure the cells that the file does not have of these sources, and write it anew; what is in it then.

    Rows of other cells stay. Each row names its sources, which `measured` says the machine and CPU time of.
    """
    sources, results = source_hash(), read_json(file) or {"measured": {}, "rows": []}
    rows = {_key(row): row for row in results["rows"]}
    measured = {**results["measured"], sources: {"cpu_s": 0.0, **results["measured"].get(sources, {})}}
    measured[sources]["machine"] = describe_machine()
    known = {row["config_hash"]: row for row in rows.values() if row["sources"] == sources}
    for cell in cells:
        watch, name = Stopwatch(), {"factor": cell.setting.factor, "value": cell.setting.value}
        config_hash = cell.config_hash(attempts)
        if config_hash not in known:
            print(f"{cell.task} {cell.variant}, {name['factor']} {name['value']}", file=sys.stderr, flush=True)
            known[config_hash] = cell.measure(attempts)
            measured[sources]["cpu_s"] = round(measured[sources]["cpu_s"] + watch.sample(0).cpu_s, 1)
        same = config_hash == Cell(BASE, cell.task, cell.variant).config_hash(attempts)
        row = {**known[config_hash], **name, "as_configured": same, "sources": sources}
        rows[_key(row)] = row
        ordered = [rows[key] for key in map(_key, map(_names, CELLS)) if key in rows]
        used = {row["sources"] for row in ordered}
        results = {"measured": {one: what for one, what in measured.items() if one in used}, "rows": ordered}
        write_text(file, json.dumps(results, indent=1) + "\n")
    return read_json(file)


def _names(cell: Cell) -> dict[str, Any]:
    """What tells a cell's row from others."""
    setting = cell.setting
    return {"factor": setting.factor, "value": setting.value, "task": cell.task, "variant": cell.variant}


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("factor", "value", "task", "variant"))


def render(results: dict[str, Any]) -> str:
    """The page of results."""
    rows, measured = results["rows"], results["measured"]
    lines = []
    for sources, what in measured.items():
        factors = ", ".join(dict.fromkeys(row["factor"] for row in rows if row["sources"] == sources))
        which = f"{factors[0].upper()}{factors[1:]}: " if len(measured) > 1 else ""
        lines.append(f"{which}{machine_line(what['machine'])} Took {what['cpu_s'] / 60:.0f} minutes of CPU time.\n")
    return (
        "# Ablations: results\n\n"
        "Written by `python -m experiments.ablations`; README.md in its folder explains it.\n\n"
        f"Successful attempts in per cent of {rows[0]['attempts']}, with Wilson's 95 % interval. "
        "*Italic*: as the task's config has it.\n\n"
        f"{table(rows)}\n" + "\n".join(lines)
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each setting, a column for each task and variant."""
    header = ("factor", "value", *(f"{task} {variant}" for task, variant in COLUMNS))
    return markdown_table(header, list(_lines(rows)))


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    found = {_key(row): row for row in rows}
    for setting in SETTINGS:
        cells = []
        for column in COLUMNS:
            row = found.get((setting.factor, setting.value, *column))
            cells.append(_cell(row, italic=row is not None and row["as_configured"] and setting != BASE))
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
