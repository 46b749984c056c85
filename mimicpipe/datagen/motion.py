"""What a planner of free motion is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class MotionRequest:
    """A way for one eef of one slot, everything else standing still. Poses are in the slot's frame, metres."""

    eef: str
    seed: int
    """The attempt's seed."""
    number: int
    """How many ways of this attempt have been asked for before: each has random numbers of its own."""
    start: npt.NDArray[np.float32]
    """(4, 4) where the eef is."""
    goal: npt.NDArray[np.float32]
    """(4, 4)."""
    gripper: npt.NDArray[np.float32]
    """(G,) gripper action on the way."""
    state: npt.NDArray[np.float64]
    """(S,) the slot's state, from `get_state`."""
    skill: npt.NDArray[np.float32]
    """(L, 4, 4) target poses behind the way, one a control step, which the eef must be able to follow; L may be 0."""
    acts_on: str | None
    """The object that the skill is about, which it may touch."""
    later: tuple[tuple[npt.NDArray[np.float32], ...], ...] = ()
    """(L, 4, 4) each: later skills of the same demo, about objects that stand already, which must be possible, too; of
    each at least one of its alternatives."""
    others: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    """{eef: (L, 4, 4) target poses}: what other eefs will do from now on, one a control step; one that is not named
    stays where it is."""


class MotionPlanner(Protocol):
    """Plans free motion. All that it answers depends on the request alone."""

    async def plan(self, request: MotionRequest) -> npt.NDArray[np.float32]:
        """Target poses (T, 4, 4) of the eef, one a control step; the last one is the goal, T >= 1.

        Raises:
            PlanFailedError: there is no way, or none was found.
        """
        ...

    def close(self) -> None:
        """End what works for it; requests in progress are given up. Safe to call twice."""
        ...
