"""The same run with and without its telemetry, in turn, in one process; and the price of each measurement alone.

*Without* means: the clock of the stages, the meters of the queues and the selector that times its sleep are replaced by
stand-ins that do nothing, and nobody samples. *With* is the run as `run.py` has it: with the sampler, which
draws lines into nothing and writes metrics.jsonl.
"""

import asyncio
import contextlib
import gc
import io
import selectors
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

import torch

from experiments.harness import Parts, Sample, Stopwatch, built, torch_threads
from mimicpipe import build
from mimicpipe.pipeline import queues, run_state
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.metrics import run_metrics
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pipeline.telemetry import STAGES, IdleTimingSelector, QueueMeter, StageClock
from mimicpipe.report.console import ProgressView
from mimicpipe.report.sampler import DRAW_EVERY_S, LOG_EVERY_S, Sampler
from mimicpipe.trackers.jsonl import JsonlTracker

GOAL = 0.01
"""Most of a run's CPU time that its telemetry may take."""


@dataclass(frozen=True)
class Case:
    """So many attempts at so many envs."""

    env: str
    num_envs: int
    attempts: int


CASES = (
    Case("kinematic", 1, 20),
    Case("kinematic", 64, 960),
    Case("kinematic", 1024, 8192),
    Case("mujoco", 16, 48),
)


class NoClock:
    """As `StageClock`, and does nothing."""

    wall_s = 0.0

    def __init__(self, *_: Any) -> None:
        self._in_stage = contextlib.nullcontext()

    def switch(self, stage: str) -> str:
        return stage

    def stage(self, _: str) -> contextlib.nullcontext[None]:
        return self._in_stage

    def idle_is(self, _: str) -> contextlib.nullcontext[None]:
        return self._in_stage

    def background(self, end: Any) -> Any:
        return end

    def seconds(self) -> dict[str, float]:
        return dict.fromkeys(STAGES, 0.0)

    critical = seconds


class NoMeter:
    """As `QueueMeter`, and does nothing."""

    peak, wait_s = 0, 0.0

    def change(self, _: int) -> None:
        pass


class CountingClock(StageClock):
    """Counts how often it is switched."""

    switches = 0

    def switch(self, stage: str) -> str:
        self.switches += 1
        return super().switch(stage)


class CountingMeter(QueueMeter):
    """Counts how often any queue's depth changed."""

    __slots__ = ()
    changes = 0

    def change(self, depth: int) -> None:
        CountingMeter.changes += 1
        super().change(depth)


@contextlib.contextmanager
def replaced(clock: Any, meter: Any) -> Generator[None]:
    """Runs that begin within the block measure with these."""
    with patch.object(run_state, "StageClock", clock), patch.object(queues, "QueueMeter", meter):
        yield


def measure(cases: Sequence[Case] = CASES, repeats: int = 15) -> list[dict[str, Any]]:
    """One row per case: CPU time with and without telemetry, medians over pairs of runs; torch uses one thread."""
    with torch_threads(1):
        return [_measure_case(case, repeats) for case in cases]


def _measure_case(case: Case, repeats: int) -> dict[str, Any]:
    budget = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    with built(f"env={case.env}", "recorder=none", *budget) as parts, tempfile.TemporaryDirectory() as folder:
        counted = _count(parts, Path(folder))
        pairs: list[tuple[Sample, Sample]] = []
        for number in range(repeats):
            # Each comes first in every other pair, so that neither always finds the caches warm.
            order = (True, False) if number % 2 else (False, True)
            runs = {telemetry: _run(parts, Path(folder), telemetry=telemetry)[0] for telemetry in order}
            pairs.append((runs[True], runs[False]))
    differences = [with_.cpu_s / without.cpu_s - 1.0 for with_, without in pairs]
    cpu_s = median(without.cpu_s for _, without in pairs)
    counted_share = counted["telemetry_s"] / cpu_s
    return {
        "env": case.env,
        "num_envs": case.num_envs,
        "attempts": case.attempts,
        "env_steps": pairs[0][0].env_steps,
        "cpu_s": cpu_s,
        "wall_s": median(without.wall_s for _, without in pairs),
        "difference": median(differences),
        "quartiles": quantiles(differences, n=4)[::2] if repeats > 1 else differences * 2,
        **counted,
        "counted_share": counted_share,
        "goal": GOAL,
        "goal_met": counted_share < GOAL,
    }


def _run(parts: Parts, folder: Path, *, telemetry: bool) -> tuple[Sample, RunState]:
    """One run, with or without telemetry, from its start to the last attempt."""
    instruments = contextlib.nullcontext() if telemetry else replaced(NoClock, NoMeter)
    selector: Any = IdleTimingSelector() if telemetry else selectors.DefaultSelector()
    gc.collect()
    with instruments:
        recorders = build.build_recorders(parts.config, parts.env)
        watch = Stopwatch()
        state = build.build_run_state(parts.config, parts.env, parts.pool, recorders, lambda _: None, selector)
        runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector))
        with runner, torch.inference_mode():
            runner.run(_drive(state, parts, folder, telemetry=telemetry))
        return watch.sample(state.counters.env_steps), state


async def _drive(state: RunState, parts: Parts, folder: Path, *, telemetry: bool) -> None:
    """`generate`, and beside it the sampler, as `run.py` does it."""
    if not telemetry:
        await generate(state, parts.generator, info_pool=parts.pool)
        return
    tracker = JsonlTracker(folder / "metrics.jsonl")
    view = ProgressView("", parts.config.num_demos, stream=io.StringIO())
    sampling = asyncio.create_task(Sampler(lambda: _snapshot(state), view, tracker).run())
    try:
        await generate(state, parts.generator, info_pool=parts.pool)
    finally:
        sampling.cancel()
        tracker.close({}, 0)


def _snapshot(state: RunState) -> dict[str, float]:
    counters = state.counters
    return {**run_metrics(state, {}), "env_steps": float(counters.env_steps)}


def _count(parts: Parts, folder: Path) -> dict[str, Any]:
    """How often each measurement is made in a run, what one costs alone, and what that makes together."""
    CountingMeter.changes = 0
    with replaced(CountingClock, CountingMeter):
        sample, state = _run(parts, folder, telemetry=True)
    clock, meter = StageClock(IdleTimingSelector()), QueueMeter()
    tracker = JsonlTracker(folder / "counted.jsonl")
    sampler = Sampler(lambda: _snapshot(state), ProgressView("", 1, stream=_Terminal()), tracker)

    def block() -> None:
        with clock.stage("step"):
            pass

    with sampler.view:
        costs = {
            "switch": _seconds_each(block, 20_000) / 2,
            "change": _seconds_each(lambda: meter.change(1), 20_000),
            "draw": _seconds_each(lambda: sampler.view.update(_snapshot(state)), 50),
            "log": _seconds_each(sampler.last, 50),
        }
    tracker.close({}, 0)
    times = {
        "switch": state.clock.switches,  # ty: ignore[missing-attribute]
        "change": CountingMeter.changes,
        # On a machine with nothing else to do, a run's wall time is at most its CPU time.
        "draw": sample.cpu_s / DRAW_EVERY_S,
        "log": sample.cpu_s / LOG_EVERY_S,
    }
    return {"costs": costs, "times": times, "telemetry_s": sum(costs[name] * times[name] for name in costs)}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _seconds_each(call: Callable[[], object], count: int) -> float:
    """CPU seconds of a call: the least of five rounds, as other work on the machine only adds to it."""
    rounds = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            call()
        rounds.append((time.process_time() - began) / count)
    return min(rounds)
