"""After which step each slot's plan ends, and what comes then; arrays over slots, so that a step looks once for all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_NEVER = int(np.iinfo(np.int64).max)
NO_SLOTS = np.zeros(0, dtype=np.int64)


class PlanEnds:
    """The ends of what N slots play; a slot that plays nothing has none."""

    def __init__(self, num_envs: int) -> None:
        self._at = np.full(num_envs, _NEVER, dtype=np.int64)
        self._soonest = _NEVER  # no plan ends before it, so most steps need not look
        self._timed_out = np.zeros(num_envs, dtype=np.bool_)
        self._then: list[Any] = [None] * num_envs

    def schedule(self, slots: Ints, at: Ints, timed_out: npt.NDArray[np.bool_], then: Sequence[Any]) -> None:
        """Slots (K,) play up to batch step `at` (K,), where the episode's limit may cut them off.

        `then` are the requests that are served there; None wakes the slot's coroutine.
        """
        self._at[slots] = at
        self._soonest = min(self._soonest, int(at.min(initial=_NEVER)))
        self._timed_out[slots] = timed_out
        for slot, request in zip(slots.tolist(), then, strict=True):
            self._then[slot] = request

    def cancel(self, slot: int) -> None:
        """The slot's attempt is over: what it plays does not count any more."""
        self._at[slot] = _NEVER
        self._then[slot] = None

    def due(self, batch_step: int) -> Ints:
        """Slots (R,), ascending, whose plan has ended by now and which nobody has taken."""
        if batch_step < self._soonest:
            return NO_SLOTS
        slots = np.flatnonzero(self._at <= batch_step)
        if not len(slots):
            self._soonest = int(self._at.min())
        return slots

    def take(self, slots: Ints) -> npt.NDArray[np.bool_]:
        """These slots' ends are dealt with now; (R,) whether the episode's limit has cut them off."""
        self._at[slots] = _NEVER
        return self._timed_out[slots]

    def then(self, slot: int) -> Any:
        """What comes after the slot's plan."""
        return self._then[slot]
