"""A pool that grows while every generator runs, by the run's own tasks and from another thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from arm_env import ArmEnv, pick_demo
from generation_runs import PICK, Sink

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState

FIRST, MORE, ATTEMPTS = 2, 120, 60
"""Demos at the start, those added while it runs (tables are moved several times on the way), attempts."""


class FromTheFirstTwo(DataGenerator):
    """Every attempt chooses among the demos that were there at the start, however many come."""

    async def generate(self, *args: Any, **others: Any) -> dict[str, Any]:
        return await super().generate(*args, **others, visible=FIRST)


def made(num_envs: int, kind: type[DataGenerator]) -> DataGenerator:
    pool = DataGenInfoPool(ArmEnv(num_envs), {"arm": PICK})
    pool.add_demos([pick_demo(seed) for seed in range(FIRST)])
    return kind(pool.env, pool, datagen_cfg=DataGenConfig(generation_select_src_per_subtask=True))


def run(generator: DataGenerator, grow: Any = None) -> tuple[list[Outcome], list[Episode]]:
    """Run, with a coroutine function beside it that gets the pool."""
    sink, outcomes, pool = Sink(), [], generator.src_demo_datagen_info_pool

    async def main() -> None:
        limits = BudgetLimits(10**6, max_attempts=ATTEMPTS)
        state = RunState(
            generator.env, limits, RunOptions(hold_steps=1, stall_timeout_s=20), sink=sink, on_outcome=outcomes.append
        )
        growing = asyncio.create_task(grow(pool)) if grow is not None else None
        await generate(state, generator)
        if growing is not None:
            await growing

    asyncio.run(main())
    return outcomes, sink.episodes


def more(number: int) -> SourceDemo:
    """A demo that is added while the run goes on."""
    return replace(pick_demo(number % 8), name=f"more_{number}")


async def grow_in_a_task(pool: DataGenInfoPool) -> None:
    for seed in range(MORE):
        await pool.add_episode(more(seed))
        await asyncio.sleep(0)


async def grow_from_threads(pool: DataGenInfoPool) -> None:
    """Two threads, each of which waits for its demos to be added."""
    loop = asyncio.get_running_loop()

    def add(half: int) -> int:
        for seed in range(half, MORE, 2):
            asyncio.run_coroutine_threadsafe(pool.add_episode(more(seed)), loop).result(timeout=30)
        return threading.get_ident()

    with ThreadPoolExecutor(2) as threads:
        idents = await asyncio.gather(*(loop.run_in_executor(threads, add, half) for half in (0, 1)))
    assert threading.get_ident() not in idents


@pytest.fixture(scope="module")
def alone() -> tuple[list[Outcome], list[Episode]]:
    for seed in range(8):
        pick_demo(seed)  # made once, and not in a thread of its own
    return run(made(1, FromTheFirstTwo))


@pytest.mark.parametrize("grow", [grow_in_a_task, grow_from_threads])
@pytest.mark.parametrize("num_envs", [1, 16])
def test_what_is_added_changes_nothing_for_attempts_that_do_not_see_it(alone, grow, num_envs) -> None:
    generator = made(num_envs, FromTheFirstTwo)
    outcomes, episodes = run(generator, grow)
    assert generator.src_demo_datagen_info_pool.num_datagen_infos == FIRST + MORE
    assert [(o.success, o.length, o.source_demos) for o in outcomes] == [
        (o.success, o.length, o.source_demos) for o in alone[0]
    ]
    for ours, theirs in zip(episodes, alone[1], strict=True):
        assert torch.equal(ours.columns["action"], theirs.columns["action"])


@pytest.mark.parametrize("grow", [grow_in_a_task, grow_from_threads])
def test_an_attempt_sees_the_demos_that_were_there_when_it_began(grow) -> None:
    class Notes(DataGenerator):
        async def generate(self, *args: Any, **others: Any) -> dict[str, Any]:
            there = self.src_demo_datagen_info_pool.num_datagen_infos
            results = await super().generate(*args, **others)
            return {**results, "metadata": {"there": there}}

    generator = made(16, Notes)
    outcomes, episodes = run(generator, grow)
    assert len(outcomes) == ATTEMPTS
    names = list(generator.src_demo_datagen_info_pool.demo_names)
    assert len(set(names)) == FIRST + MORE
    used = set()
    for episode in episodes:
        chosen = {source["demo"] for source in episode.outcome.source_demos}
        assert chosen <= set(names[: episode.metadata["there"]])
        used |= chosen
    assert len(used) > FIRST, "later attempts use what was added"


def test_adding_directly_from_another_thread_is_refused_and_says_how() -> None:
    pool = made(1, DataGenerator).src_demo_datagen_info_pool
    with ThreadPoolExecutor(1) as thread:
        for function in (lambda: pool.add_demos([pick_demo(0)]), lambda: asyncio.run(pool.add_episode(pick_demo(0)))):
            with pytest.raises(RuntimeError, match="run_coroutine_threadsafe"):
                thread.submit(function).result(timeout=20)
    assert pool.num_datagen_infos == FIRST
    assert not pool.asyncio_lock.locked()
