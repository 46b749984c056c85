"""Slots that sit out a step while their coroutines go on: the same episodes, and no request served under a step."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from generators import MemorySink, PlanGenerator, StepGenerator, run_to_end
from point_env import PointEnv
from torch import Tensor

from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.protocol import Plan
from mimicpipe.pipeline.run_state import RunOptions, RunState
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


@dataclass
class PointStretch:
    """What `StretchEnv` has met, a row for each step of each slot."""

    actions: Tensor
    before: Tensor
    after: Tensor

    def observe(self) -> dict[str, Tensor]:
        return {"observation.state": self.before}

    def success(self) -> Tensor:
        return (self.after[:, :3] - self.after[:, 3:6]).abs().amax(dim=1) < 0.01


class StretchEnv(BackgroundEnv):
    """Takes up to five steps in one go, and shows the state before them until they are over."""

    longest_stretch = 5

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.stretches: list[list[int]] = []

    def start_stretch(self, slots, sizes, waypoints):
        given = waypoints()
        assert sorted(sizes, reverse=True) == sizes
        assert len(slots) == sizes[0]
        self.in_flight = slots.tolist()
        self.stretches.append(sizes)
        ahead = PointEnv(self.num_envs)
        ahead.state.copy_(self.state)
        actions, before, after, first = [], [], [], 0
        for size in sizes:
            ids, rows = torch.from_numpy(slots[:size]), slice(first, first + size)
            targets, grippers = {"point": given.targets["point"][rows]}, {"point": given.grippers["point"][rows]}
            noise = None if given.noise is None else {"point": given.noise["point"][rows]}
            before.append(ahead.state[ids])
            actions.append(ahead.target_eef_pose_to_action(targets, grippers, noise, ids))
            ahead.step(torch.zeros(self.num_envs, 4).index_copy(0, ids, actions[-1]), ids)
            after.append(ahead.state[ids])
            first += size
        met = PointStretch(torch.cat(actions), torch.cat(before), torch.cat(after))

        def end() -> PointStretch:
            self.in_flight = []
            self.state[slots] = ahead.state[slots]
            self.steps += len(sizes)
            return met

        return end


def collect(env, generator, **kwargs):
    sink = MemorySink()
    _, outcomes, reason = asyncio.run(run_to_end(env, generator, sink=sink, **kwargs))
    return outcomes, reason, sink.episodes


def summary(outcomes):
    return [(o.attempt, o.seed, o.success, o.reason, o.length) for o in outcomes]


@pytest.mark.parametrize("make_generator", [PlanGenerator, StepGenerator])
@pytest.mark.parametrize("num_envs", [1, 2, 7, 24])
@pytest.mark.parametrize("env_class", [BackgroundEnv, StretchEnv])
def test_the_same_episodes_as_without_a_background(make_generator, num_envs, env_class):
    plain = PointEnv(1)
    expected, _, reference = collect(plain, make_generator(plain))
    env = env_class(num_envs)
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
@pytest.mark.parametrize("env_class", [PointEnv, BackgroundEnv, StretchEnv])
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


def test_slots_take_as_many_steps_in_one_go_as_their_plans_have():
    env = StretchEnv(7)
    _, _, episodes = collect(env, PlanGenerator(env))
    taken = sum(map(sum, env.stretches)) + sum(env.sizes)
    assert sum(episode.length for episode in episodes) <= taken
    assert sum(len(sizes) == 5 for sizes in env.stretches) > len(env.stretches) / 2
    assert any(sizes[0] > sizes[-1] for sizes in env.stretches), "no plan has ended in the middle"


class Looker(PlanGenerator):
    """Beside other slots that play plans, puts one action at a time."""

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
        if attempt.index % 4:
            return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)
        return await StepGenerator(self.env).generate(env_id, None, env_reset_queue, env_action_queue)


def test_single_actions_and_plans_side_by_side():
    plain = PointEnv(1)
    expected, _, reference = collect(plain, Looker(plain))
    env = StretchEnv(6)
    outcomes, _, episodes = collect(env, Looker(env))
    assert summary(outcomes) == summary(expected)
    assert env.stretches
    assert env.sizes
    for ours, theirs in zip(episodes, reference, strict=True):
        assert torch.equal(ours.columns["action"], theirs.columns["action"])


@pytest.mark.parametrize("limit", [1, 4, 5, 6, 29, 33])
def test_the_limit_of_an_episode_cuts_a_stretch_off(limit):
    options = RunOptions(max_episode_steps=limit, stall_timeout_s=50.0)
    plain, env = PointEnv(1), StretchEnv(5)
    expected, *_ = collect(plain, PlanGenerator(plain), options=options, max_attempts=12)
    outcomes, *_ = collect(env, PlanGenerator(env), options=options, max_attempts=12)
    assert summary(outcomes) == summary(expected)
    assert max(outcome.length for outcome in outcomes) <= limit


class Leaver:
    """Every fourth attempt returns in the middle of its plan, while a stretch of it is in progress."""

    def __init__(self, env):
        self.env = env
        self.left = []

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt, run):
        if attempt.index % 4:
            return await PlanGenerator(self.env).generate(env_id, env_reset_queue, env_action_queue, attempt)
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        goal = self.env.get_object_poses(torch.tensor([env_id]))["goal"]
        plan = Plan({"point": goal.expand(500, 4, 4)}, {"point": torch.ones(500, 1)})
        await env_action_queue.put((env_id, plan))
        while env_id not in run.flying:
            await asyncio.sleep(0)
        self.left.append(int(run.lengths(np.asarray([env_id]))[0]))
        return None


def test_an_attempt_that_is_left_in_the_middle_of_a_stretch_is_whole():
    env = StretchEnv(8)
    generator, failed = Leaver(env), MemorySink()
    outcomes, _, episodes = collect(env, generator, failed_sink=failed, num_demos=30)
    left = [outcome for outcome in outcomes if outcome.attempt % 4 == 0]
    assert left
    assert {outcome.length for outcome in left} <= set(generator.left)
    plain = PointEnv(1)
    _, _, reference = collect(plain, PlanGenerator(plain, fail_every=10**9), num_demos=60)
    by_attempt = {episode.outcome.attempt: episode for episode in reference}
    for episode in [*episodes, *failed.episodes]:
        if episode.outcome.attempt % 4 == 0:
            theirs = by_attempt[episode.outcome.attempt]
            length = min(episode.outcome.length, theirs.outcome.length)
            for name, value in theirs.columns.items():
                assert torch.equal(episode.columns[name][:length], value[:length]), name


def test_whoever_needs_every_step_gets_every_step():
    env = StretchEnv(4)
    run = RunState(env, BudgetLimits(5), RunOptions(stall_timeout_s=50.0), success_term=lambda e: e.success())
    asyncio.run(generate(run, PlanGenerator(env)))
    assert not env.stretches
    assert env.sizes
