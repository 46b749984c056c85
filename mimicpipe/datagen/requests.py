"""What slots want planned next: a request for each, or a table over all slots.

The planner works on the table. A `SegmentRequest` belongs to one slot's coroutine; its values are entered into the
table before a plan, and read back behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mimicpipe import rng
from mimicpipe.datagen.timing import GOES_ON

if TYPE_CHECKING:
    from mimicpipe.datagen.planner import SubtaskPlanner

Ints = npt.NDArray[np.int64]

NO_DEMO = -1


@dataclass(slots=True)
class SegmentRequest:
    """What the slot's next plan is to contain; one object serves a whole attempt, the planner moves it on."""

    planner: "SubtaskPlanner"
    seed: int
    """The attempt's seed."""
    visible: int
    """Demos the attempt may choose from: those added before the count reached this."""
    wanted: list[int] | None
    """For each eef, in the env's order, the subtask whose segment is wanted next, or GOES_ON (it goes on with the
    waypoints it has, or waits); None: all are done."""
    attempt: int = 0
    """The attempt's index in its run."""
    run_seed: int = 0
    fresh: bool = True
    """Nothing has been planned for the attempt yet."""
    chosen: list[tuple[int, int, int]] = field(default_factory=list)
    """(eef index, subtask, demo) of each segment planned so far, in order."""


class SegmentTable:
    """The requests of N slots; every array begins with the slot. The names are those of `SegmentRequest`.

    Args:
        planner: who plans them.
        num_envs: slots N.
        eefs: number of eefs E.
        segments: segments of an attempt.
    """

    def __init__(self, planner: "SubtaskPlanner", num_envs: int, eefs: int, segments: int) -> None:
        self.planner = planner
        self.seed: rng.Seeds = np.zeros(num_envs, dtype=np.int64)
        self.visible = np.zeros(num_envs, dtype=np.int64)
        self.wanted = np.full((num_envs, eefs), GOES_ON, dtype=np.int64)
        self.attempt = np.zeros(num_envs, dtype=np.int64)
        self.run_seed: rng.Seeds = np.zeros(num_envs, dtype=np.int64)
        self.fresh = np.ones(num_envs, dtype=np.bool_)
        self.chosen = np.full((num_envs, segments, 3), NO_DEMO, dtype=np.int64)
        self.num_chosen = np.zeros(num_envs, dtype=np.int64)

    def begin(self, slots: Ints, seeds: rng.Seeds, visible: int, attempts: Ints, run_seed: int, wanted: Ints) -> None:
        """New attempts (K,) begin in slots (K,), and want subtasks (E,)."""
        self.seed[slots] = seeds
        self.visible[slots] = visible
        self.wanted[slots] = wanted
        self.attempt[slots] = attempts
        self.run_seed[slots] = run_seed
        self.fresh[slots] = True
        self.num_chosen[slots] = 0

    def note_chosen(self, slots: Ints, eef: int, subtask: Ints, demo: Ints) -> None:
        """A segment of one eef was planned in each of slots (M,)."""
        self._ensure(int(self.num_chosen[slots].max(initial=0)) + 1)
        at = slots, self.num_chosen[slots]
        for column, values in enumerate((eef, subtask, demo)):
            self.chosen[*at, column] = values
        self.num_chosen[slots] += 1

    def _ensure(self, segments: int) -> None:
        """Make room for so many, where a request that has failed for one eef is made again."""
        more = segments - self.chosen.shape[1]
        if more > 0:
            self.chosen = np.pad(self.chosen, ((0, 0), (0, more), (0, 0)), constant_values=NO_DEMO)

    def first_demo(self, slots: Ints) -> Ints:
        """(K,) the demo of the attempt's first segment; 0 where there is none yet."""
        return np.where(self.num_chosen[slots] > 0, self.chosen[slots, 0, 2], 0)

    def chosen_in(self, slots: Ints) -> list[list[tuple[int, int, int]]]:
        """(K,) `SegmentRequest.chosen` of slots (K,)."""
        rows = zip(self.chosen[slots].tolist(), self.num_chosen[slots].tolist(), strict=True)
        return [[(eef, subtask, demo) for eef, subtask, demo in chosen[:count]] for chosen, count in rows]

    def enter(self, slots: Ints, requests: Sequence[SegmentRequest]) -> None:
        """Take the values of requests (K,)."""
        idle = [GOES_ON] * self.wanted.shape[1]
        for name in ("seed", "visible", "attempt", "run_seed", "fresh"):
            getattr(self, name)[slots] = [getattr(request, name) for request in requests]
        self.wanted[slots] = [request.wanted or idle for request in requests]
        self.num_chosen[slots] = [len(request.chosen) for request in requests]
        for slot, request in zip(slots.tolist(), requests, strict=True):
            self._ensure(len(request.chosen))
            self.chosen[slot, : len(request.chosen)] = np.reshape(request.chosen, (-1, 3))

    def give_back(self, slots: Ints, requests: Sequence[SegmentRequest], done: npt.NDArray[np.bool_]) -> None:
        """Give requests (K,) their values; those that are done want nothing."""
        rows = zip(requests, self.wanted[slots].tolist(), self.fresh[slots].tolist(), done.tolist(), strict=True)
        for request, wanted, fresh, is_done in rows:
            request.wanted, request.fresh = None if is_done else wanted, fresh
        for request, chosen in zip(requests, self.chosen_in(slots), strict=True):
            request.chosen[:] = chosen
