"""After which step each slot's plan ends, and what comes then; arrays over slots, so that a step looks once for all."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_NEVER = int(np.iinfo(np.int64).max)
NO_SLOTS = np.zeros(0, dtype=np.int64)


class PlanEnds:
    """The ends of what N slots play; a slot that plays nothing has none."""

    def __init__(self, num_envs: int) -> None:
        self._at = np.full(num_envs, _NEVER, dtype=np.int64)
        self._soonest = _NEVER  # no plan ends before it, so most steps need not look
        self._timed_out = np.zeros(num_envs, dtype=np.bool_)
        self._goes_on = np.zeros(num_envs, dtype=np.bool_)

    def schedule(self, slots: Ints, at: Ints, timed_out: Flags, goes_on: Flags) -> None:
        """Slots (K,) play up to batch step `at` (K,), where the episode's limit may cut them off.

        Of slots that go on (K,) the request is planned again there; the coroutines of the others are woken.
        """
        self._at[slots] = at
        self._soonest = min(self._soonest, int(at.min(initial=_NEVER)))
        self._timed_out[slots] = timed_out
        self._goes_on[slots] = goes_on

    def cancel(self, slots: Ints) -> None:
        """The attempts of slots (K,) are over: what they play does not count any more."""
        self._at[slots] = _NEVER
        self._goes_on[slots] = False

    def due(self, batch_step: int) -> Ints:
        """Slots (R,), ascending, whose plan has ended by now and which nobody has taken."""
        if batch_step < self._soonest:
            return NO_SLOTS
        slots = np.flatnonzero(self._at <= batch_step)
        if not len(slots):
            self._soonest = int(self._at.min())
        return slots

    def left(self, slots: Ints, batch_step: int) -> Ints:
        """(K,) steps that slots (K,) still play."""
        return self._at[slots] - batch_step

    def still_on(self, slots: Ints) -> Ints:
        """Those of slots (K,) that go on, and whose attempt has not ended meanwhile."""
        return slots[self._goes_on[slots]]

    def take(self, slots: Ints) -> tuple[Flags, Flags]:
        """These slots' ends are dealt with now.

        Returns:
            (R,) whether the episode's limit has cut them off; (R,) whether they go on with the request that they have.
        """
        self._at[slots] = _NEVER
        return self._timed_out[slots], self._goes_on[slots]
