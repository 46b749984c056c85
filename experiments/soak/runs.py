"""The two long runs: `run.py` itself, in a process of its own, watched through what it leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from experiments.harness import ROOT, read_json
from experiments.soak.nothing_lost import check_nothing_lost
from experiments.soak.series import deciles, growth, read_metrics, thinned

FLAT = 0.02
"""Memory that changes by less than this share over the settled part of a run is flat."""
_WAIT_S = 600.0
"""What a run may take to begin, and again to end, seconds."""


def measure_growth(folder: Path, episodes: int = 100_000, num_envs: int = 1024) -> dict[str, Any]:
    """Memory and time per step over many short episodes, without physics and recorder.

    Raises:
        RuntimeError: the run failed.
    """
    budget = (f"num_demos={episodes}", f"max_attempts={episodes}", f"env.num_envs={num_envs}")
    process = _start(folder, "env=kinematic", "recorder=none", *budget)
    _await_end(process, folder, timeout_s=None, expected=0)
    result = _summary(folder, "generation/attempts")
    if result["attempts"] != episodes:
        raise RuntimeError(f"{folder}: {result['attempts']} attempts, not {episodes}")
    return {"num_envs": num_envs, **result}


def measure_slow_disk(
    folder: Path,
    minutes: float = 30.0,
    num_envs: int = 64,
    mb_per_s: float = 0.1,
    hang_every_s: float = 120.0,
    hang_s: float = 10.0,
    queue: int = 64,
) -> dict[str, Any]:
    """`recorder=async` on a disk that is slower than the simulator, for so many minutes; then SIGINT, as a person does.

    Raises:
        RuntimeError: the run failed.
        AssertionError: an episode is missing, or not what attempts.jsonl says of it.
    """
    disk = (f"+recorder.mb_per_s={mb_per_s}", f"+recorder.hang_every_s={hang_every_s}", f"+recorder.hang_s={hang_s}")
    process = _start(
        folder,
        "env=mujoco",
        f"env.num_envs={num_envs}",
        "recorder=async",
        "recorder._target_=experiments.soak.slow_disk.SlowDiskRecorder",
        "allowed_targets=[experiments]",
        f"recorder.async_queue_maxsize={queue}",
        *disk,
        "num_demos=100000000",
    )
    try:
        _await_first_sample(process, folder)
        time.sleep(60.0 * minutes)
        process.send_signal(signal.SIGINT)
        _await_end(process, folder, timeout_s=_WAIT_S, expected=130)
    finally:
        process.kill()
    rows = read_metrics(folder / "metrics.jsonl")
    generated = [row for row in rows if not row["recorder/finalize_s"]]
    names = ("recorder/queue_size", "recorder/backpressure_s")
    return {
        "minutes": minutes,
        "num_envs": num_envs,
        "disk_mb_per_s": mb_per_s,
        "hang": [hang_every_s, hang_s],
        **_summary(folder, "wall_s", generated, names),
        "recorder": read_json(folder / "run.json")["recorder"],
        "checked": check_nothing_lost(folder),
    }


def _start(folder: Path, *overrides: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(ROOT / "run.py"), *overrides, "tracker=none", f"hydra.run.dir={folder}"]
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=output, stderr=subprocess.STDOUT
        )


def _await_first_sample(process: subprocess.Popen[bytes], folder: Path) -> None:
    metrics, until = folder / "metrics.jsonl", time.monotonic() + _WAIT_S
    while not (metrics.is_file() and metrics.stat().st_size):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the run did not begin; see {folder / 'output.txt'}")
        time.sleep(0.2)


def _await_end(process: subprocess.Popen[bytes], folder: Path, timeout_s: float | None, expected: int) -> None:
    code = process.wait(timeout_s)
    if code != expected:
        raise RuntimeError(f"the run ended with exit code {code}, not {expected}; see {folder / 'output.txt'}")


def _summary(
    folder: Path, axis: str, rows: list[dict[str, float]] | None = None, names: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What both runs report: the ten parts, how memory and CPU time per step have changed, and a few samples."""
    run = read_json(folder / "run.json")
    rows = rows or read_metrics(folder / "metrics.jsonl")
    parts = deciles(rows, axis)
    rss_growth = growth(parts, "rss_mb")
    return {
        "attempts": run["counts"]["attempts"],
        "successes": run["counts"]["successes"],
        "env_steps": run["counts"]["env_steps"],
        "wall_s": run["wall_s"],
        "peak_rss_mb": run["peak_rss_mb"],
        "bottleneck": run["bottleneck_proof"],
        "rss_growth": rss_growth,
        "cpu_per_step_growth": growth(parts, "cpu_us_per_step"),
        "wall_per_step_growth": growth(parts, "wall_us_per_step"),
        "rss_flat": rss_growth is not None and abs(rss_growth) < FLAT,
        "parts": parts,
        "samples": thinned(rows, ("wall_s", "system/rss_mb", "env_steps", *names)),
    }
