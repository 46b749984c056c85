"""Whole runs of a generator on a small env, for tests."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import torch
from arm_env import ArmEnv, pick_demo

from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState

PICK = [
    SubTaskConfig(
        "cube",
        "grasp",
        "nearest_neighbor_object",
        {"nn_k": 2},
        first_subtask_start_offset_range=(0, 4),
        subtask_term_offset_range=(1, 4),
        action_noise=0.005,
    ),
    SubTaskConfig("cube", action_noise=0.005, num_interpolation_steps=2),
]


@dataclass
class Sink:
    """Keeps committed episodes."""

    episodes: list[Episode] = field(default_factory=list)

    def try_commit(self, episode: Episode) -> bool:
        self.commit(episode)
        return True

    def commit(self, episode: Episode) -> None:
        self.episodes.append(episode)


def make(num_envs: int, kind: type[DataGenerator] = DataGenerator, demos: int = 6, **config: Any) -> DataGenerator:
    env = ArmEnv(num_envs)
    pool = DataGenInfoPool(env, {"arm": PICK})
    pool.add_demos([pick_demo(seed) for seed in range(demos)])
    return kind(env, pool, datagen_cfg=DataGenConfig(generation_select_src_per_subtask=True, **config))


def run(generator: DataGenerator, attempts: int = 20, **options: Any) -> tuple[list[Outcome], list[Episode]]:
    """Run that many attempts; every one is kept."""
    sink, outcomes = Sink(), []

    async def main() -> None:
        state = RunState(
            generator.env,
            BudgetLimits(10**6, max_attempts=attempts),
            RunOptions(hold_steps=1, stall_timeout_s=20, **options),
            sink=sink,
            failed_sink=sink,
            on_outcome=outcomes.append,
            lock=generator.src_demo_datagen_info_pool.asyncio_lock,  # ty: ignore[invalid-argument-type]
        )
        await generate(state, generator)

    asyncio.run(main())
    return outcomes, sink.episodes


def assert_same(ours: tuple[list[Outcome], list[Episode]], theirs: tuple[list[Outcome], list[Episode]]) -> None:
    for a, b in zip(ours[0], theirs[0], strict=True):
        assert (a.attempt, a.success, a.reason, a.length, a.source_demos) == (
            b.attempt,
            b.success,
            b.reason,
            b.length,
            b.source_demos,
        )
    for a, b in zip(ours[1], theirs[1], strict=True):
        assert all(torch.equal(a.columns[name], b.columns[name]) for name in a.columns)
