"""Rates on one Isaac Lab environment: `env.step` alone, the pipeline with and without a recorder, the peer's loop.

All run the same environment, physics replayed as a CPU graph, on the same source demos, for as many attempts, one after
the other in one process, each in an environment of its own (Isaac Lab has one at a time): async, none, the peer, async,
none. `env.step` alone is measured before and after each run of the pipeline, which is compared with the two, so that a
machine that becomes slower slows both. The peer writes with Isaac Lab's own HDF5 recorder, and is compared with all.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from experiments.harness import Parts, Stopwatch, built, compose, run_pipeline, torch_threads
from experiments.isaaclab.peer import PeerRun, run_peer
from mimicpipe.config import RunConfig
from mimicpipe.preflight import source_demo_paths


@dataclass(frozen=True)
class Case:
    """So many slots, attempts of each run, and bare steps of each measurement of `env.step`."""

    num_envs: int
    attempts: int
    bare_steps: int


FULL = (Case(64, 128, 40),)
SMOKE = (Case(2, 2, 3),)


def measure(cases: tuple[Case, ...]) -> list[dict[str, Any]]:
    """One row per way of running and case; torch uses one thread."""
    with torch_threads(1), tempfile.TemporaryDirectory() as folder:
        return [row for case in cases for row in _measure_case(case, Path(folder))]


def _measure_case(case: Case, folder: Path) -> list[dict[str, Any]]:
    bare: list[float] = []
    ours: dict[str, list[dict[str, float]]] = {"async": [], "none": []}
    _turn(case, folder / "before", bare, ours)
    config, peer = _peer(case, folder)
    _turn(case, folder / "after", bare, ours)
    shared = {"num_envs": case.num_envs, "attempts": case.attempts, "task": config.env["task"]}
    rows = [{**shared, "way": "env.step alone", "steps_per_s": mean(bare), "share": 1.0, "success": None}]
    for recorder, runs in ours.items():
        merged = {key: mean(run[key] for run in runs) for key in ("steps_per_s", "share", "success")}
        rows.append({**shared, "way": f"mimicpipe, recorder={recorder}", **merged})
    rows.append(
        {
            **shared,
            "way": "Isaac Lab Mimic's loop",
            "steps_per_s": peer.rate,
            "share": peer.rate / mean(bare),
            "success": peer.successes / peer.attempts,
            "share_within_env_step": peer.step_s / peer.wall_s,
        }
    )
    return rows


def _turn(case: Case, folder: Path, bare: list[float], ours: dict[str, list[dict[str, float]]]) -> None:
    """Async and none, with `env.step` around each."""
    folder.mkdir()
    counts = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    for recorder, runs in ours.items():
        overrides = ("env=isaaclab", *counts, f"recorder={recorder}", f"dataset.root={folder / recorder}")
        with built(*overrides) as parts:
            before = bare_rate(parts, case.bare_steps)
            generated = run_pipeline(parts)
            after = bare_rate(parts, case.bare_steps)
        bare += [before, after]
        rate = generated.until_generated.rate
        successes = generated.state.budget.successes
        runs.append({"steps_per_s": rate, "share": rate / mean((before, after)), "success": successes / case.attempts})


def bare_rate(parts: Parts, steps: int) -> float:
    """Env-steps per second of Isaac Lab's `env.step`, with actions that hold every slot where a reset has put it."""
    env: Any = parts.env
    with torch.inference_mode():
        env.env.reset()
        hold = torch.zeros(env.num_envs, env.action_dim)
        env.env.step(hold)
        watch = Stopwatch()
        for _ in range(steps):
            env.env.step(hold)
    return watch.sample(steps * env.num_envs).rate


def _peer(case: Case, folder: Path) -> tuple[RunConfig, PeerRun]:
    config = compose("env=isaaclab", "tracker=none", f"dataset.root={folder / 'unused'}")
    (source,) = source_demo_paths(config)
    run = run_peer(config.env["task"], source, folder / "peer.hdf5", case.num_envs, case.attempts)
    return config, run
