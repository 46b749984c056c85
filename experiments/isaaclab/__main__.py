"""Entry point: `.venv-isaaclab/bin/python -m experiments.isaaclab`, from the project's root."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.harness import describe_machine, measure_section, results_folder, write_text
from experiments.isaaclab.report import render
from mimicpipe.envs.isaaclab.extra import check_installed
from mimicpipe.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.isaaclab", description="Measure on Isaac Lab.")
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see whether it runs; into outputs/smoke/")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    try:
        check_installed()
    except ConfigError as error:
        print(f"isaaclab: left out; {error}", file=sys.stderr)
        return 0
    from experiments.isaaclab import cells

    out = results_folder("isaaclab", args.out, smoke=args.smoke)
    cases = cells.SMOKE if args.smoke else cells.FULL
    description = describe_machine()  # before the first result makes the work tree differ from the commit
    results = measure_section("rates", lambda: cells.measure(cases), out / "isaaclab.json", description)
    write_text(out / "isaaclab.md", render(results))
    print(render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
