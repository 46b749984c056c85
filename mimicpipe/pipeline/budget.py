"""How many attempts to make, and which of them count.

Attempts are numbered; slots take the next number when free and finish in any order. What counts is decided in attempt
order alone: the demos of a run are its first `num_demos` successful attempts, `max_failures` stops it at the attempt of
that failure, `max_attempts` after that many. So the outcome is the same for every num_envs, short episodes are not
favoured, and no limit is ever overshot.

Where several processes share a run, each has a budget of its own for its `Share` of the attempts, and takes no further
than it is allowed to; the one that allows it settles the attempts of all.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BudgetLimits:
    """When a run ends; None is no limit."""

    num_demos: int
    max_attempts: int | None = None
    max_failures: int | None = None


@dataclass(frozen=True)
class Share:
    """The attempts first, first + step, first + 2 step, ...: those of one of `step` processes. By default all."""

    first: int = 0
    step: int = 1

    def attempt(self, place: int) -> int:
        """The attempt at a place 0, 1, 2, ... of the share."""
        return self.first + place * self.step

    def below(self, attempts: int) -> int:
        """How many of the share are below an attempt, which is also the place of that attempt if it is of the share."""
        return max(0, -(-(attempts - self.first) // self.step))


ALL_ATTEMPTS = Share()


class Budget:
    """Numbers attempts and settles them in order.

    consumes: `finish(index, success)` of attempts, in any order.
    produces: attempt indices from `take`, settled attempts from `settle`, in attempt order.
    waits for: `take` waits while the attempts in flight are expected to suffice, or no more are allowed.
    unblocked by: a finished attempt, `allow`, or `stop`.

    Args:
        limits: of the share's attempts.
        on_stop: called once, when nothing more is taken or settled.
        share: the attempts that there are.
    """

    def __init__(
        self, limits: BudgetLimits, on_stop: Callable[[], None] = lambda: None, share: Share = ALL_ATTEMPTS
    ) -> None:
        self.limits = limits
        self.share = share
        self._on_stop = on_stop
        self.allowed: int | None = None
        """How many of the share may be taken so far; None: as many as are wanted."""
        self.successes = 0
        self.failures = 0
        self.stop_reason: str | None = None
        # Places in the share, not attempts.
        self._next = 0
        self._frontier = 0
        self._finished: dict[int, bool] = {}
        self._known_successes = 0
        self._known_failures = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._check_limits()

    def resume(self, outcomes: Sequence[bool]) -> None:
        """Count the first attempts as settled, before the first `take`, as they were made before; True is a success."""
        self._next = self._frontier = len(outcomes)
        self.successes = self._known_successes = sum(outcomes)
        self.failures = self._known_failures = len(outcomes) - self.successes
        self._check_limits()

    @property
    def attempts(self) -> int:
        """Settled attempts."""
        return self.successes + self.failures

    @property
    def in_flight(self) -> int:
        """Attempts that were taken and have not finished."""
        return self._next - self._frontier - len(self._finished)

    @property
    def frontier(self) -> int:
        """The first attempt that is not settled."""
        return self.share.attempt(self._frontier)

    @property
    def on_hold(self) -> bool:
        """Whether nothing is in flight because no more attempts are allowed."""
        return self.allowed is not None and self._next >= self.allowed and not (self.in_flight or self._exhausted())

    def allow(self, attempts: int) -> None:
        """From now on, take attempts below this number only; it never becomes lower."""
        self.allowed = max(self.allowed or 0, self.share.below(attempts))
        self._wake()

    def _exhausted(self) -> bool:
        """Whether no attempt at or after `_next` can ever count."""
        limits = self.limits
        return (
            self.stop_reason is not None
            or self._known_successes >= limits.num_demos
            or (limits.max_attempts is not None and self._next >= limits.max_attempts)
            or (limits.max_failures is not None and self._known_failures >= limits.max_failures)
        )

    def _wanted(self) -> int:
        """Attempts to keep in flight: as many as the missing demos need at the success rate seen so far.

        The rate starts at one (plus-one smoothing), so a run whose attempts all succeed makes not one too many.
        """
        known = self._known_successes + self._known_failures
        rate = (self._known_successes + 1) / (known + 1)
        return math.ceil((self.limits.num_demos - self._known_successes) / rate)

    def take_nowait(self, most: int = 1) -> range:
        """Indices of the next attempts: as many as are wanted now, at most `most`."""
        first = self._next
        if not self._exhausted():
            count = min(most, self._takeable())
            if self.limits.max_attempts is not None:
                count = min(count, self.limits.max_attempts - first)
            self._next += max(0, count)
        return range(self.share.attempt(first), self.share.attempt(self._next), self.share.step)

    def _takeable(self) -> int:
        """How many attempts may be taken now."""
        wanted = self._wanted() - self.in_flight
        return wanted if self.allowed is None else min(wanted, self.allowed - self._next)

    async def changed(self) -> bool:
        """Wait for a reason to try `take_nowait` again; False if there never will be one."""
        if self._exhausted():
            return False
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
        return not self._exhausted()

    def finish(self, index: int, success: bool) -> None:
        """Attempt `index` has ended."""
        place = self.share.below(index)
        if not self._frontier <= place < self._next or place in self._finished or self.share.attempt(place) != index:
            raise ValueError(f"attempt {index} was not in flight")
        self._finished[place] = success
        if success:
            self._known_successes += 1
        else:
            self._known_failures += 1
        if self._waiters:
            self._wake()

    def has_settled(self) -> bool:
        """Whether `settle` would give an attempt."""
        return self.stop_reason is None and self._frontier in self._finished

    def settle(self) -> int | None:
        """The next attempt in order whose outcome counts, or None; call until it gives None."""
        if not self.has_settled():
            return None
        place = self._frontier
        self._frontier += 1
        if self._finished.pop(place):
            self.successes += 1
        else:
            self.failures += 1
        self._check_limits()
        return self.share.attempt(place)

    def _check_limits(self) -> None:
        limits = self.limits
        if self.successes >= limits.num_demos:
            self.stop("num_demos")
        elif limits.max_failures is not None and self.failures >= limits.max_failures:
            self.stop("max_failures")
        elif limits.max_attempts is not None and self._frontier >= limits.max_attempts:
            self.stop("max_attempts")

    def stop(self, reason: str) -> None:
        """Nothing more is taken or settled."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._on_stop()
        self._wake()

    def _wake(self) -> None:
        """Wake as many waiting slots as there are attempts to take, or all of them if there never will be one."""
        count = len(self._waiters)
        if not count:
            return
        if not self._exhausted():
            count = min(count, max(0, self._takeable()))
        woken, self._waiters = self._waiters[:count], self._waiters[count:]
        for waiter in woken:
            if not waiter.done():
                waiter.set_result(None)
