"""The stages say where the time has gone: each part here sleeps for a known time, and no stage may hide it."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from generators import MemorySink, PlanGenerator
from hypothesis import given, settings
from hypothesis import strategies as st
from point_env import PointEnv
from torch import Tensor

from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.metrics import run_metrics
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.pipeline.telemetry import STAGES, IdleTimingSelector, QueueMeter, StageClock
from mimicpipe.rng import Seeds


class SlowEnv(PointEnv):
    """Every part takes a known time; the step in a thread, if in the background."""

    def __init__(self, num_envs: int, *, step_s: float, reset_s: float = 0.0, background: bool = False) -> None:
        super().__init__(num_envs)
        self.step_s, self.reset_s = step_s, reset_s
        self.steps_in_background = background
        self.slept = dict.fromkeys(("reset", "observe", "step"), 0.0)
        self.thread = ThreadPoolExecutor(1)

    def sleep(self, stage: str, seconds: float) -> None:
        began = time.perf_counter()
        time.sleep(seconds)
        self.slept[stage] += time.perf_counter() - began

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        self.sleep("reset", self.reset_s)
        super().reset(env_ids, seeds)

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        self.sleep("observe", 0.001)
        return super().observe(env_ids)

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        self.sleep("step", self.step_s)
        super().step(actions, env_ids)

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        if not self.steps_in_background:
            return super().start_step(actions, env_ids)
        done = self.thread.submit(self.sleep, "step", self.step_s)
        actions = actions.clone()

        def end() -> None:
            done.result()
            PointEnv.step(self, actions, env_ids)

        return end


class SlowerThanTheLoop(SlowEnv):
    """Whatever the loop does meanwhile, it has to wait for every step."""

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        actions = actions.clone()
        return lambda: self.step(actions, env_ids)


class QuickerThanTheLoop(SlowEnv):
    """Whatever the loop does meanwhile, the step has ended before."""

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        self.step(actions, env_ids)
        return lambda: None


class SlowSink(MemorySink):
    """Its queue is always full: every commit waits."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.slept = seconds, 0.0

    def try_commit(self, episode) -> bool:
        return False

    def commit(self, episode) -> None:
        time.sleep(self.seconds)
        self.slept += self.seconds
        super().commit(episode)


class ThinkingGenerator(PlanGenerator):
    """Computes for a while before every attempt, in the loop."""

    def __init__(self, env, seconds: float) -> None:
        super().__init__(env, steps=8)
        self.seconds = seconds

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt):
        time.sleep(self.seconds)
        return await super().generate(env_id, env_reset_queue, env_action_queue, attempt)


def run(env, generator, sink=None, num_demos=6) -> RunState:
    selector = IdleTimingSelector()
    state = RunState(
        env, BudgetLimits(num_demos), RunOptions(hold_steps=1, stall_timeout_s=20.0), sink=sink, selector=selector
    )
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(generate(state, generator))
    return state


@pytest.mark.parametrize("background", [False, True])
def test_each_stage_has_the_time_of_its_part(background):
    env, sink = SlowEnv(3, step_s=0.004, reset_s=0.02, background=background), SlowSink(0.03)
    state = run(env, ThinkingGenerator(env, 0.01), sink)
    wall, seconds, critical = state.clock.read()
    assert sum(seconds.values()) == pytest.approx(wall)
    assert seconds["reset"] >= env.slept["reset"] > 0
    assert seconds["observe"] >= env.slept["observe"] > 0
    assert seconds["record"] >= sink.slept > 0
    assert seconds["plan"] >= 0.01 * state.budget.attempts
    if not background:
        assert seconds["step"] >= env.slept["step"] > 0
        assert critical == pytest.approx(seconds, abs=0.05)


def test_a_simulator_that_the_loop_waits_for_is_what_holds_it_up():
    env = SlowerThanTheLoop(8, step_s=0.03, background=True)
    state = run(env, ThinkingGenerator(env, 0.002), MemorySink(), num_demos=24)
    wall, seconds, critical = state.clock.read()
    assert sum(critical.values()) == pytest.approx(sum(seconds.values())) == pytest.approx(wall)
    assert seconds["observe"] > 0.001
    assert critical["observe"] < 0.5 * seconds["observe"]
    assert critical["step"] >= 0.9 * env.slept["step"]


def test_a_loop_that_the_simulator_waits_for_holds_itself_up():
    env = QuickerThanTheLoop(8, step_s=0.001, background=True)
    state = run(env, ThinkingGenerator(env, 0.03), MemorySink(), num_demos=24)
    critical = state.clock.critical()
    assert critical["plan"] >= 0.9 * 0.03 * state.budget.attempts
    assert max(critical, key=lambda stage: critical[stage]) == "plan"


def test_a_queue_that_fills_is_measured():
    env = SlowEnv(4, step_s=0.0)
    state = run(env, ThinkingGenerator(env, 0.02))
    metrics = run_metrics(state, {"queue_size": 3})
    # While the last of the first four slots thinks, three requests wait, while the one before, two, and so on.
    assert metrics["queue/reset_peak"] == 4.0
    assert 0.02 * (1 + 2 + 3) <= metrics["queue/reset_wait_s"] <= 4 * state.clock.wall_s
    assert metrics["queue/action_peak"] == 4.0
    assert metrics["queue/reset_depth"] == metrics["queue/action_depth"] == 0.0
    assert metrics["recorder/queue_size"] == 3.0
    assert {f"time/{stage}_s" for stage in STAGES} <= set(metrics)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 5)), max_size=20))
def test_the_meter_integrates_the_depth(changes):
    now = 100.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: now)
        meter, expected, depth = QueueMeter(), 0.0, 0
        for next_depth, seconds in changes:
            now += seconds
            expected += depth * seconds
            depth = next_depth
            meter.change(depth)
        now += 2.0
        assert meter.wait_s == pytest.approx(expected + 2.0 * depth)
    assert (meter.depth, meter.peak) == (depth, max([0, *(d for d, _ in changes)]))


def test_stages_within_stages_are_charged_once():
    clock = StageClock()
    with clock.stage("step"):
        time.sleep(0.01)
        with clock.stage("plan"):
            time.sleep(0.01)
    assert clock.switch("wait") == "plan"
    time.sleep(0.01)
    seconds = clock.seconds()
    assert min(seconds["step"], seconds["plan"], seconds["wait"]) >= 0.01
    assert sum(seconds.values()) <= clock.wall_s


def test_the_env_is_unchanged_by_being_slow():
    plain, slow = PointEnv(4), SlowEnv(4, step_s=0.001, background=True)
    ours, theirs = MemorySink(), MemorySink()
    run(plain, PlanGenerator(plain, steps=8), theirs)
    run(slow, PlanGenerator(slow, steps=8), ours)
    for a, b in zip(ours.episodes, theirs.episodes, strict=True):
        assert all(torch.equal(a.columns[name], b.columns[name]) for name in b.columns)
