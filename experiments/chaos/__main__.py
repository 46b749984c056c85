"""Entry point: `python -m experiments.chaos`, from the project's root."""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.harness import ROOT, describe_machine, machine_line, markdown_table, write_text
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging_area import is_published, staged_logs, staging_path
from mimicpipe.report.attempts import read_attempts
from mimicpipe.tools import recover

RESULTS = Path(__file__).parent / "results"
MOST_KILLS = 5
"""Of one run; the next time it is left alone. On a busy machine it would else be killed for ever while it imports."""
RUN = ("env=kinematic", "env.lag=0.85", "task=stack", "tracker=none", "env.num_envs=4")


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, resume and compare; the exit code is 1 if anything was lost or differs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.chaos", description="kill -9 at random moments.")
    parser.add_argument("--kills", type=int, default=50, help="of runs, and as many of recorders with cameras")
    parser.add_argument("--demos", type=int, default=400, help="of a run")
    parser.add_argument("--episodes", type=int, default=16, help="of a recorder")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    args = parser.parse_args(argv)
    chance = random.Random(args.seed)
    description = describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            kill_runs(Path(folder), args.kills, args.demos, chance),
            kill_recorders(Path(folder), args.kills, args.episodes, chance),
        ]
    write_text(args.out / "chaos.json", json.dumps({"machine": description, "seed": args.seed, "rows": rows}, indent=1))
    header = ("what", "kills", "runs to the end", "durable, reported", "lost", "unreadable", "other datasets")
    keys = ("kills", "ended", "reported", "lost", "unreadable", "different")
    table = markdown_table(header, [(row["what"], *(f"{row[key]:,}" for key in keys)) for row in rows])
    page = f"# Chaos: results\n\nWritten by `python -m experiments.chaos`.\n\n{table}\n{machine_line(description)}\n"
    write_text(args.out / "chaos.md", page)
    print(page)
    return int(any(row[key] for row in rows for key in ("lost", "unreadable", "different")))


def kill_runs(folder: Path, kills: int, demos: int, chance: random.Random) -> dict[str, Any]:
    """Whole runs of run.py: killed, resumed, killed again, until they end; then the next run."""
    budget = f"num_demos={demos}"
    began = time.monotonic()
    expected = folder / "whole"
    _wait(_start([str(ROOT / "run.py"), *RUN, budget, f"hydra.run.dir={expected}"]))
    longest = time.monotonic() - began
    wanted = digest(expected / "dataset")
    row = _row("run.py, env=kinematic, recorder=async and sharded")
    while row["kills"] < kills:
        run = folder / f"run{row['ended']}"
        recorder = "sharded" if row["ended"] % 2 else "async"
        command = [*RUN, budget, f"recorder={recorder}", f"hydra.run.dir={run}"]
        reported: set[int] = set()
        before = row["kills"]
        while True:
            process = _start([str(ROOT / "run.py"), *command])
            killed = _kill(process, chance.uniform(0, longest), alone=row["kills"] - before == MOST_KILLS)
            row["kills"] += killed
            reported |= {k for k, found in read_attempts(run / "attempts.jsonl").items() if found["success"]}
            row["lost"] += len(reported - _durable(run / "dataset"))
            if is_published(run / "dataset"):
                break
            if not killed:
                raise RuntimeError(f"{run}: ended with exit code {process.returncode} and no dataset")
            if (run / ".hydra" / "overrides.yaml").is_file() and (run / ".hydra" / "config.yaml").is_file():
                command = [f"resume={run}"]
        if staging_path(run / "dataset").is_dir():
            recover.main([str(run)])
        row["reported"] += len(reported)
        _compare(row, run / "dataset", wanted)
        shutil.rmtree(run)
    return row


def kill_recorders(folder: Path, kills: int, episodes: int, chance: random.Random) -> dict[str, Any]:
    """Recorders with two cameras as video: the kill may fall into encoding, writing or assembling."""
    expected = folder / "cameras"
    began = time.monotonic()
    _wait(_start(["-m", "experiments.chaos.victim", str(expected), str(episodes), "0"]))
    longest = time.monotonic() - began
    wanted = digest(expected)
    row = _row("recorder with two cameras, 0 to 2 workers")
    while row["kills"] < kills:
        root = folder / f"set{row['ended']}"
        command = ["-m", "experiments.chaos.victim", str(root), str(episodes), str(row["ended"] % 3)]
        reported: set[int] = set()
        before = row["kills"]
        while not is_published(root):
            process = _start(command, stdout=subprocess.PIPE)
            row["kills"] += _kill(process, chance.uniform(0, longest), alone=row["kills"] - before == MOST_KILLS)
            assert process.stdout is not None
            reported |= {int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")}
            process.stdout.close()
            row["lost"] += len(reported - _durable(root))
        if staging_path(root).is_dir():
            recover.main([str(root)])
        row["reported"] += len(reported)
        _compare(row, root, wanted)
        shutil.rmtree(root)
    return row


def _row(what: str) -> dict[str, Any]:
    return {"what": what, "kills": 0, "ended": 0, "reported": 0, "lost": 0, "unreadable": 0, "different": 0}


def _start(command: Sequence[str], stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )


def _wait(process: subprocess.Popen[str]) -> None:
    if process.wait():
        raise RuntimeError(f"{process.args}: ended with exit code {process.returncode}")


def _kill(process: subprocess.Popen[str], after_s: float, alone: bool) -> bool:
    """Kill a process after so many seconds, unless it is to be left alone; False if it had ended by then."""
    try:
        process.wait(None if alone else after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.3)  # a writer process notices that its run is gone
        return True
    return False


def _durable(root: Path) -> set[int]:
    """Attempts of the episodes that are staged beside a root, or in the dataset there."""
    found = {meta["attempt"] for meta in StagedRun(staged_logs(staging_path(root))).metas}
    if is_published(root):
        found |= {row["attempt"] for row in read_episode_metadata(root)}
    return found


def _compare(row: dict[str, Any], root: Path, wanted: str) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    row["ended"] += 1
    try:
        dataset = LeRobotDataset("local/chaos", root=root, video_backend="pyav")
        dataset[len(dataset) - 1]
    except Exception as error:  # noqa: BLE001 - counted, and shown
        print(f"{root}: {error!r}", file=sys.stderr)
        row["unreadable"] += 1
        return
    row["different"] += digest(root) != wanted


if __name__ == "__main__":
    sys.exit(main())
