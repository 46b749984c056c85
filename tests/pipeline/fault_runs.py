"""Runs with something wrong in them, on both kinds of env: one that steps at once, and one that steps in a thread."""

import asyncio
import functools
import time
from typing import Any

import pytest
import torch
from generators import MemorySink, PlanGenerator
from point_env import PointEnv
from test_background_steps import BackgroundEnv

from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState

BOTH_ENVS = pytest.mark.parametrize("env_class", [PointEnv, BackgroundEnv])
NUM_DEMOS = 6


class Run:
    """One run, from its parts to its end.

    Attributes:
        reason: why it ended; None if it raised.
        error: what it raised.
        seconds: how long it took.
    """

    def __init__(
        self, env, generator, *, num_demos=NUM_DEMOS, sink: Any = None, failed_sink=None, lock=None, **rules: Any
    ) -> None:
        limits = {name: rules.pop(name) for name in ("max_attempts", "max_failures") if name in rules}
        self.outcomes: list[Outcome] = []
        self.sink = MemorySink() if sink is None else sink
        self.state = RunState(
            env,
            BudgetLimits(num_demos, **limits),
            RunOptions(stall_timeout_s=rules.pop("stall_timeout_s", 10.0), **rules),
            sink=self.sink,
            failed_sink=failed_sink,
            on_outcome=self.outcomes.append,
            lock=lock,
        )
        self.generator = generator
        self.reason: str | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0

    def go(self, *also: Any) -> "Run":
        """Run to the end; `also` are coroutine functions that run meanwhile, and get the state."""

        async def main() -> None:
            others = [asyncio.create_task(function(self.state)) for function in also]
            try:
                self.reason = await generate(self.state, self.generator)
            finally:
                for other in others:
                    other.cancel()

        _warm_up()
        began = time.monotonic()
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.seconds = time.monotonic() - began
        return self

    @property
    def rows(self) -> list[tuple[int, bool, str, int]]:
        """What attempts.jsonl would hold, but for the slot."""
        return [(o.attempt, o.success, o.reason, o.length) for o in self.outcomes]

    @property
    def episodes(self) -> dict[int, Episode]:
        """{attempt: its episode}."""
        return {episode.outcome.attempt: episode for episode in self.sink.episodes}


@functools.cache
def _warm_up() -> None:
    """What is compiled or imported at first use must not count as a stall."""
    for env in (PointEnv(2), BackgroundEnv(2)):
        state = RunState(env, BudgetLimits(2), RunOptions(stall_timeout_s=50.0), sink=MemorySink())
        asyncio.run(generate(state, PlanGenerator(env)))


@functools.cache
def reference(attempts: int = 24) -> Run:
    """A run without a fault, in one slot: what every attempt has to be."""
    env = PointEnv(1)
    run = Run(env, PlanGenerator(env), num_demos=10**6, max_attempts=attempts).go()
    assert run.reason == "max_attempts"
    return run


def assert_others_are_unchanged(run: Run, faulty: set[int], expected: Run) -> None:
    """Every attempt but the faulty ones has the outcome and the bits of the reference."""
    rows = {row[0]: row for row in expected.rows}
    assert [row for row in run.rows if row[0] not in faulty] == [rows[k] for k, *_ in run.rows if k not in faulty]
    for attempt, episode in run.episodes.items():
        if attempt in faulty:
            continue
        twin = expected.episodes[attempt]
        assert torch.equal(episode.initial_state, twin.initial_state)
        assert episode.columns.keys() == twin.columns.keys()
        assert all(torch.equal(episode.columns[name], twin.columns[name]) for name in twin.columns), attempt


def assert_exact(run: Run, num_demos: int = NUM_DEMOS) -> None:
    """The run has succeeded: exactly so many demos, the last attempt is one, and none is missing or counted twice."""
    assert run.error is None
    assert run.reason == "num_demos"
    assert [o.attempt for o in run.outcomes] == list(range(len(run.outcomes)))
    assert sum(o.success for o in run.outcomes) == len(run.sink.episodes) == num_demos
    assert run.outcomes[-1].success
    assert [o.episode_index for o in run.outcomes if o.success] == list(range(num_demos))
    assert run.state.counters.reasons == {r: [o.reason for o in run.outcomes].count(r) for _, _, r, _ in run.rows}
