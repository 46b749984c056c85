"""Entry point: `python -m experiments.chaos`, from the project's root."""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.chaos.killing import Killer, Recorders, Runs, Tally
from experiments.chaos.moments import PHASES
from experiments.harness import describe_machine, machine_line, markdown_table, results_folder, write_text

KINEMATIC = ("env=kinematic", "env.lag=0.85", "task=stack", "env.num_envs=8")
MUJOCO = ("env=mujoco", "env.cameras=[front]", "env.image_size=[48,64]", "task=pick", "env.num_envs=2")
SHARES = (0.5, 0.2, 0.3)
"""Of the kills, in the order of the kinds."""


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, resume and compare; the exit code is 1 if anything was lost or differs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.chaos", description="kill -9 at random moments.")
    parser.add_argument("--kills", type=int, help="in all (default: 100)")
    parser.add_argument(
        "--smoke", action="store_true", help="one kill of each kind, to see whether it runs; into outputs/smoke/"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="folder for the results (default: results/ here)")
    args = parser.parse_args(argv)
    kills = args.kills or (1 if args.smoke else 100)
    out = results_folder("chaos", args.out, smoke=args.smoke)
    os.environ["OMP_NUM_THREADS"] = "1"
    description = describe_machine()
    demos = (8, 2, 4) if args.smoke else (40, 4, 12)
    kinds = (
        Runs("run.py, env=kinematic", KINEMATIC, demos[0]),
        Runs("run.py, env=mujoco, one camera as video", MUJOCO, demos[1]),
        Recorders("recorder, two cameras as video, 0 to 2 workers", demos[2]),
    )
    chance, began, tallies = random.Random(args.seed), time.monotonic(), []
    for kind, share in zip(kinds, SHARES, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            tallies.append(Killer(chance, Path(folder)).kill(kind, max(1, round(share * kills))))
    minutes = (time.monotonic() - began) / 60
    found = {
        "machine": description,
        "seed": args.seed,
        "minutes": minutes,
        "rows": [asdict(tally) for tally in tallies],
    }
    write_text(out / "chaos.json", json.dumps(found, indent=1))
    page = render(tallies) + f"\n{machine_line(description)} Took {minutes:.0f} min.\n"
    write_text(out / "chaos.md", page)
    print(page)
    return int(any(tally.lost or tally.unreadable or tally.different for tally in tallies))


def render(tallies: Sequence[Tally]) -> str:
    """The page: what was killed when, and what came of it."""
    kills = sum(tally.kills for tally in tallies)
    columns = ("kills", "signals", "ended", "reported", "lost", "unreadable", "different")
    header = ("what", "kills", "SIGTERM", "to the end", "durable", "lost", "unreadable", "other datasets")
    outcome = markdown_table(header, [(t.what, *(f"{getattr(t, key):,}" for key in columns)) for t in tallies])
    moments = markdown_table(
        ("killed while", *PHASES), [(t.what, *(str(t.phases.get(name, 0)) for name in PHASES)) for t in tallies]
    )
    return f"# Chaos: {kills} kills\n\nWritten by `python -m experiments.chaos`.\n\n{outcome}\n{moments}"


if __name__ == "__main__":
    sys.exit(main())
