"""The pipeline end to end on a small env: exact budgets, the same episodes at every num_envs, isolation of failures."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
import torch
from generators import MemorySink, PlanGenerator, StepGenerator, run_to_end
from point_env import PointEnv

from mimicpipe.errors import RequestError, StallError
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState


def collect(num_envs, make_generator=PlanGenerator, **kwargs):
    env, sink = PointEnv(num_envs), MemorySink()
    run, outcomes, reason = asyncio.run(run_to_end(env, make_generator(env), sink=sink, **kwargs))
    return run, outcomes, reason, sink.episodes


@pytest.mark.parametrize("num_envs", [2, 3, 7, 16, 64])
@pytest.mark.parametrize("make_generator", [PlanGenerator, StepGenerator])
def test_same_episodes_at_every_num_envs(num_envs, make_generator):
    _, expected, _, reference = collect(1, make_generator)
    _, outcomes, reason, episodes = collect(num_envs, make_generator)
    assert reason == "num_demos"
    assert [(o.attempt, o.seed, o.success, o.reason, o.length) for o in outcomes] == [
        (o.attempt, o.seed, o.success, o.reason, o.length) for o in expected
    ]
    assert len(episodes) == len(reference) == 10
    for ours, theirs in zip(episodes, reference, strict=True):
        assert ours.outcome.attempt == theirs.outcome.attempt
        assert torch.equal(ours.initial_state, theirs.initial_state)
        for name in theirs.columns:
            assert torch.equal(ours.columns[name], theirs.columns[name]), name


def test_outcomes_come_in_attempt_order_with_consecutive_episode_indices():
    _, outcomes, _, _ = collect(8)
    assert [o.attempt for o in outcomes] == list(range(len(outcomes)))
    assert [o.episode_index for o in outcomes if o.success] == list(range(10))
    assert all(o.episode_index is None for o in outcomes if not o.success)


def test_frames_hold_the_observation_before_each_action():
    _, _, _, episodes = collect(4)
    for episode in episodes:
        state, action = episode.columns["observation.state"], episode.columns["action"]
        assert state[0, 6] == 0
        moved = state[:-1, :3] + action[:-1, :3].clamp(-0.1, 0.1)
        assert torch.equal(state[1:, :3], moved)
        assert torch.equal(episode.initial_state.float(), state[0])


@pytest.mark.parametrize("num_envs", [1, 5, 32])
def test_max_attempts_is_exact(num_envs):
    _, outcomes, reason, _ = collect(num_envs, num_demos=1000, max_attempts=13)
    assert reason == "max_attempts"
    assert len(outcomes) == 13


@pytest.mark.parametrize("num_envs", [1, 5, 32])
def test_max_failures_is_exact(num_envs):
    _, outcomes, reason, episodes = collect(num_envs, num_demos=1000, max_failures=4)
    assert reason == "max_failures"
    assert sum(not o.success for o in outcomes) == 4
    assert not outcomes[-1].success
    assert len(episodes) == len(outcomes) - 4


def test_a_reset_of_many_slots_is_one_call():
    env = PointEnv(16)
    asyncio.run(run_to_end(env, PlanGenerator(env, fail_every=10**9), num_demos=16))
    assert env.resets[0] == list(range(16))


def test_failed_episodes_go_to_their_own_sink():
    env, sink, failed = PointEnv(4), MemorySink(), MemorySink()
    asyncio.run(run_to_end(env, PlanGenerator(env), sink=sink, failed_sink=failed))
    assert [e.outcome.attempt for e in failed.episodes] == [2, 5, 8, 11][: len(failed.episodes)]
    assert failed.episodes


def test_success_that_does_not_hold_to_the_end_is_no_success():
    class Leaves(PlanGenerator):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            await super().generate(env_id, env_reset_queue, env_action_queue, attempt)
            await env_action_queue.put((env_id, torch.tensor([0.1, 0.0, 0.0, 1.0])))
            await env_action_queue.join()

    _, outcomes, reason, _ = collect(3, lambda env: Leaves(env, fail_every=10**9), max_attempts=6)
    assert reason == "max_attempts"
    assert {o.reason for o in outcomes} == {"success_not_held"}


def test_success_shorter_than_hold_steps_is_no_success():
    options = RunOptions(hold_steps=40, stall_timeout_s=50.0)
    _, outcomes, _, _ = collect(3, max_attempts=3, options=options)
    assert [o.reason for o in outcomes] == ["success_not_held", "success_not_held", "not_successful"]


def test_timeout():
    _, outcomes, _, _ = collect(2, max_attempts=4, options=RunOptions(max_episode_steps=20, stall_timeout_s=50.0))
    assert [(o.reason, o.length) for o in outcomes] == [("timeout", 20)] * 4


class Faulty(PlanGenerator):
    """Attempt 1 misbehaves in the way of `fault`; the others are as usual."""

    fault: Callable[..., Awaitable[None]]

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
        if attempt.index == 1:
            return await self.fault(env_id, env_reset_queue, env_action_queue)
        return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)


async def raise_at_once(env_id, resets, actions):
    raise LookupError("no such thing")


async def raise_after_first_action(env_id, resets, actions):
    await resets.put(env_id)
    await resets.join()
    await actions.put((env_id, torch.zeros(4)))
    await actions.join()
    raise LookupError("no such thing")


async def return_early(env_id, resets, actions):
    await resets.put(env_id)
    await resets.join()


async def never_submit(env_id, resets, actions):
    return None


async def act_before_reset(env_id, resets, actions):
    await actions.put((env_id, torch.zeros(4)))
    await actions.join()


async def put_for_another_slot(env_id, resets, actions):
    await resets.put(env_id + 1)


async def put_for_no_slot(env_id, resets, actions):
    await resets.put(99)


async def put_twice(env_id, resets, actions):
    await resets.put(env_id)
    await resets.put(env_id)


async def put_wrong_shape(env_id, resets, actions):
    await resets.put(env_id)
    await resets.join()
    await actions.put((env_id, torch.zeros(1, 4)))


async def put_nan(env_id, resets, actions):
    await resets.put(env_id)
    await resets.join()
    await actions.put((env_id, torch.full((4,), torch.nan)))
    await actions.join()


async def put_rubbish(env_id, resets, actions):
    await resets.put(env_id)
    await resets.join()
    await actions.put((env_id, "left"))


async def put_without_join(env_id, resets, actions):
    await resets.put(env_id)
    await resets.join()
    await actions.put((env_id, torch.zeros(4)))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (raise_at_once, "error:LookupError"),
        (raise_after_first_action, "error:LookupError"),
        (return_early, "not_successful"),
        (never_submit, "not_successful"),
        (act_before_reset, "error:RequestError"),
        (put_for_another_slot, "error:RequestError"),
        (put_for_no_slot, "error:RequestError"),
        (put_twice, "error:RequestError"),
        (put_wrong_shape, "error:RequestError"),
        (put_nan, "error:RequestError"),
        (put_rubbish, "error:RequestError"),
        (put_without_join, "not_successful"),
    ],
)
@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_faulty_attempt_fails_alone(fault, reason, num_envs):
    make = type("Faulty", (Faulty,), {"fault": staticmethod(fault)})
    _, expected, _, reference = collect(1)
    _, outcomes, _, episodes = collect(num_envs, make)
    assert (outcomes[1].success, outcomes[1].reason) == (False, reason)
    kept = {e.outcome.attempt: e for e in reference}
    for episode in episodes:
        if episode.outcome.attempt in kept:
            twin = kept[episode.outcome.attempt]
            assert all(torch.equal(episode.columns[n], twin.columns[n]) for n in twin.columns)
    assert len(episodes) == 10
    assert len(expected) < len(outcomes) + 3


def test_strict_raises_the_first_exception():
    make = type("Faulty", (Faulty,), {"fault": staticmethod(raise_at_once)})
    with pytest.raises(LookupError, match="no such thing"):
        collect(4, make, options=RunOptions(strict=True, stall_timeout_s=50.0))


@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_generator_that_always_raises_ends_the_run_with_its_own_exception(num_envs):
    class Broken:
        async def generate(self, env_id):
            raise LookupError("always")

    with pytest.raises(LookupError, match="always"):
        collect(num_envs, lambda env: Broken())


def test_an_exception_of_the_simulator_ends_the_run_with_its_traceback():
    class Breaks(PointEnv):
        def step(self, actions, env_ids=None):
            if self.steps == 40:
                raise OSError("simulator lost")
            super().step(actions, env_ids)

    env, sink = Breaks(4), MemorySink()
    with pytest.raises(OSError, match="simulator lost") as caught:
        asyncio.run(run_to_end(env, PlanGenerator(env), sink=sink))
    assert any(entry.name == "step" for entry in caught.traceback)
    assert [e.outcome.attempt for e in sink.episodes] == [0, 1, 3]


def test_an_exception_of_the_recorder_ends_the_run():
    class Full(MemorySink):
        def commit(self, episode):
            raise OSError("disk full")

    env = PointEnv(4)
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(run_to_end(env, PlanGenerator(env), sink=Full()))


def test_a_slot_that_turns_nan_fails_alone():
    class Diverges(PointEnv):
        marked = 0.0

        def step(self, actions, env_ids=None):
            super().step(actions, env_ids)
            # The goal of one attempt is known; its slot diverges in its tenth step.
            self.state[(self.state[:, 3] == self.marked) & (self.state[:, 6] == 10), 0] = torch.nan

    _, _, _, reference = collect(1)
    for num_envs in (1, 4):
        env, sink = Diverges(num_envs), MemorySink()
        env.marked = reference[1].columns["observation.state"][0, 3].item()
        _, outcomes, _ = asyncio.run(run_to_end(env, PlanGenerator(env), sink=sink))
        assert outcomes[1].reason == "nonfinite"
        assert [e.outcome.attempt for e in sink.episodes][:1] == [0]
        assert torch.equal(sink.episodes[1].columns["action"], reference[2].columns["action"])


def test_join_while_holding_the_pool_lock_is_refused():
    class Lock:
        held = True

        def held_by_current_task(self):
            return self.held

    async def scenario():
        env = PointEnv(1)
        from mimicpipe.pipeline.queues import RequestQueue
        from mimicpipe.pipeline.slots import SlotBoard

        queue = RequestQueue("env_reset_queue", SlotBoard(1, env.device), lock=Lock())
        await queue.put(0)
        with pytest.raises(RequestError, match="holding the pool's asyncio_lock"):
            await queue.join()

    asyncio.run(scenario())


def test_a_generator_that_waits_for_ever_is_named_by_the_watchdog():
    class Hangs(PlanGenerator):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            if attempt.index == 2:
                await asyncio.Event().wait()
            await super().generate(env_id, env_reset_queue, env_action_queue, attempt)

    with pytest.raises(StallError) as caught:
        collect(4, Hangs, options=RunOptions(stall_timeout_s=1.0))
    report = str(caught.value)
    assert "generator[2]" in report
    assert "Event.wait" in report
    assert "generator[1]" not in report
    assert "env_reset_queue 3" in report


def test_stage_times_add_up_to_the_wall_time():
    run, _, _, _ = collect(8, num_demos=50)
    wall_s, seconds, critical = run.clock.read()
    assert sum(seconds.values()) == pytest.approx(wall_s)
    assert sum(critical.values()) == pytest.approx(wall_s)
    assert seconds["step"] > 0


def test_no_more_attempts_are_started_than_the_missing_demos_may_need():
    env = PointEnv(64)
    generator = PlanGenerator(env, fail_every=10**9)
    asyncio.run(run_to_end(env, generator, num_demos=8))
    assert sum(len(ids) for ids in env.resets) == 8


@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_generator_that_never_waits_is_a_stall(num_envs):
    class Instant:
        async def generate(self):
            return {}

    with pytest.raises(StallError, match="at batch step 0"):
        collect(num_envs, lambda env: Instant(), options=RunOptions(stall_timeout_s=0.3))


@pytest.mark.parametrize("value", [3, {"source_demos": 3}, {"metadata": "x"}])
def test_a_wrong_return_value_fails_that_attempt_only(value):
    class Wrong(PlanGenerator):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            results = await super().generate(env_id, env_reset_queue, env_action_queue, attempt)
            return value if attempt.index == 1 else results

    _, outcomes, reason, episodes = collect(3, Wrong)
    assert reason == "num_demos"
    assert len(episodes) == 10
    assert (outcomes[1].success, outcomes[1].reason) == (False, "error:TypeError")


@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_exceptions_end_the_run_after_three_attempts_per_slot_in_a_row(num_envs):
    class Mostly(PlanGenerator):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            if attempt.index > 4:
                raise LookupError("from now on")
            return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)

    env, sink = PointEnv(num_envs), MemorySink()
    outcomes = []
    run = RunState(env, BudgetLimits(100), RunOptions(stall_timeout_s=50.0), sink=sink, on_outcome=outcomes.append)
    with pytest.raises(LookupError, match="from now on"):
        asyncio.run(generate(run, Mostly(env)))
    assert len(outcomes) == 5 + 3 * num_envs
    assert [e.outcome.attempt for e in sink.episodes] == [0, 1, 3, 4]


def test_a_coroutine_that_blocks_the_event_loop_is_named_and_reported_as_stuck(monkeypatch):
    monkeypatch.setattr("mimicpipe.pipeline.watchdog._GRACE_S", 0.2)
    released = threading.Event()
    reports = []

    def on_stuck(error):
        reports.append(str(error))
        released.set()

    class Blocks:
        async def generate(self, env_id):
            released.wait(30)

    run = RunState(PointEnv(1), BudgetLimits(1, max_attempts=1), RunOptions(stall_timeout_s=0.2))
    run.on_stuck = on_stuck
    with pytest.raises(StallError):
        asyncio.run(generate(run, Blocks()))
    assert "the event loop is blocked: task generator[0]" in reports[0]
