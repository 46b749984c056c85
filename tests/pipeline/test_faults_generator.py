"""Generators that misbehave: the attempt fails with a reason, the others keep their bits, the run ends in time."""

import asyncio
import threading

import pytest
import torch
from fault_runs import BOTH_ENVS, NUM_DEMOS, Run, assert_exact, assert_others_are_unchanged, reference
from generators import PlanGenerator

from mimicpipe.datagen.pool import PoolLock
from mimicpipe.errors import StallError
from mimicpipe.pipeline.protocol import Plan, PlanFailedError
from mimicpipe.poses import make_pose

FAULTY = 1
"""The attempt that misbehaves."""
LIMIT_S = 45.0
"""A run that ended for another reason than that it hung, on however slow a machine, seconds."""


class Faulty(PlanGenerator):
    """Attempt 1 does `fault(self, env_id, resets, actions)`; the others are as usual."""

    def __init__(self, env, fault) -> None:
        super().__init__(env)
        self.fault = fault

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
        if attempt.index == FAULTY:
            return await self.fault(self, env_id, env_reset_queue, env_action_queue)
        return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)


async def begin(env_id, resets):
    await resets.put(env_id)
    await resets.join()


def plan(steps: int = 5, *, targets=None, grippers=None, noise=None) -> Plan:
    targets = torch.eye(4).expand(steps, 4, 4) if targets is None else targets
    grippers = torch.ones(steps, 1) if grippers is None else grippers
    return Plan({"point": targets}, {"point": grippers}, {} if noise is None else {"point": noise})


def putting(payload):
    """A fault: reset, then put this."""

    async def fault(self, env_id, resets, actions):
        await begin(env_id, resets)
        await actions.put((env_id, payload))
        await actions.join()

    return fault


async def raise_at_once(self, env_id, resets, actions):
    raise LookupError("no such thing")


async def raise_after_the_first_action(self, env_id, resets, actions):
    await begin(env_id, resets)
    await actions.put((env_id, torch.zeros(4)))
    await actions.join()
    raise LookupError("no such thing")


async def raise_while_the_others_wait(self, env_id, resets, actions):
    await begin(env_id, resets)
    await asyncio.sleep(0.05)  # the others have put their requests by now, and nothing can step without this slot
    raise LookupError("no such thing")


async def raise_in_the_middle_of_a_plan(self, env_id, resets, actions):
    await begin(env_id, resets)
    await actions.put((env_id, plan(500)))
    raise LookupError("no such thing")


async def find_no_plan(self, env_id, resets, actions):
    await begin(env_id, resets)
    raise PlanFailedError("out of reach")


async def return_early(self, env_id, resets, actions):
    await begin(env_id, resets)


async def never_submit(self, env_id, resets, actions):
    return None


async def act_before_reset(self, env_id, resets, actions):
    await actions.put((env_id, torch.zeros(4)))
    await actions.join()


async def put_for_the_next_slot(self, env_id, resets, actions):
    await begin(env_id, resets)
    await actions.put(((env_id + 1) % self.env.num_envs, torch.zeros(4)))


async def put_for_no_slot(self, env_id, resets, actions):
    await begin(env_id, resets)
    await actions.put((99, torch.zeros(4)))


async def put_for_a_negative_slot(self, env_id, resets, actions):
    await begin(env_id, resets)
    await actions.put((env_id - self.env.num_envs, torch.zeros(4)))


async def put_twice(self, env_id, resets, actions):
    await begin(env_id, resets)
    await actions.put((env_id, torch.zeros(4)))
    await actions.put((env_id, torch.zeros(4)))


async def await_something_cancelled(self, env_id, resets, actions):
    await begin(env_id, resets)
    child = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    child.cancel()
    await child


async def fail_in_a_child_task(self, env_id, resets, actions):
    await begin(env_id, resets)

    async def child():
        await actions.put((env_id, torch.zeros(4)))
        await actions.join()
        raise LookupError("in a child")

    async with asyncio.TaskGroup() as group:
        group.create_task(child())


NAN = float("nan")


