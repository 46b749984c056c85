"""Coordinated subtasks: the demo and the motion that the two of a pair share.

The first of a pair to be planned chooses the demo and fixes the motion, by the pair's scheme; the second takes both.
"""

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mimicpipe import rng
from mimicpipe.compiled import compiled
from mimicpipe.datagen import rigid
from mimicpipe.datagen.batch import EefSpec, Ints, Rows
from mimicpipe.datagen.constraints import SubTaskConstraintCoordinationScheme as Scheme
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.rigid import Floats
from mimicpipe.datagen.timing import Pair, Timing

_DRAWS = 6
"""Uniforms of a pair: position, rotation vector. Those of constraint c are at c * _DRAWS of stream COORDINATION."""


@compiled
def _disturb(motion: Floats, centre: Floats, shift: Floats, vector: Floats) -> None:
    """Turn motions (3, 4, M) about points (3, M) by rotation vectors (3, M) and move them by (3, M), in place.

    The rotation is I + sin(a) K + (1 - cos(a)) K^2 (Rodrigues), K the cross-product matrix of the unit axis.
    """
    turn, before = np.empty((3, 3)), np.empty((3, 4))
    for m in range(motion.shape[2]):
        x, y, z = vector[0, m], vector[1, m], vector[2, m]
        angle = math.sqrt(x * x + y * y + z * z)
        if angle > 0.0:
            x, y, z = x / angle, y / angle, z / angle
        s, d = math.sin(angle), 1.0 - math.cos(angle)
        turn[0, 0], turn[0, 1], turn[0, 2] = 1.0 - d * (y * y + z * z), d * x * y - s * z, d * x * z + s * y
        turn[1, 0], turn[1, 1], turn[1, 2] = d * x * y + s * z, 1.0 - d * (x * x + z * z), d * y * z - s * x
        turn[2, 0], turn[2, 1], turn[2, 2] = d * x * z - s * y, d * y * z + s * x, 1.0 - d * (x * x + y * y)
        for r in range(3):
            for c in range(4):
                before[r, c] = motion[r, c, m] - (centre[r, m] if c == 3 else 0.0)
        for r in range(3):
            for c in range(4):
                motion[r, c, m] = turn[r, 0] * before[0, c] + turn[r, 1] * before[1, c] + turn[r, 2] * before[2, c]
            motion[r, 3, m] += centre[r, m] + shift[r, m]


class Segments(Protocol):
    """Where segments begin and end."""

    def of_segments(self, seeds: rng.Seeds, subtask: Ints, demos: Ints, /) -> Ints:
        """(2, K) start and end of one subtask's segment in one demo for each of K attempts; all arguments (K,)."""
        ...


