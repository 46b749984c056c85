"""Entry point: `python -m experiments.determinism`, from the project's root."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.determinism.grid import GRIDS, SMOKE, run_grid
from experiments.harness import describe_machine, machine_line, markdown_table, results_folder, write_text


def main(argv: Sequence[str] | None = None) -> int:
    """Run the grids, and write json and page; 1 where two runs of a grid differ."""
    parser = argparse.ArgumentParser(prog="python -m experiments.determinism", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    out = results_folder("determinism", args.out, smoke=args.smoke)
    rows = []
    with tempfile.TemporaryDirectory(prefix="determinism_") as folder:
        for grid in SMOKE if args.smoke else GRIDS:
            print(f"{grid.name}: running", file=sys.stderr, flush=True)
            rows.append(run_grid(grid, Path(folder) / grid.name))
    results = {"machine": describe_machine(), "rows": rows}
    write_text(out / "determinism.json", json.dumps(results, indent=1) + "\n")
    page = render(results)
    write_text(out / "determinism.md", page)
    print(page)
    return 0 if all(row["datasets"] == row["attempt_lists"] == 1 for row in rows) else 1


def render(results: dict) -> str:
    """The page of a measurement."""
    header = (
        "grid",
        "runs",
        "attempts",
        "of them failed",
        "different attempts.jsonl",
        "datasets",
        "different datasets",
    )
    rows = [
        [row["name"], f"{row['runs']}", f"{row['attempts']}", f"{row['failed']}", f"{row['attempt_lists']}",
         f"{row['recorded']}", f"{row['datasets']}"]
        for row in results["rows"]
    ]  # fmt: skip
    commands = "\n".join(f"    {row['command']}" for row in results["rows"])
    digests = "\n".join(f"* {row['name']}: `{row['digest']}`" for row in results["rows"])
    return "\n".join(
        (
            "# Determinism: results\n",
            "Written by `python -m experiments.determinism`; README.md in its folder explains it.\n",
            f"{machine_line(results['machine'])}\n",
            markdown_table(header, rows),
            f"{commands}\n",
            f"Digests of the datasets (of the LeRobot ones, where there are several formats):\n\n{digests}\n",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
