"""Finished attempts, settled and committed in attempt order.

Slots finish out of order; an episode waits here, on the host, until every earlier attempt has finished. The wait is
bounded: while attempt k runs, every other slot can finish only as many attempts as fit into k's longest episode.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from mimicpipe.pipeline.budget import Budget
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.pipeline.telemetry import Counters, StageClock


class EpisodeSink(Protocol):
    """Where episodes go: a recorder."""

    def try_commit(self, episode: Episode) -> bool:
        """Commit without blocking; False where the queue is full."""
        ...

    def commit(self, episode: Episode) -> None:
        """Commit, blocking while the queue is full."""
        ...


OnOutcome = Callable[[Outcome], None]


ERRORS = "errors"
"""Why a budget stops when nothing but exceptions comes."""
ERRORS_IN_A_ROW = 3
"""The run gives up after this many attempts per slot that all end with an exception, in a row by attempt index."""


class Ledger:
    """Puts outcomes in order and hands the episodes that count to the sinks.

    consumes: `(outcome, episode)` of finished attempts. produces: `on_outcome` calls and commits, in attempt order.
    waits for: a full recorder, in a thread, so that signals and the watchdog still run; the slot that commits keeps
    thinking meanwhile, which holds the simulator: that is backpressure.
    """

    def __init__(
        self,
        budget: Budget,
        clock: StageClock,
        counters: Counters,
        sink: EpisodeSink | None,
        failed_sink: EpisodeSink | None,
        on_outcome: OnOutcome,
        max_errors: int | None,
    ) -> None:
        self._budget = budget
        self._clock = clock
        self._counters = counters
        self._sink = sink
        self._failed_sink = failed_sink
        self._on_outcome = on_outcome
        self._max_errors = max_errors
        self._pending: dict[int, tuple[Outcome, Episode | None]] = {}
        self._draining: asyncio.Lock = asyncio.Lock()
        self.committing: int | None = None
        """The attempt whose episode waits for room in the recorder."""

    def wants(self, success: bool) -> bool:
        """Whether an episode with this outcome will be recorded, so is worth copying out of the rollout buffer."""
        return (self._sink if success else self._failed_sink) is not None

    @property
    def backlog(self) -> int:
        """Finished attempts that wait for earlier ones."""
        return len(self._pending)

    def put(self, outcome: Outcome, episode: Episode | None) -> None:
        """An attempt has finished; `settle` is to be called soon."""
        self._pending[outcome.attempt] = (outcome, episode)
        self._budget.finish(outcome.attempt, outcome.success)

    async def settle(self) -> None:
        """Commit whatever is in order, unless somebody is at it."""
        if self._budget.has_settled() and not self._draining.locked():
            await self.drain()

    async def drain(self) -> None:
        """Commit everything that is in order, waiting for a commit in progress."""
        async with self._draining:
            while (index := self._budget.settle()) is not None:
                outcome, episode = self._pending.pop(index)
                count_reason(self._counters, outcome)
                if episode is not None:
                    await self._commit(outcome, episode)
                self._on_outcome(outcome)
                if self._max_errors is not None and self._counters.errors_in_a_row >= self._max_errors:
                    self._budget.stop(ERRORS)

    def _count(self, outcome: Outcome, episode: Episode) -> None:
        if outcome.success:
            self._counters.episodes_committed += 1
        self._counters.frames_committed += episode.length

    async def _commit(self, outcome: Outcome, episode: Episode) -> None:
        sink = self._sink if outcome.success else self._failed_sink
        if sink is None:
            return
        if outcome.success:
            outcome.episode_index = self._counters.episodes_committed
        with self._clock.stage("record"):
            committed = sink.try_commit(episode)
        if not committed:
            self.committing = outcome.attempt
            try:
                with self._clock.idle_is("record"):
                    await asyncio.to_thread(sink.commit, episode)
            except asyncio.CancelledError:
                self._count(outcome, episode)  # the thread goes on, and the recorder finalizes after it
                raise
            self.committing = None
        self._count(outcome, episode)


def count_reason(counters: Counters, outcome: Outcome) -> None:
    """Count the next settled attempt by its reason."""
    counters.reasons[outcome.reason] = counters.reasons.get(outcome.reason, 0) + 1
    counters.errors_in_a_row = counters.errors_in_a_row + 1 if outcome.reason.startswith("error:") else 0