@BOTH_ENVS
@pytest.mark.parametrize(
    ("fault", "reason", "length"),
    [
        (raise_at_once, "error:LookupError", 0),
        (raise_after_the_first_action, "error:LookupError", 1),
        (raise_while_the_others_wait, "error:LookupError", 0),
        (raise_in_the_middle_of_a_plan, "error:LookupError", 0),
        (find_no_plan, "plan_failed", 0),
        (return_early, "not_successful", 0),
        (never_submit, "not_successful", 0),
        (act_before_reset, "error:RequestError", 0),
        (put_for_the_next_slot, "error:RequestError", 0),
        (put_for_a_negative_slot, "error:RequestError", 0),
        (put_twice, "error:RequestError", 0),
        (await_something_cancelled, "error:CancelledError", 0),
        (fail_in_a_child_task, "error:ExceptionGroup", 1),
        (putting(torch.zeros(5)), "error:RequestError", 0),
        (putting(torch.tensor([0.0, NAN, 0.0, 1.0])), "error:RequestError", 0),
        (putting(torch.tensor([0.0, 1e300, 0.0, 1.0], dtype=torch.float64)), "error:RequestError", 0),
        (putting(torch.zeros(4, dtype=torch.complex64)), "error:RequestError", 0),
        (putting(torch.zeros(4, device="meta")), "error:RequestError", 0),
        (putting([0.0, 0.0, 0.0, 1.0]), "error:RequestError", 0),
        (putting(plan(targets=torch.full((5, 4, 4), NAN))), "error:RequestError", 0),
        (putting(plan(noise=torch.full((5, 3), NAN))), "error:RequestError", 0),
        (putting(plan(grippers=torch.ones(5, 2))), "error:RequestError", 0),
        (putting(plan(grippers=torch.ones(4, 1))), "error:RequestError", 0),
        (putting(plan(grippers=[1.0])), "error:RequestError", 0),
        (putting(plan(targets=torch.eye(4))), "error:RequestError", 0),
        (putting(plan(0)), "error:RequestError", 0),
        (putting(plan(targets=torch.zeros(5, 4, 4))), "error:RequestError", 0),
        (putting(plan(targets=torch.zeros(5, 4, 4, device="meta"))), "error:RequestError", 0),
    ],
)
def test_the_attempt_fails_alone(env_class, fault, reason, length):
    env = env_class(4)
    run = Run(env, Faulty(env, fault)).go()
    assert_exact(run)
    assert run.rows[FAULTY] == (FAULTY, False, reason, length)
    assert_others_are_unchanged(run, {FAULTY}, reference())


@BOTH_ENVS
def test_awaiting_a_queue_under_the_pools_lock_is_refused_and_nobody_waits_for_ever(env_class, caplog):
    lock = PoolLock()

    async def join_under_the_lock(self, env_id, resets, actions):
        async with lock:
            await resets.put(env_id)
            await resets.join()

    class AllNeedTheLock(Faulty):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            if attempt.index != FAULTY:
                async with lock:
                    await asyncio.sleep(0)
            return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)

    env = env_class(4)
    run = Run(env, AllNeedTheLock(env, join_under_the_lock), lock=lock).go()
    assert_exact(run)
    assert run.rows[FAULTY][2] == "error:RequestError"
    assert "env_reset_queue: join() while holding the pool's asyncio_lock" in caplog.text
    assert_others_are_unchanged(run, {FAULTY}, reference())


class Swallows(PlanGenerator):
    """Attempts from the fifth on go on whatever happens; `how` says what they catch, and what they do then."""

    def __init__(self, env, how: str, released: threading.Event | None = None) -> None:
        super().__init__(env)
        self.how = how
        self.released = released or threading.Event()
        self.asleep = asyncio.Event()

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
        if attempt.index < 4:
            return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)
        await begin(env_id, env_reset_queue)
        while not self.released.is_set():
            try:
                if self.how == "sleeps":
                    self.asleep.set()
                    await asyncio.sleep(3600)
                await env_action_queue.put((env_id, torch.zeros(4)))
                await env_action_queue.join()
            except asyncio.CancelledError:
                if self.how == "returns":
                    return {}
            except Exception:
                if self.how in ("acts", "everything"):
                    continue
                raise
            except BaseException:
                if self.how != "everything":
                    raise
        return {}


