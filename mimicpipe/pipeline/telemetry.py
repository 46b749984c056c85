"""Where a run's wall time goes, and its counters.

The loop is one thread, so a single clock that is always in exactly one stage accounts for all of it: the stage times
add up to the wall time by construction. Time in which the event loop slept in its selector is `wait`.
"""

import selectors
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

STAGES = ("plan", "reset", "step", "observe", "render", "record", "wait")


class IdleTimingSelector(selectors.DefaultSelector):
    """A selector that sums the time it sleeps: what the event loop had nothing to do in."""

    def __init__(self) -> None:
        super().__init__()
        self.idle_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the base class."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        start = time.perf_counter()
        try:
            return super().select(timeout)
        finally:
            self.idle_s += time.perf_counter() - start


class StageClock:
    """Splits wall time among `STAGES`; starts in "plan"."""

    def __init__(self, selector: IdleTimingSelector | None = None) -> None:
        self.started = time.perf_counter()
        self._selector = selector
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._stage = "plan"
        self._since = self.started
        self._idle_seen = selector.idle_s if selector is not None else 0.0
        self._idle_stage = "wait"

    def switch(self, stage: str) -> str:
        """Charge the time since the last switch to the stage that ends; returns that stage."""
        now = time.perf_counter()
        elapsed = now - self._since
        if self._selector is not None:
            idle, self._idle_seen = self._selector.idle_s - self._idle_seen, self._selector.idle_s
            self._seconds[self._idle_stage] += idle
            elapsed -= idle
        self._seconds[self._stage] += elapsed
        self._since = now
        ended, self._stage = self._stage, stage
        return ended

    @contextmanager
    def idle_is(self, stage: str) -> Generator[None]:
        """While the block runs, the time in which the event loop sleeps counts for `stage` instead of "wait"."""
        self.switch(self._stage)
        before, self._idle_stage = self._idle_stage, stage
        try:
            yield
        finally:
            self.switch(self._stage)
            self._idle_stage = before

    def stage(self, stage: str) -> "_InStage":
        """A context that charges its block to `stage`, and goes back to the stage before."""
        return _InStage(self, stage)

    def seconds(self) -> dict[str, float]:
        """Seconds per stage up to now."""
        self.switch(self._stage)
        return dict(self._seconds)

    @property
    def wall_s(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self.started


class _InStage:
    """Entered many times a step, so a class of its own: a generator's context costs as much as what it measures."""

    __slots__ = ("_before", "_clock", "_stage")

    def __init__(self, clock: StageClock, stage: str) -> None:
        self._clock = clock
        self._stage = stage

    def __enter__(self) -> None:
        self._before = self._clock.switch(self._stage)

    def __exit__(self, *_: object) -> None:
        self._clock.switch(self._before)


@dataclass(slots=True)
class Counters:
    """What has happened so far in a run."""

    env_steps: int = 0
    """Control steps summed over slots."""
    batch_steps: int = 0
    frames_committed: int = 0
    episodes_committed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Settled attempts by reason."""
    errors_in_a_row: int = 0
    """Settled attempts, up to the latest, that all ended with an exception."""
