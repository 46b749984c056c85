"""Slots that sit out a step while their coroutines go on: the same episodes, and no request served under a step."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from generators import MemorySink, PlanGenerator, StepGenerator, run_to_end
from point_env import PointEnv
from torch import Tensor

from mimicpipe.pipeline.protocol import Plan
from mimicpipe.rng import Seeds


class BackgroundEnv(PointEnv):
    """Steps in a thread, and shows the state before the step until it has ended."""

    steps_in_background = True

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.in_flight: list[int] = []
        self.sizes: list[int] = []

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        ids = self.all_ids() if env_ids is None else env_ids.clone()
        moved = PointEnv(self.num_envs)
        moved.state.copy_(self.state)
        thread = ThreadPoolExecutor(1)
        future = thread.submit(PointEnv.step, moved, actions.clone(), ids)
        self.in_flight = ids.tolist()
        self.sizes.append(len(ids))

        def end() -> None:
            future.result()
            thread.shutdown()
            self.in_flight = []
            self.state[ids] = moved.state[ids]
            self.steps += 1

        return end

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        assert not set(env_ids.tolist()) & set(self.in_flight), "reset under a step"
        super().reset(env_ids, seeds)


def collect(env, generator, **kwargs):
    sink = MemorySink()
    _, outcomes, reason = asyncio.run(run_to_end(env, generator, sink=sink, **kwargs))
    return outcomes, reason, sink.episodes


def summary(outcomes):
    return [(o.attempt, o.seed, o.success, o.reason, o.length) for o in outcomes]


@pytest.mark.parametrize("make_generator", [PlanGenerator, StepGenerator])
@pytest.mark.parametrize("num_envs", [1, 2, 7, 24])
def test_the_same_episodes_as_without_a_background(make_generator, num_envs):
    plain = PointEnv(1)
    expected, _, reference = collect(plain, make_generator(plain))
    env = BackgroundEnv(num_envs)
    outcomes, reason, episodes = collect(env, make_generator(env))
    assert reason == "num_demos"
    assert summary(outcomes) == summary(expected)
    for ours, theirs in zip(episodes, reference, strict=True):
        for name in theirs.columns:
            assert torch.equal(ours.columns[name], theirs.columns[name]), name


def test_a_slot_whose_plan_has_ended_sits_out_while_the_others_step():
    env = BackgroundEnv(24)
    _, _, episodes = collect(env, PlanGenerator(env), num_demos=60)
    assert min(env.sizes[30:60]) < max(env.sizes[30:60]) == 24
    assert sum(episode.length for episode in episodes) <= sum(env.sizes)


class RestlessGenerator(PlanGenerator):
    """Every second attempt leaves in the middle of its plan, or asks for a reset there."""

    def __init__(self, env, misdeed: str) -> None:
        super().__init__(env, fail_every=10**9)
        self.misdeed = misdeed

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
        if attempt.index % 2:
            return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        goal = self.env.get_object_poses(torch.tensor([env_id]))["goal"]
        plan = Plan({"point": goal.expand(500, 4, 4)}, {"point": torch.ones(500, 1)})
        await env_action_queue.put((env_id, plan))
        await asyncio.sleep(0)
        if self.misdeed == "reset":
            await env_reset_queue.put(env_id)
            await env_reset_queue.join()
        return {}


@pytest.mark.parametrize("misdeed", ["reset", "return"])
@pytest.mark.parametrize("env_class", [PointEnv, BackgroundEnv])
def test_a_plan_that_is_left_alone_hurts_that_attempt_only(misdeed, env_class):
    env = env_class(12)
    outcomes, reason, episodes = collect(env, RestlessGenerator(env, misdeed), num_demos=20)
    assert reason == "num_demos"
    plain = PointEnv(1)
    _, _, reference = collect(plain, PlanGenerator(plain, fail_every=10**9), num_demos=40)
    by_attempt = {episode.outcome.attempt: episode for episode in reference}
    for outcome, episode in zip([o for o in outcomes if o.success], episodes, strict=True):
        if outcome.attempt % 2:
            assert torch.equal(episode.columns["action"], by_attempt[outcome.attempt].columns["action"])
    reasons = {o.reason for o in outcomes if o.attempt % 2 == 0}
    if misdeed == "reset":
        assert reasons == {"error:RequestError"}
    else:  # how far the plan has come when the generator returns depends on the machine
        assert reasons <= {"not_successful", "success_not_held", "success"}
