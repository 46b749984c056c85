"""Where a run's wall time goes, how its queues fill, and its counters.

The loop is one thread, so a single clock that is always in exactly one stage accounts for all of it: the stage times
add up to the wall time by construction. Time in which the event loop slept in its selector is `wait`.

What the loop does while the simulator steps in the background may cost nothing: `StageClock.critical` charges it to
`step` where the loop had to wait for the simulator afterwards, because without it the loop would have waited longer.
"""

import selectors
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

STAGES = ("plan", "reset", "step", "observe", "render", "record", "wait")
HANDED_OVER_S = 2e-4
"""To take over the result of a step that has ended takes less than this; a longer wait was for the simulator."""


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


class _NeverIdle:
    idle_s = 0.0


class StageClock:
    """Splits wall time among `STAGES`; starts in "plan"."""

    def __init__(self, selector: IdleTimingSelector | None = None) -> None:
        self.started = time.perf_counter()
        self._selector = selector or _NeverIdle()
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._behind_step = dict.fromkeys(STAGES, 0.0)
        self._stage = "plan"
        self._since = self.started
        self._idle_seen = self._selector.idle_s
        self._idle_stage = "wait"
        self._blocks = {stage: _InStage(self, stage) for stage in STAGES}

    def switch(self, stage: str) -> str:
        """Charge the time since the last switch to the stage that ends; returns that stage."""
        now = time.perf_counter()
        elapsed = now - self._since
        idle_s = self._selector.idle_s
        if idle_s != self._idle_seen:
            idle, self._idle_seen = idle_s - self._idle_seen, idle_s
            self._seconds[self._idle_stage] += idle
            elapsed -= idle
        self._since = now
        ended, self._stage = self._stage, stage
        self._seconds[ended] += elapsed
        return ended

    def background(self, end: Callable[[], None]) -> Callable[[], None]:
        """Watch a step that has begun in the background; `end` waits for it. Call what is returned instead, once."""
        before = self.seconds()

        def end_watched() -> None:
            during = self.seconds()
            began = time.perf_counter()
            end()
            if time.perf_counter() - began > HANDED_OVER_S:
                for stage in STAGES:
                    self._behind_step[stage] += during[stage] - before[stage]

        return end_watched

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
        return self._blocks[stage]

    def seconds(self) -> dict[str, float]:
        """Seconds per stage up to now."""
        self.switch(self._stage)
        return dict(self._seconds)

    def critical(self) -> dict[str, float]:
        """Seconds for which each stage held the run up; they add up to the wall time, too.

        As `seconds`, but what the loop did behind a step that it then waited for counts for `step`.
        """
        return self._critical(self.seconds())

    def read(self) -> tuple[float, dict[str, float], dict[str, float]]:
        """(`wall_s`, `seconds()`, `critical()`) at the same instant, so that they agree however busy the machine is."""
        seconds = self.seconds()
        return self._since - self.started, seconds, self._critical(seconds)

    def _critical(self, seconds: dict[str, float]) -> dict[str, float]:
        behind = self._behind_step
        held = {stage: spent - behind[stage] for stage, spent in seconds.items()}
        held["step"] += sum(behind.values())
        return held

    @property
    def wall_s(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self.started


class _InStage:
    """The blocks of one stage; entered many times a step, so made once, and a class of its own."""

    __slots__ = ("_before", "_stage", "_switch")

    def __init__(self, clock: StageClock, stage: str) -> None:
        self._switch = clock.switch
        self._stage = stage
        self._before: list[str] = []  # blocks may lie within each other

    def __enter__(self) -> None:
        self._before.append(self._switch(self._stage))

    def __exit__(self, *_: object) -> None:
        self._switch(self._before.pop())


class QueueMeter:
    """How full a queue is, over time; told of every change of its depth.

    Attributes:
        depth: what waits now.
        peak: the most that ever did.
    """

    __slots__ = ("_item_seconds", "_since", "depth", "peak")

    def __init__(self) -> None:
        self.depth = self.peak = 0
        self._item_seconds = 0.0
        self._since = time.perf_counter()

    def change(self, depth: int) -> None:
        """So many wait from now on."""
        now = time.perf_counter()
        self._item_seconds += self.depth * (now - self._since)
        self._since, self.depth = now, depth
        if depth > self.peak:
            self.peak = depth

    @property
    def wait_s(self) -> float:
        """Seconds waited, summed over all items, up to now: the integral of the depth (Little 1961, L = lambda W)."""
        return self._item_seconds + self.depth * (time.perf_counter() - self._since)


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
