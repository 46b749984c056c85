"""The measurements: state only, cameras, memory, many short episodes, the pipeline's own waiting."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.harness import ROOT, built, compose, run_pipeline
from experiments.recorder import writers
from experiments.recorder.episodes import CAMERAS, FPS, FRAMES, STATE, make_episode
from mimicpipe.recorders.sharded import ShardedRecorder

Row = dict[str, Any]
_ALLOWED_MB = 200


def state(ours: int, theirs: int, repeats: int) -> list[Row]:
    """State only: `ours` episodes through the recorders, `theirs` through LeRobot's writer, which is slower."""
    episodes = [make_episode(k, STATE) for k in range(ours)]
    ways = {
        "lerobot": lambda: writers.lerobot(episodes[:theirs], STATE),
        "recorder=async": lambda: writers.record(episodes, STATE),
        "recorder=sharded, 1 worker": lambda: writers.record(episodes, STATE, workers=1),
    }
    return writers.compare(ways, repeats)


def video(count: int, repeats: int, frames: int = FRAMES) -> list[Row]:
    """Two cameras of 128 x 128 pixels as video, LeRobot's settings."""
    features = STATE | CAMERAS
    episodes = [make_episode(k, features, frames) for k in range(count)]
    ways = {
        "bare encoder": lambda: writers.bare_encoder(episodes, features),
        "lerobot": lambda: writers.lerobot(episodes[: max(1, count // 8)], features),
        "lerobot, streaming": lambda: writers.lerobot(
            episodes[: max(1, count // 4)], features, streaming_encoding=True
        ),
        "recorder=async": lambda: writers.record(episodes, features),
        "recorder=async, 2 cameras at once": lambda: writers.record(episodes, features, image_writer_threads=2),
        "recorder=sharded, 1 worker": lambda: writers.record(episodes, features, workers=1),
        "recorder=sharded, 2 workers": lambda: writers.record(episodes, features, workers=2),
    }
    return writers.compare(ways, repeats)


def short(count: int) -> list[Row]:
    """Many episodes of 10 frames: the rate of the first and of the last tenth, committed one after the other."""
    tenth = count // 10
    times = []
    with tempfile.TemporaryDirectory() as folder:
        recorder = ShardedRecorder(Path(folder) / "set", "local/experiment", FPS, STATE, async_queue_maxsize=64)
        recorder.on_durable = lambda *_: times.append(time.perf_counter())
        template = make_episode(0, STATE, frames=10)
        for _ in range(count):
            recorder.commit(template)
        began = time.perf_counter()
        recorder.finalize()
        finalize_s = time.perf_counter() - began
    first = tenth / (times[tenth] - times[0])
    last = tenth / (times[-1] - times[-1 - tenth])
    return [{"episodes": count, "first_per_s": first, "last_per_s": last, "finalize_s": finalize_s}]


def memory(count: int, queue_mb: int) -> list[Row]:
    """Peak memory over the start, of a process that commits `count` episodes as fast as it can."""
    rows = []
    for workers in (0, 1):
        command = [sys.executable, "-m", __name__, str(count), str(queue_mb), str(workers)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
    return rows


def measure_memory(count: int, queue_mb: int, workers: int) -> Row:
    """In a process of its own, because the peak is that of its life."""
    features = STATE | CAMERAS
    template = make_episode(0, features)
    writers.record([template, template], features, workers=workers)  # imports
    before = _rss_mb()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now that of what follows
    with tempfile.TemporaryDirectory() as folder:
        recorder = ShardedRecorder(
            Path(folder) / "set", "local/experiment", FPS, features, max_queue_bytes=queue_mb * 10**6, workers=workers
        )
        for _ in range(count):
            columns = {name: column.clone() for name, column in template.columns.items()}
            recorder.commit(type(template)(template.outcome, columns, template.task, template.initial_state))
        recorder.finalize()
        waited = recorder.stats()["backpressure_s"]
    (peak,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    allowed = queue_mb + template.nbytes / 1e6 + _ALLOWED_MB
    return {
        "workers": workers,
        "episodes": count,
        "committed_mb": count * template.nbytes / 1e6,
        "queue_mb": queue_mb,
        "peak_over_start_mb": int(peak.split()[1]) * 1024 / 1e6 - before,
        "allowed_mb": allowed,
        "waited_s": waited,
    }


def pipeline(num_envs: int, attempts: int) -> list[Row]:
    """What of a run's time the simulator's thread spends on the recorder, on env=mujoco."""
    budget = [f"num_demos={attempts}", f"max_attempts={attempts}", f"env.num_envs={num_envs}"]
    rows = []
    with built("recorder=async", *budget) as parts:
        run_pipeline(parts)  # imports and caches
        for recorder in ("async", "sharded"):
            generated = run_pipeline(parts, compose("tracker=none", f"recorder={recorder}", *budget))
            wall = generated.until_generated.wall_s
            seconds = generated.state.clock.seconds()["record"]
            rows.append(
                {
                    "recorder": recorder,
                    "num_envs": num_envs,
                    "wall_s": wall,
                    "record_share": seconds / wall,
                    "blocked_share": generated.recorder["backpressure_s"] / wall,
                }
            )
    return rows


def sweep(sizes: tuple[int, ...], envs: tuple[int, ...], attempts: int) -> list[Row]:
    """env=kinematic, which is fast enough to fill a queue: throughput and waiting by queue size and num_envs."""
    rows = []
    for num_envs in envs:
        count = max(attempts, 2 * num_envs)
        budget = [f"num_demos={count}", f"max_attempts={count}", f"env.num_envs={num_envs}", "env=kinematic"]
        with built("recorder=async", *budget) as parts:
            run_pipeline(parts)
            for size in sizes:
                config = compose("tracker=none", "recorder=async", f"recorder.async_queue_maxsize={size}", *budget)
                generated = run_pipeline(parts, config)
                stats, timed = generated.recorder, generated.until_generated
                rows.append(
                    {
                        "num_envs": num_envs,
                        "queue_maxsize": size,
                        "env_steps_per_s": timed.rate,
                        "queue_peak": stats["queue_peak"],
                        "backpressure_events": stats["backpressure_events"],
                        "backpressure_s": stats["backpressure_s"],
                        "wall_s": timed.wall_s,
                    }
                )
    return rows


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    print(json.dumps(measure_memory(*itertools.islice(map(int, sys.argv[1:]), 3))))
