"""Faults that other pipelines of this kind are known for, each of them looked for in a whole run."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from generators import MemorySink, PlanGenerator, run_to_end
from point_env import PointEnv

from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.protocol import PlanBatch, PlanFailedError
from mimicpipe.pipeline.run_state import RunOptions
from mimicpipe.rng import Stream, uniforms

OPTIONS = RunOptions(hold_steps=10, stall_timeout_s=50.0)


class WatchedEnv(PointEnv):
    """Counts what is asked of it for each slot."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.observed: Counter[int] = Counter()
        self.stepped: Counter[int] = Counter()

    def observe(self, env_ids=None):
        self.observed.update(range(self.num_envs) if env_ids is None else env_ids.tolist())
        return super().observe(env_ids)

    def step(self, actions, env_ids=None) -> None:
        self.stepped.update(range(self.num_envs) if env_ids is None else env_ids.tolist())
        super().step(actions, env_ids)


def test_a_slot_is_reset_once_an_attempt_and_observed_once_a_step():
    """A second reset at an episode's border would draw another scene; a second look would advance a history twice."""
    env, sink = WatchedEnv(3), MemorySink()
    asyncio.run(
        run_to_end(
            env, PlanGenerator(env), num_demos=100, max_attempts=12, options=OPTIONS, sink=sink, failed_sink=sink
        )
    )
    assert sum(len(slots) for slots in env.resets) == 12
    assert env.observed == env.stepped
    assert sum(env.stepped.values()) == sum(episode.length for episode in sink.episodes)


def test_the_first_frame_of_an_episode_shows_its_own_scene():
    env, sink = WatchedEnv(2), MemorySink()
    limits = {"num_demos": 100, "max_attempts": 8}
    asyncio.run(run_to_end(env, PlanGenerator(env), options=OPTIONS, sink=sink, failed_sink=sink, **limits))
    for episode in sink.episodes:
        first = episode.columns["observation.state"][0]
        goal = torch.from_numpy(uniforms([episode.outcome.seed], Stream.SCENE, 3)).float()[0]
        assert torch.equal(first, torch.cat((torch.zeros(3), goal, torch.zeros(1))))
        assert torch.equal(episode.initial_state.float(), first)


class FlyBy:
    """Comes through the goal, and leaves it again."""

    def __init__(self, env) -> None:
        self.env = env

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt: Attempt):
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        for step in range(40):
            state = self.env.state[env_id]
            away = torch.full((3,), 0.1) if step > 25 else state[3:6] - state[:3]
            await env_action_queue.put((env_id, torch.cat((away, torch.ones(1)))))
            await env_action_queue.join()


def test_success_in_passing_is_none():
    env = PointEnv(2)
    _, outcomes, _ = asyncio.run(run_to_end(env, FlyBy(env), num_demos=5, max_attempts=4, options=OPTIONS))
    assert [outcome.reason for outcome in outcomes] == ["success_not_held"] * 4


@dataclass
class Request:
    planner: Any


class NoWay:
    """Finds no plan for the last attempt."""

    def __init__(self, env, last: int) -> None:
        self.env, self.last, self.good = env, last, PlanGenerator(env, fail_every=10**6)

    def plan_batch(self, env_ids, requests) -> PlanBatch:
        errors: dict[int, Exception] = {row: PlanFailedError("a wall is in the way") for row in range(len(requests))}
        return PlanBatch(torch.ones(len(requests), dtype=torch.int64), {}, errors)

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt: Attempt):
        if attempt.index < self.last:
            return await self.good.generate(env_id, env_reset_queue, env_action_queue, attempt)
        await env_reset_queue.put(env_id)
        await env_action_queue.put((env_id, Request(self)))
        await env_action_queue.join()
        raise AssertionError("there is no plan")


@pytest.mark.parametrize("num_envs", [1, 4])
def test_the_last_attempt_counts_also_where_its_plan_fails(num_envs):
    env = PointEnv(num_envs)
    run, outcomes, reason = asyncio.run(
        run_to_end(env, NoWay(env, last=5), num_demos=10, max_attempts=6, options=OPTIONS)
    )
    assert reason == "max_attempts"
    assert [outcome.reason for outcome in outcomes] == ["success"] * 5 + ["plan_failed"]
    assert outcomes[-1].detail == "a wall is in the way"
    assert run.counters.reasons == {"success": 5, "plan_failed": 1}


def test_a_row_names_the_source_demos():
    env = PointEnv(2)
    _, outcomes, _ = asyncio.run(run_to_end(env, PlanGenerator(env), num_demos=4, options=OPTIONS))
    assert all(outcome.source_demos == [{"eef": "point", "subtask": 0, "demo": 0}] for outcome in outcomes)


@pytest.mark.parametrize(("attribute", "kind"), [("object_names", "object"), ("eef_names", "end effector")])
def test_two_of_the_same_name_are_refused(attribute, kind):
    env = PointEnv(1)
    setattr(env, attribute, getattr(env, attribute) * 2)
    with pytest.raises(ConfigError, match=f"more than one {kind} is called {getattr(env, attribute)[0]}"):
        DataGenInfoPool(env, {"point": [SubTaskConfig("goal")]})
    assert np.asarray(getattr(env, attribute)).size == 2