@BOTH_ENVS
@pytest.mark.parametrize("how", ["acts", "raises", "returns", "sleeps"])
def test_a_generator_that_swallows_its_cancellation_does_not_hold_the_end_up(env_class, how, caplog):
    env = env_class(4)
    generator = Swallows(env, how)
    num_demos = 10**6 if how == "sleeps" else 3

    async def stop_once_it_sleeps(state):
        await generator.asleep.wait()
        state.budget.stop("SIGINT")

    run = Run(env, generator, num_demos=num_demos, max_episode_steps=10**6).go(
        *([stop_once_it_sleeps] if how == "sleeps" else [])
    )
    assert run.error is None
    assert run.reason == ("SIGINT" if how == "sleeps" else "num_demos")
    assert run.seconds < LIMIT_S
    assert [o.attempt for o in run.outcomes] == list(range(len(run.outcomes)))
    assert all(o.attempt < 4 for o in run.outcomes), "an attempt that was cut off does not count"
    closed = [r for r in caplog.records if "swallows its cancellation and is closed" in r.getMessage()]
    assert bool(closed) == (how in ("acts", "sleeps"))
    assert all("Swallows.generate" in r.getMessage() for r in closed)


@BOTH_ENVS
def test_a_generator_that_swallows_everything_is_named_to_whoever_can_end_the_process(env_class):
    env, released, told = env_class(4), threading.Event(), []

    def on_stuck(error):
        told.append(error)
        released.set()  # in a real run the process ends here

    run = Run(env, Swallows(env, "everything", released), num_demos=3, max_episode_steps=10**6)
    run.state.on_stuck = on_stuck
    run.go()
    assert run.reason == "num_demos"
    assert isinstance(told[0], StallError)
    assert "generator[" in str(told[0])
    assert "cannot be ended" in str(told[0])


@BOTH_ENVS
@pytest.mark.parametrize("how", ["acts", "returns"])
def test_a_failing_run_ends_although_a_generator_swallows_its_cancellation(env_class, how):
    class Broken(env_class):
        def success(self):
            if self.steps == 120:
                raise OSError("simulator lost")
            return super().success()

    env = Broken(3)
    run = Run(env, Swallows(env, how), num_demos=100, max_episode_steps=10**6).go()
    assert isinstance(run.error, OSError)
    assert run.seconds < LIMIT_S
    assert [o.attempt for o in run.outcomes] == list(range(len(run.outcomes)))
    assert len(run.sink.episodes) == sum(o.success for o in run.outcomes)


@BOTH_ENVS
def test_strict_raises_the_first_exception_and_cuts_the_others_off(env_class):
    env = env_class(4)
    run = Run(env, Faulty(env, raise_after_the_first_action), strict=True).go()
    assert isinstance(run.error, LookupError)
    assert run.outcomes == [] or {o.attempt for o in run.outcomes} <= {0, 1}


@BOTH_ENVS
@pytest.mark.parametrize("hangs", ["at once", "in the middle"])
def test_one_that_waits_for_ever_is_named(env_class, hangs):
    async def wait(self, env_id, resets, actions):
        if hangs == "in the middle":
            await begin(env_id, resets)
            await actions.put((env_id, torch.zeros(4)))
            await actions.join()
        await asyncio.Event().wait()

    env = env_class(4)
    run = Run(env, Faulty(env, wait), stall_timeout_s=0.8).go()
    assert isinstance(run.error, StallError)
    assert run.seconds < LIMIT_S
    report = str(run.error)
    assert "generator[1]: awaits in Event.wait" in report
    assert "generator[0]" not in report


@BOTH_ENVS
def test_a_stop_does_not_wait_for_one_that_thinks(env_class):
    thinking = asyncio.Event()

    async def think(self, env_id, resets, actions):
        thinking.set()
        await asyncio.sleep(3600)

    async def stop_soon(state):
        await thinking.wait()
        state.budget.stop("SIGINT")

    env = env_class(4)
    run = Run(env, Faulty(env, think), stall_timeout_s=60).go(stop_soon)
    assert run.error is None
    assert run.reason == "SIGINT"
    assert run.seconds < LIMIT_S