class Pairs:
    """Shared demos and motions of all slots.

    Args:
        pool: source demos.
        specs: the eefs, in the env's order.
        timing: knows which of a pair has begun.
        num_envs: number of slots.
        segments: {eef: where segments begin and end}; None is the pool's own.
    """

    def __init__(
        self,
        pool: DataGenInfoPool,
        specs: list[EefSpec],
        timing: Timing,
        num_envs: int,
        segments: Mapping[str, Segments] | None = None,
    ) -> None:
        self._pool = pool
        self._segments: Mapping[str, Segments] = pool.boundaries if segments is None else segments
        self._specs = specs
        self._timing = timing
        self._motion = np.zeros((len(timing.pairs), 3, 4, num_envs))
        self._demo = np.zeros((len(timing.pairs), num_envs), dtype=np.int64)
        nothing = np.zeros((3, 0))
        _disturb(np.zeros((3, 4, 0)), nothing, nothing, nothing)

    def followers(self, spec: EefSpec, batch: Rows) -> list[tuple[Ints, Ints]]:
        """[(rows of the batch whose partner has begun, the demo that each takes over)], for each pair."""
        found = []
        for index, part, at in self._of(spec, batch):
            slots = batch.slots[at]
            late = self._timing.partner_has_begun(self._timing.pairs[index], part, slots)
            if late.any():
                found.append((at[late], self._demo[index, slots[late]]))
        return found

    def motions(
        self, spec: EefSpec, batch: Rows, demo: Ints, begin: Ints, end: Ints, object_now: Floats
    ) -> list[tuple[Ints, Floats]]:
        """[(rows of the batch, the motion (3, 4, .) of each one's segment)], for each pair.

        Args:
            spec: the eef.
            batch: rows that get a new segment.
            demo: (M,) the source demo.
            begin: (M,) the segment's first step.
            end: (M,) the step behind its last.
            object_now: (3, 4, M) pose of the subtask's object; (3, 4, 0) if no row has one.
        """
        found = []
        for index, part, at in self._of(spec, batch):
            pair, slots = self._timing.pairs[index], batch.slots[at]
            early = at[~self._timing.partner_has_begun(pair, part, slots)]
            if len(early):
                times = self._pool.start_times[demo[early]] + begin[early]
                now = object_now.take(early, axis=2) if object_now.shape[2] else None
                motion = self._first_motion(spec, batch.take(early), times, pair, now)
                self._motion[index][:, :, batch.slots[early]] = motion
                self._demo[index, batch.slots[early]] = demo[early]
                self._note_length(index, part, batch.take(early), demo[early], (end - begin)[early])
            found.append((at, self._motion[index][:, :, slots]))
        return found

    def _of(self, spec: EefSpec, batch: Rows) -> list[tuple[int, tuple[int, int], Ints]]:
        """[(pair, the eef's subtask in it, rows of the batch that begin it)]."""
        found = []
        for index, pair in enumerate(self._timing.pairs):
            for eef, subtask in pair.parts:
                at = np.flatnonzero(batch.subtask == subtask) if eef == spec.index else batch.rows[:0]
                if len(at):
                    found.append((index, (eef, subtask), at))
        return found

    def _note_length(self, index: int, part: tuple[int, int], batch: Rows, demo: Ints, steps: Ints) -> None:
        """The two play at the same time what is the length of the shorter segment, at the end of both."""
        parts = self._timing.pairs[index].parts
        eef, subtask = parts[1 - parts.index(part)]
        number = np.full(len(demo), subtask, dtype=np.int64)
        begin, end = self._segments[self._specs[eef].name].of_segments(batch.seeds, number, demo)
        self._timing.together[batch.slots, index] = np.minimum(steps, end - begin)

    def _first_motion(
        self, spec: EefSpec, batch: Rows, times: Ints, pair: Pair, object_now: Floats | None
    ) -> npt.NDArray[np.float64]:
        scheme, count = pair.config.coordination_scheme, len(batch.rows)
        motion = np.zeros((3, 4, count))
        for axis in range(3):
            motion[axis, axis] = 1.0
        objects = spec.objects[batch.subtask]
        there = objects >= 0  # the same for all rows: they begin the same subtask
        centre = self._first_position(spec, times)
        if object_now is not None and there.all():
            parts = len(self._pool.object_names)
            values = self._pool.timeline.rows("objects", times, objects, parts).astype(np.float64)
            source = np.ascontiguousarray(values.reshape(4, 4, count)[:3])
            if scheme is Scheme.TRANSFORM:
                motion = rigid.compose(object_now, rigid.invert(source))
            elif scheme is Scheme.TRANSLATE:
                motion[:, 3] = object_now[:, 3] - source[:, 3]
            centre = source[:, 3] if scheme is Scheme.REPLAY else object_now[:, 3]
        scales = np.repeat(
            [pair.config.coordination_scheme_pos_noise_scale, pair.config.coordination_scheme_rot_noise_scale], 3
        )
        if scales.any():
            drawn = rng.uniforms(batch.seeds, rng.Stream.COORDINATION, _DRAWS, offset=pair.number * _DRAWS)
            noise = np.ascontiguousarray(((2.0 * drawn - 1.0) * scales).T)
            motion = np.ascontiguousarray(motion)
            _disturb(motion, np.ascontiguousarray(centre), noise[:3], noise[3:])
        return motion

    def _first_position(self, spec: EefSpec, times: Ints) -> npt.NDArray[np.float64]:
        """(3, M) where the source eef was told to be at the segment's start."""
        return self._pool.timeline[f"target/{spec.name}"][3:12:4, times].astype(np.float64)
