"""(c) `env.num_envs` x `recorder` x `recorder.async_queue_maxsize`, swept through Hydra as a user would.

Two multiruns of `conf/experiment/throughput.yaml`, because only recorder=async has a queue. The figures come from the
`run.json` of each job; those of a row are medians over seeds, so that what only the first job of a process does
(importing LeRobot) decides none of them.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments.harness import ROOT

QUEUE_SIZES = (1, 8, 64)
_ORDER = ("none", "sync", "async")


def measure(
    folder: Path, queue_sizes: Sequence[int] = QUEUE_SIZES, overrides: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Run both multiruns below `folder`, which must be empty or missing; one row per combination.

    Raises:
        FileExistsError: there are results in the folder.
        RuntimeError: a job failed; names the log.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    sizes = ",".join(str(size) for size in queue_sizes)
    multirun(folder / "async", "recorder=async", f"recorder.async_queue_maxsize={sizes}", *overrides)
    multirun(folder / "others", "recorder=none,sync", *overrides)
    return collect(folder)


def multirun(folder: Path, *overrides: str) -> None:
    """`python run.py -m experiment=throughput OVERRIDES` with its jobs and its log in `folder`, torch on one thread."""
    command = [sys.executable, str(ROOT / "run.py"), "-m", "experiment=throughput", f"hydra.sweep.dir={folder}"]
    folder.mkdir(parents=True)
    log = folder / "multirun.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run([*command, *overrides], stdout=out, stderr=out, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"the sweep failed with exit code {done.returncode}; its output is in {log}")


def collect(folder: Path) -> list[dict[str, Any]]:
    """Rows of all jobs below a folder, by recorder, queue size and num_envs."""
    jobs: defaultdict[tuple[int, int, int], list[dict[str, Any]]] = defaultdict(list)
    for path in folder.glob("*/*/run.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        queue = run["config"]["recorder"].get("async_queue_maxsize")
        key = (_ORDER.index(run["choices"]["recorder"]), queue or 0, run["config"]["env"]["num_envs"])
        jobs[key].append(run)
    return [_row(jobs[key]) for key in sorted(jobs)]


def _row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    first = runs[0]
    recorder = first["choices"]["recorder"]
    peaks = [run["recorder"]["queue_peak"] for run in runs if "queue_peak" in run["recorder"]]
    return {
        "recorder": recorder,
        "queue_maxsize": first["config"]["recorder"].get("async_queue_maxsize"),
        "num_envs": first["config"]["env"]["num_envs"],
        "env": first["choices"]["env"],
        "task": first["choices"]["task"],
        "jobs": len(runs),
        "attempts": first["counts"]["attempts"],
        "demos": median(run["counts"]["successes"] for run in runs),
        "wall_s": median(run["wall_s"] for run in runs),
        "env_steps_per_s": median(run["rates"]["env_steps_per_s"] for run in runs),
        "demos_per_hour": median(run["rates"]["demos_per_hour"] for run in runs),
        "held_s": median(_held_s(run) for run in runs),
        "held_share": median(_held_s(run) / run["wall_s"] for run in runs),
        "queue_peak": median(peaks) if peaks else None,
        "backpressure_events": median(run["recorder"]["backpressure_events"] for run in runs) if peaks else None,
    }


def _held_s(run: dict[str, Any]) -> float:
    """Seconds for which the recorder held the simulator up: a full queue; with recorder=sync, all of its work."""
    if run["choices"]["recorder"] == "sync":
        return run["stage_s"]["record"]
    return run["recorder"].get("backpressure_s", 0.0)