@BOTH_ENVS
def test_a_call_that_blocks_the_loop_is_named_while_it_lasts(env_class, monkeypatch):
    monkeypatch.setattr("mimicpipe.pipeline.watchdog._GRACE_S", 0.2)
    stuck, taken = [], threading.Lock()
    taken.acquire()

    async def block(self, env_id, resets, actions):
        await begin(env_id, resets)
        taken.acquire(timeout=50)

    def on_stuck(error):
        stuck.append(str(error))
        taken.release()

    env = env_class(4)
    run = Run(env, Faulty(env, block), stall_timeout_s=0.8)
    run.state.on_stuck = on_stuck
    run.go()
    assert isinstance(run.error, StallError)
    assert "the event loop is blocked: task generator[1] runs block (" in str(run.error)
    assert __file__ in str(run.error)
    assert stuck == [str(run.error)], "a signal or a person may be waiting for it"
    assert run.seconds < LIMIT_S


@BOTH_ENVS
def test_one_that_only_resets_is_a_stall(env_class):
    class OnlyResets:
        async def generate(self, env_id, env_reset_queue):
            while True:
                await begin(env_id, env_reset_queue)

    run = Run(env_class(3), OnlyResets(), stall_timeout_s=0.8).go()
    assert isinstance(run.error, StallError)
    assert "at batch step 0" in str(run.error)


@BOTH_ENVS
@pytest.mark.parametrize("num_envs", [1, 4])
def test_every_reason_is_counted_where_it_belongs(env_class, num_envs):
    class OneOfEach(PlanGenerator):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            kind = attempt.index % 6
            if kind == 1:
                raise PlanFailedError("out of reach")
            if kind == 2:
                raise LookupError("no such thing")
            await begin(env_id, env_reset_queue)
            goal = self.env.get_object_poses(torch.tensor([env_id]))["goal"]
            steps = 200 if kind == 3 else 30
            if kind == 4:
                goal = goal + make_pose(torch.tensor([[0.3, 0.0, 0.0]]), torch.zeros(3, 3))
            await env_action_queue.put(
                (env_id, Plan({"point": goal.expand(steps, 4, 4)}, {"point": torch.ones(steps, 1)}))
            )
            await env_action_queue.join()
            if kind == 5:
                await env_action_queue.put((env_id, torch.tensor([0.1, 0.0, 0.0, 1.0])))
                await env_action_queue.join()
            return {}

    env = env_class(num_envs)
    run = Run(env, OneOfEach(env), num_demos=1000, max_attempts=12, max_episode_steps=100).go()
    assert run.reason == "max_attempts"
    reasons = ["success", "plan_failed", "error:LookupError", "timeout", "not_successful", "success_not_held"]
    assert [o.reason for o in run.outcomes] == reasons * 2
    assert run.state.counters.reasons == dict.fromkeys(reasons, 2)
    assert run.outcomes[3].length == 100


@BOTH_ENVS
@pytest.mark.parametrize("num_envs", [1, 7, 16])
def test_limits_are_met_to_the_attempt_whatever_fails(env_class, num_envs):
    class Mixed(PlanGenerator):
        async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
            if attempt.index % 4 == 1:
                raise LookupError("no such thing")
            return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)

    def go(**limits):
        env = env_class(num_envs)
        return Run(env, Mixed(env), **{"num_demos": 1000, **limits}).go()

    attempts, failures, demos = go(max_attempts=11), go(max_failures=5), go(num_demos=NUM_DEMOS)
    assert (attempts.reason, len(attempts.outcomes)) == ("max_attempts", 11)
    assert (failures.reason, sum(not o.success for o in failures.outcomes)) == ("max_failures", 5)
    assert not failures.outcomes[-1].success
    assert_exact(demos)
    for run in (attempts, failures, demos):
        assert len(run.sink.episodes) == sum(o.success for o in run.outcomes)
        assert run.rows == demos.rows[: len(run.rows)] or demos.rows == run.rows[: len(demos.rows)]
    both = go(max_attempts=11, num_demos=3)
    assert_exact(both, 3)
