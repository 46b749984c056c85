"""Slots that wait for slow work in the middle of an attempt: the others go on, and nobody's bits change."""

import asyncio

import pytest
import torch
from generators import MemorySink, run_to_end
from point_env import PointEnv
from test_background_steps import BackgroundEnv, summary

from mimicpipe.errors import RequestError
from mimicpipe.pipeline.protocol import Plan
from mimicpipe.pipeline.run_state import RunOptions


class SlowThinker:
    """Two plans to the goal; between them every second attempt waits for something, `waits` turns of the event loop."""

    def __init__(self, env, waits: int, goes_away: bool = True) -> None:
        self.env, self.waits, self.goes_away = env, waits, goes_away
        self.steps_seen: list[int] = []

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt, run):
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        for part in range(2):
            before = self.env.steps
            if attempt.index % 2 and self.waits:
                with run.away(env_id):
                    for _ in range(self.waits):
                        await asyncio.sleep(0.001)
                self.steps_seen.append(self.env.steps - before)
            goal = self.env.get_object_poses(torch.tensor([env_id]))["goal"]
            steps = 12 + attempt.index % 5 + part
            plan = Plan({"point": goal.expand(steps, 4, 4)}, {"point": torch.ones(steps, 1)})
            await env_action_queue.put((env_id, plan))
            await env_action_queue.join()


def collect(env, generator, **kwargs):
    sink = MemorySink()
    _, outcomes, reason = asyncio.run(run_to_end(env, generator, sink=sink, num_demos=12, **kwargs))
    assert reason == "num_demos"
    return outcomes, sink.episodes


@pytest.mark.parametrize("env_class", [PointEnv, BackgroundEnv])
@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_an_attempt_is_the_same_however_long_it_waits(env_class, num_envs):
    plain = PointEnv(1)
    expected, reference = collect(plain, SlowThinker(plain, waits=0))
    env = env_class(num_envs)
    outcomes, episodes = collect(env, SlowThinker(env, waits=7))
    assert summary(outcomes) == summary(expected)
    for ours, theirs in zip(episodes, reference, strict=True):
        assert torch.equal(ours.columns["action"], theirs.columns["action"])
        assert torch.equal(ours.columns["observation.state"], theirs.columns["observation.state"])


def test_the_others_step_meanwhile():
    env = PointEnv(2)
    generator = SlowThinker(env, waits=20)
    collect(env, generator)
    assert max(generator.steps_seen) > 0


def test_the_steps_of_the_others_do_not_count_against_the_episodes_limit():
    env = PointEnv(2)
    outcomes, _ = collect(env, SlowThinker(env, waits=40), options=RunOptions(max_episode_steps=34))
    assert all(outcome.success for outcome in outcomes)


class AskingWhileAway(SlowThinker):
    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt, run):
        await env_reset_queue.put(env_id)
        with run.away(env_id):
            pass


def test_a_slot_that_has_asked_for_something_cannot_go_away():
    env = PointEnv(1)
    with pytest.raises(RequestError, match=r"slot 0 cannot go away while it has a request"):
        asyncio.run(run_to_end(env, AskingWhileAway(env, 1), options=RunOptions(strict=True)))


def test_a_run_ends_although_every_slot_is_away():
    env = PointEnv(3)

    class Forever(SlowThinker):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt, run):
            await env_reset_queue.put(env_id)
            await env_reset_queue.join()
            with run.away(env_id):
                asyncio.get_running_loop().call_later(0.05, run.budget.stop, "SIGINT")
                await asyncio.Event().wait()

    _, _, reason = asyncio.run(run_to_end(env, Forever(env, 1)))
    assert reason == "SIGINT"


def test_slots_that_come_back_are_progress_although_nobody_steps():
    env = PointEnv(2)

    class Patient(SlowThinker):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt, run):
            for _ in range(12):
                with run.away(env_id):
                    await asyncio.sleep(0.1)
            await super().generate(env_id, env_reset_queue, env_action_queue, attempt, run)

    outcomes, _ = collect(env, Patient(env, 0), options=RunOptions(stall_timeout_s=0.9))
    assert all(outcome.success for outcome in outcomes)
