"""Rates on one Isaac Lab environment: `env.step` alone, the pipeline with and without a recorder, the peer's loop.

All run the same environment, physics replayed as a CPU graph, on the same source demos, for as many attempts, in turns
in one process, each in an environment of its own (Isaac Lab has one at a time): async, none, the peer, and so on. After
each run of the pipeline its steps are made again with `env.step` alone, from the same states with the same actions, and
it is compared with that; the peer, whose actions are others, with the median of all. A row is the median of the turns.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from experiments.harness import Parts, Stopwatch, built, compose, run_pipeline, torch_threads
from experiments.isaaclab.peer import PeerRun, run_peer
from experiments.isaaclab.tape import Tape
from mimicpipe.preflight import source_demo_paths


@dataclass(frozen=True)
class Case:
    """So many slots, attempts of each run, and turns."""

    num_envs: int
    attempts: int
    turns: int
    holding_steps: int
    """Control steps with actions that hold, in each run of the pipeline."""


FULL = (Case(64, 192, 3, 40),)
SMOKE = (Case(2, 6, 1, 3),)


@dataclass(frozen=True)
class OurRun:
    """One run of the pipeline; rates are env-steps per second."""

    rate: float
    """While every slot had work."""
    whole: float
    """From the first attempt to the end of the last."""
    alone: float
    """Of `env.step` alone, over the same steps."""
    cpu_share: float
    """CPU time of `env.step` alone, over the same steps, by that of the loop's thread."""
    holding: float
    """Of `env.step` alone, with actions that hold every slot where a reset has put it."""
    success: float


def measure(cases: tuple[Case, ...]) -> list[dict[str, Any]]:
    """One row per way of running and case; torch uses one thread."""
    with torch_threads(1), tempfile.TemporaryDirectory() as folder:
        return [row for case in cases for row in _measure_case(case, Path(folder))]


def _measure_case(case: Case, folder: Path) -> list[dict[str, Any]]:
    ours: dict[str, list[OurRun]] = {"async": [], "none": []}
    peers: list[PeerRun] = []
    config = compose("env=isaaclab", "tracker=none", f"dataset.root={folder / 'unused'}")
    (source,) = source_demo_paths(config)
    for turn in range(case.turns):
        for recorder, runs in ours.items():
            runs.append(_our_run(case, recorder, folder / f"{recorder}_{turn}"))
        file = folder / f"peer_{turn}.hdf5"
        peers.append(run_peer(config.env["task"], source, file, case.num_envs, case.attempts, seed=turn))
    shared = {"num_envs": case.num_envs, "attempts": case.attempts, "turns": case.turns, "task": config.env["task"]}
    return [{**shared, **row} for row in _rows(ours, peers)]


def _rows(ours: dict[str, list[OurRun]], peers: list[PeerRun]) -> list[dict[str, Any]]:
    every = [run for runs in ours.values() for run in runs]
    alone, holding = median(run.alone for run in every), median(run.holding for run in every)
    bare = {"whole": None, "success": None}
    rows: list[dict[str, Any]] = [
        {"way": "env.step alone, the same steps", "steps_per_s": alone, "share": 1.0, **bare},
        {"way": "env.step alone, holding", "steps_per_s": holding, "share": holding / alone, **bare},
    ]
    for recorder, runs in ours.items():
        rows.append(
            {
                "way": f"mimicpipe, recorder={recorder}",
                "steps_per_s": median(run.rate for run in runs),
                "share": median(run.rate / run.alone for run in runs),
                "shares": [round(run.rate / run.alone, 3) for run in runs],
                "cpu_share": median(run.cpu_share for run in runs),
                "whole": median(run.whole for run in runs),
                "success": median(run.success for run in runs),
            }
        )
    rows.append(
        {
            "way": "Isaac Lab Mimic's loop",
            "steps_per_s": median(peer.rate for peer in peers),
            "share": median(peer.rate for peer in peers) / alone,
            "whole": median(peer.whole for peer in peers),
            "success": median(peer.successes / peer.attempts for peer in peers),
            "share_within_env_step": median(peer.step_s / peer.wall_s for peer in peers),
        }
    )
    return rows


def _our_run(case: Case, recorder: str, root: Path) -> OurRun:
    counts = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    with built("env=isaaclab", *counts, f"recorder={recorder}", f"dataset.root={root}") as parts:
        holding = holding_rate(parts, case.holding_steps)
        env: Any = parts.env
        with Tape(env) as tape:
            generated = run_pipeline(parts)
        wall_s, cpu_s = tape.replay()
    return OurRun(
        rate=tape.rate,
        whole=generated.until_generated.rate,
        alone=case.num_envs * tape.steps / wall_s,
        cpu_share=cpu_s / tape.cpu_s,
        holding=holding,
        success=generated.state.budget.successes / case.attempts,
    )


def holding_rate(parts: Parts, steps: int) -> float:
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
