"""(a) Env-steps per second without physics: what the pipeline itself costs.

The pipeline runs `env=kinematic recorder=none`. Beside it, in the same process and in turn, the bare loop: the tensor
work that this env does for a step (target pose to action, step, success), called in a plain `for`. Their ratio is what
queues, coroutines, planning, resets and bookkeeping leave of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from experiments.harness import Parts, Sample, Stopwatch, built, run_pipeline, torch_threads

GOALS = {1: 2_000.0, 4096: 2_000_000.0}
"""{num_envs: env-steps/s that the pipeline must reach}."""


@dataclass(frozen=True)
class Case:
    """So many attempts at so many envs."""

    num_envs: int
    attempts: int


CASES = (Case(1, 256), Case(16, 2048), Case(64, 4096), Case(256, 8192), Case(1024, 16384), Case(4096, 49152))
"""A dozen attempts or more for every slot, as slots act in time with each other at first; a second of work or more."""


def measure(cases: Sequence[Case] = CASES, repeats: int = 7) -> list[dict[str, Any]]:
    """One row per case: medians over repeats in which pipeline and bare loop take turns; torch uses one thread."""
    with torch_threads(1):
        return [_measure_case(case, repeats) for case in cases]


def _measure_case(case: Case, repeats: int) -> dict[str, Any]:
    overrides = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    with built("env=kinematic", "pool=scripted", "recorder=none", *overrides) as parts:
        run_pipeline(parts)  # warm up
        pipeline: list[Sample] = []
        bare: list[Sample] = []
        for _ in range(repeats):
            pipeline.append(run_pipeline(parts).until_generated)
            bare.append(bare_loop(parts, max(1, pipeline[-1].env_steps // case.num_envs)))
    rate, goal = median(s.rate for s in pipeline), GOALS.get(case.num_envs)
    return {
        "num_envs": case.num_envs,
        "attempts": case.attempts,
        "env_steps": pipeline[0].env_steps,
        "pipeline_steps_per_s": rate,
        "pipeline_steps_per_cpu_s": median(s.env_steps / s.cpu_s for s in pipeline),
        "bare_steps_per_s": median(s.rate for s in bare),
        "ratio": median(p.rate / b.rate for p, b in zip(pipeline, bare, strict=True)),
        "goal_steps_per_s": goal,
        "goal_met": None if goal is None else rate >= goal,
        "repeats_steps_per_s": [round(s.rate) for s in pipeline],
    }


def bare_loop(parts: Parts, steps: int) -> Sample:
    """The env's own tensor work for a step, `steps` times, with no pipeline around it."""
    env = parts.env
    targets = {eef: env.get_robot_eef_pose(eef) for eef in env.eef_names}
    grippers = {eef: torch.ones(env.num_envs, env.gripper_dim) for eef in env.eef_names}
    noise = {eef: torch.full((env.num_envs, env.noise_dim), 0.01) for eef in env.eef_names}
    watch = Stopwatch()
    with torch.inference_mode():
        for _ in range(steps):
            env.step(env.target_eef_pose_to_action(targets, grippers, noise))
            env.success()
    return watch.sample(steps * env.num_envs)
