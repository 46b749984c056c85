"""One row per num_envs: bare physics, and the pipeline with each recorder, taking turns in one process."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from experiments.gpu.report import RECORDERS
from experiments.gpu.tape import synchronize, taped
from experiments.harness import Generated, Parts, built, compose, run_pipeline

_MOST_TAPED = 100
"""Control steps of a tape: enough to be representative, and some hundreds of megabytes at 8192 envs."""
_STEPS_OF_AN_ATTEMPT = 80


@dataclass(frozen=True)
class Size:
    """So many envs, attempts for each, and rounds."""

    num_envs: int
    attempts_per_env: int = 4
    rounds: int = 3

    @property
    def attempts(self) -> int:
        """Of the whole run."""
        return self.num_envs * self.attempts_per_env


def measure(sizes: list[Size], device: str, task: str = "pick") -> list[dict[str, Any]]:
    """Rows for all sizes."""
    return [_measure(size, device, task) for size in sizes]


def _measure(size: Size, device: str, task: str) -> dict[str, Any]:
    overrides = (
        "env=mujoco_warp", f"env.device={device}", f"env.num_envs={size.num_envs}", f"task={task}",
        f"num_demos={size.attempts}", f"max_attempts={size.attempts}",
    )  # fmt: skip
    every = max(1, size.attempts_per_env * _STEPS_OF_AN_ATTEMPT // _MOST_TAPED)
    raw: list[float] = []
    runs: dict[str, list[Generated]] = {name: [] for name in RECORDERS}
    with tempfile.TemporaryDirectory() as folder, built("recorder=none", *overrides) as parts:
        memory = _memory_mb(parts)
        with taped(parts, every) as tape:  # warms up, too
            for number in range(size.rounds):
                raw.append(tape.batch_steps / tape.play())
                for name in RECORDERS:
                    root = Path(folder) / f"{name}-{number}"
                    runs[name].append(_run(parts, name, root, overrides))
        row: dict[str, Any] = {
            "num_envs": size.num_envs,
            "task": task,
            "attempts": size.attempts,
            "slots_stepped": tape.env_steps / tape.batch_steps / size.num_envs,
            "raw_batch_steps_per_s": median(raw),
            "raw_env_steps_per_s": median(raw) * tape.env_steps / tape.batch_steps,
            "device_memory_mb": memory,
        }
    for name, done in runs.items():
        row[name] = _summary(done)
    row["ratio"] = row["none"]["env_steps_per_s"] / row["raw_env_steps_per_s"]
    return row


def _run(parts: Parts, recorder: str, root: Path, overrides: tuple[str, ...]) -> Generated:
    where = () if recorder == "none" else (f"dataset.root={root}",)
    config = compose("tracker=none", f"recorder={recorder}", *where, *overrides)
    done = run_pipeline(parts, config)
    synchronize(torch.device(parts.env.device))
    return done


def _summary(done: list[Generated]) -> dict[str, Any]:
    """Medians over rounds; demos an hour until the dataset is complete."""
    demos = [run.state.counters.reasons.get("success", 0) for run in done]
    return {
        "demos": median(demos),
        "env_steps_per_s": median(run.until_generated.rate for run in done),
        "demos_per_hour": median(
            3600 * count / run.until_written.wall_s for count, run in zip(demos, done, strict=True)
        ),
        "backpressure_s": median(run.recorder.get("backpressure_s", 0.0) for run in done),
    }


def _memory_mb(parts: Parts) -> float | None:
    """What this process, and whatever else is there, has of the device's memory; None on the CPU."""
    device = torch.device(parts.env.device)
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return (total - free) / 1e6
