"""When each eef of each slot plays, waits and goes on, where constraints tie the eefs' subtasks to each other.

An eef is in one of three states: between two segments (`ended == begun`), in a segment (`begun == ended + 1`), or done
(`ended == count`). It waits between segments for what must come before the next one begins, and in a segment at a
*stop*: a number of waypoints left that it does not go below before something has happened elsewhere. Nothing here looks
at poses, so the times of an attempt follow from the lengths of its segments alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe.datagen.batch import EefSpec, Ints
from mimicpipe.datagen.constraints import SubTaskConstraintConfig

Mask = npt.NDArray[np.bool_]
Part = tuple[int, int]
"""(eef index, subtask)."""

GOES_ON = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Pair:
    """Two coordinated subtasks."""

    parts: tuple[Part, Part]
    number: int
    """Index among the constraints."""
    config: SubTaskConstraintConfig


def parts_of(constraint: SubTaskConstraintConfig, specs: Sequence[EefSpec]) -> tuple[Part, Part]:
    """A constraint's subtasks, eefs by index."""
    index = {spec.name: spec.index for spec in specs}
    (a, i), (b, j) = constraint.eef_subtask_constraint_tuple
    return (index[a], i), (index[b], j)


class Timing:
    """States of the eefs of all slots; every method takes the slots (K,) of a batch.

    Args:
        specs: the eefs, in the env's order.
        constraints: checked.
        num_envs: number of slots.
    """

    def __init__(self, specs: Sequence[EefSpec], constraints: Sequence[SubTaskConstraintConfig], num_envs: int) -> None:
        self._names = [spec.name for spec in specs]
        self._counts = np.asarray([spec.last + 1 for spec in specs], dtype=np.int64)
        self._before: list[tuple[Part, Part]] = []
        """(first, second): the second begins after the first's end."""
        self._holds: list[tuple[Part, Part, int]] = []
        """(first, second, d): the second stops with d waypoints left before the first's end."""
        self.pairs: list[Pair] = []
        for number, constraint in enumerate(constraints):
            first, second = parts_of(constraint, specs)
            if constraint.is_coordination:
                self.pairs.append(Pair((first, second), number, constraint))
            elif constraint.sequential_min_time_diff == -1:
                self._before.append((first, second))
            else:
                self._holds.append((first, second, constraint.sequential_min_time_diff))
        shape = (num_envs, len(specs))
        self.begun = np.zeros(shape, dtype=np.int64)
        self.ended = np.zeros(shape, dtype=np.int64)
        self.left = np.zeros(shape, dtype=np.int64)
        """Waypoints of the current segment not yet played."""
        self.length = np.zeros(shape, dtype=np.int64)
        self.together = np.zeros((num_envs, len(self.pairs)), dtype=np.int64)
        """Steps that a pair plays at the same time, once one of them has begun."""
        self.first_wanted = self.wanted(np.zeros(1, dtype=np.int64))[0].tolist()
        """What an attempt begins with."""

    def forget(self, slots: Ints) -> None:
        """New attempts begin in these slots."""
        for table in (self.begun, self.ended, self.left, self.length, self.together):
            table[slots] = 0

    def begin(self, eef: int, slots: Ints, steps: Ints) -> None:
        """An eef's next segment, of so many waypoints, begins."""
        self.begun[slots, eef] += 1
        self.left[slots, eef] = self.length[slots, eef] = steps

    def stops(self, slots: Ints) -> Ints:
        """(K, E) waypoints that are left at each eef's next stop; 0 where it may play to the end, -1 beyond it.

        -1 says that nothing keeps a segment without waypoints left from having ended.
        """
        stops = np.full((len(slots), len(self._counts)), -1, dtype=np.int64)
        for first, (eef, subtask), steps in self._holds:
            waits = self._is_in(slots, (eef, subtask)) & ~self._has_ended(slots, first)
            at = np.minimum(steps, self.length[slots, eef] - 1)
            stops[:, eef] = np.where(waits, np.maximum(stops[:, eef], at), stops[:, eef])
        for index, pair in enumerate(self.pairs):
            steps = self.together[slots, index]
            for part, other in (pair.parts, pair.parts[::-1]):
                arrived = self._is_in(slots, other) & (self.left[slots, other[0]] <= steps)
                waits = self._is_in(slots, part) & ~arrived & ~self._has_ended(slots, other)
                stops[:, part[0]] = np.where(waits, np.maximum(stops[:, part[0]], steps), stops[:, part[0]])
        return stops

    def playing(self, slots: Ints) -> Mask:
        """(K, E) whether each eef is in a segment, and not at a stop."""
        return (self.begun > self.ended)[slots] & (self.left[slots] > np.maximum(self.stops(slots), 0))

    def waiting(self, slots: Ints) -> Mask:
        """(K, E) whether each eef has something to do, but not yet."""
        return (self.ended[slots] < self._counts) & ~self.playing(slots)

    def advance(self, slots: Ints) -> Ints:
        """Play to the next event; returns how many steps (K,) that takes, 0 where nothing can ever go on."""
        until = np.maximum(self.stops(slots), 0)
        for index, pair in enumerate(self.pairs):
            for part in pair.parts:  # coming to where the two meet can let the other go on
                eef, steps = part[0], self.together[slots, index]
                ahead = self._is_in(slots, part) & (self.left[slots, eef] > steps)
                until[:, eef] = np.where(ahead, np.maximum(until[:, eef], steps), until[:, eef])
        pending = np.where(self.playing(slots), self.left[slots] - until, _NEVER)
        steps = pending.min(axis=1)
        steps[steps == _NEVER] = 0
        self.left[slots] -= np.where(pending == _NEVER, 0, steps[:, None])
        changed = True
        while changed:  # an end may allow that of another, which has played everything, too
            at_end = (self.begun > self.ended)[slots] & (self.left[slots] == 0) & (self.stops(slots) < 0)
            self.ended[slots] += at_end
            changed = bool(at_end.any())
        return steps

    def wanted(self, slots: Ints) -> Ints:
        """(K, E) the subtask that each eef may begin now, or GOES_ON."""
        following = self.begun[slots]
        free = (self.ended[slots] == following) & (following < self._counts)
        for first, (eef, subtask) in self._before:
            free[:, eef] &= (following[:, eef] != subtask) | self._has_ended(slots, first)
        alone = free.copy()
        for pair in self.pairs:
            if pair.config.coordination_synchronize_start:
                for (eef, subtask), (other, its) in (pair.parts, pair.parts[::-1]):
                    together = alone[:, other] & (following[:, other] == its)
                    free[:, eef] &= (following[:, eef] != subtask) | together
        return np.where(free, following, GOES_ON)

    def done(self, slots: Ints) -> Mask:
        """(K,) whether all eefs are done."""
        return (self.ended[slots] == self._counts).all(axis=1)

    def partner_has_begun(self, pair: Pair, part: Part, slots: Ints) -> Mask:
        """(K,) whether the other subtask of a pair has begun."""
        eef, subtask = pair.parts[1 - pair.parts.index(part)]
        return self.begun[slots, eef] > subtask

    def describe(self, slot: int) -> str:
        """What the eefs of a slot wait for, in words."""
        slots = np.asarray([slot])
        texts = []
        for eef in np.flatnonzero(self.waiting(slots)[0]).tolist():
            subtask = int(self.begun[slot, eef] - self._is_in(slots, (eef, int(self.ended[slot, eef])))[0])
            others = [first for first, second, *_ in (*self._before, *self._holds) if second == (eef, subtask)]
            for pair in self.pairs:
                others += [pair.parts[1 - i] for i, part in enumerate(pair.parts) if part == (eef, subtask)]
            words = " and ".join(f"{self._names[e]}[{s}]" for e, s in others) or "nothing"
            texts.append(f"{self._names[eef]}[{subtask}] waits for {words}")
        return ", ".join(texts)

    def _is_in(self, slots: Ints, part: Part) -> Mask:
        eef, subtask = part
        return (self.begun[slots, eef] == subtask + 1) & (self.ended[slots, eef] == subtask)

    def _has_ended(self, slots: Ints, part: Part) -> Mask:
        eef, subtask = part
        return self.ended[slots, eef] > subtask
