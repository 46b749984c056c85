"""Plans the next segments of many slots in one call.

    SegmentRequest ──► rows of each eef ──► source demo ──► boundaries ──► stitch ──► PlanBatch
    (seed, visible,                         (choose)        (segments)     (one gather, one transform)
     wanted segments)

The work is a fixed number of array operations for each eef, whatever the number of slots. Steps, and the one or two
poses of a row that its plan follows from, are arrays on the host; trajectories are tensors on the env's device. A row's
plan depends on the row alone (its seed, its demos, what its slot sees), so it has the same bits in every batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.datagen import rigid
from mimicpipe.datagen.batch import EefSpec, Ints, Rows, World, eef_spec
from mimicpipe.datagen.choose import DemoChooser
from mimicpipe.datagen.noise import unit_noise
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.rigid import Floats
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.stitch import as_waypoints, hold_last, lead_in, put_lead_in, transform
from mimicpipe.datagen.subtask import DataGenConfig, check_datagen_config
from mimicpipe.errors import RequestError
from mimicpipe.pipeline.protocol import EefPlans, PlanBatch, PlanFailedError

GOES_ON = -1
"""In `SegmentRequest.wanted`: the eef goes on with the waypoints it has."""

_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class SegmentRequest:
    """What the slot's next plan is to contain; one object serves a whole attempt, the planner moves it on."""

    planner: "SubtaskPlanner"
    seed: int
    """The attempt's seed."""
    visible: int
    """Demos the attempt may choose from: those added before the count reached this."""
    wanted: list[int] | None
    """For each eef, in the env's order, the subtask whose segment is wanted next, or GOES_ON; None: all are done."""
    fresh: bool = True
    """Nothing has been planned for the attempt yet."""
    chosen: list[tuple[int, int, int]] = field(default_factory=list)
    """(eef index, subtask, demo) of each segment planned so far, in order."""


class SubtaskPlanner:
    """Plans subtask segments for slots of one env, from one pool.

    Args:
        env: the simulator.
        pool: source demos and subtasks.
        config: how segments are chosen and joined.
    """

    def __init__(self, env: MimicSim, pool: DataGenInfoPool, config: DataGenConfig) -> None:
        check_datagen_config(config)
        self._env = env
        self._pool = pool
        self._config = config
        self._device = torch.device(env.device)
        self._specs = [eef_spec(pool, config, index) for index in range(len(pool.eef_names))]
        self._last = np.asarray([spec.last for spec in self._specs], dtype=np.int64)
        self._noisy = any(spec.noise.any() for spec in self._specs)
        # A hold after an eef's last segment is noiseless, so it needs a waypoint of its own.
        self._holds = config.settle_steps > 0 or len(self._specs) > 1
        count, eefs = env.num_envs, len(self._specs)
        self._chooser = DemoChooser(pool, count, 1 + max(int(spec.cell.max()) for spec in self._specs))
        self._subtask = np.full((count, eefs), -1, dtype=np.int64)
        self._pending = np.zeros((count, eefs), dtype=np.int64)
        self._planned = np.zeros((count, eefs), dtype=np.int64)
        self._last_target = np.zeros((eefs, 3, 4, count))

    def request(self, seed: int, visible: int) -> SegmentRequest:
        """The request of an attempt that begins: the first segment of every eef, from the first `visible` demos."""
        there = self._pool.num_datagen_infos
        if visible > there:
            raise ValueError(f"visible={visible}: the pool has {there} demos so far; wait for the others")
        return SegmentRequest(self, seed, visible, [0] * len(self._specs))

    def plan_batch(self, env_ids: Tensor, requests: Sequence[SegmentRequest]) -> PlanBatch:
        """Plan for slots `env_ids` (K,) int64, and move their requests on.

        A row's steps end with the first segment that ends; after the last one, `settle_steps` are added. An exception
        of a selection strategy is raised in the coroutines that it was called for.
        """
        slots = env_ids.cpu().numpy()
        seeds = np.asarray([request.seed for request in requests], dtype=np.int64)
        visible = np.asarray([request.visible for request in requests], dtype=np.int64)
        idle = [GOES_ON] * len(self._specs)
        wanted = np.asarray([request.wanted or idle for request in requests], dtype=np.int64)
        self._forget(slots[[request.fresh for request in requests]])
        errors: dict[int, Exception] = {}
        for row, request in enumerate(requests):
            if request.visible <= 0:
                errors[row] = PlanFailedError("the pool has no source demo yet")
        world = World(self._env, env_ids, self._pool.object_names)
        plans: dict[str, EefPlans] = {}
        for spec in self._specs:
            wants = wanted[:, spec.index] != GOES_ON
            wants[list(errors)] = False
            batch = Rows(np.arange(len(slots)), slots, seeds, visible, wanted[:, spec.index])
            if not wants.all():
                batch = batch.take(np.flatnonzero(wants))
            if len(batch.rows):
                batch, demo = self._chooser.choose(spec, batch, world, errors)
            if len(batch.rows):
                plans[spec.name] = self._plan_eef(spec, batch, demo, world)
                _note_chosen(requests, spec, batch, demo)
        return PlanBatch(self._move_on(slots, requests, errors), plans, errors)

    def _forget(self, slots: Ints) -> None:
        """New attempts begin in these slots."""
        self._subtask[slots] = -1
        self._pending[slots] = 0
        self._planned[slots] = 0
        self._chooser.forget(slots)

    def _move_on(self, slots: Ints, requests: Sequence[SegmentRequest], errors: dict[int, Exception]) -> Tensor:
        """Steps (K,) to play, and each request's next wanted segments."""
        pending, subtask = self._pending[slots], self._subtask[slots]
        steps = np.where(pending > 0, pending, _NEVER).min(axis=1)
        for row, left in enumerate(steps.tolist()):
            if left == _NEVER:
                errors.setdefault(row, RequestError("nothing is left to plan: the last segments have been played"))
        pending = np.maximum(pending - steps[:, None], 0)
        self._pending[slots] = pending
        ended = pending == 0
        done = (ended & (subtask == self._last)).all(axis=1)
        following = np.where(ended & (subtask < self._last), subtask + 1, GOES_ON).tolist()
        for row, (request, over) in enumerate(zip(requests, done.tolist(), strict=True)):
            if row not in errors:
                request.wanted = None if over else following[row]
                request.fresh = False
        steps = steps + np.where(done, self._config.settle_steps, 0)
        steps[list(errors)] = 1
        return torch.from_numpy(steps)

    # ---- one eef

    def _plan_eef(self, spec: EefSpec, batch: Rows, demo: Ints, world: World) -> EefPlans:
        subtask, timeline, boundaries = batch.subtask, self._pool.timeline, self._pool.boundaries[spec.name]
        begin, end = boundaries.of_segments(batch.seeds, subtask, demo)
        lead = spec.lead[subtask]
        steps = lead + end - begin
        holds = self._holds & (subtask == spec.last)
        times = self._pool.start_times[demo] + begin
        longest = int((steps + holds).max())
        motion = self._motion(spec, batch, world, times)
        before = self._lead_in(spec, batch, world, times, times + (end - begin) - 1, motion)
        self._remember(spec, batch, steps)

        numbers = self._to_device(np.array((batch.rows, steps + holds, times - lead, lead)))
        window = timeline.windows(f"target/{spec.name}", numbers[2], longest)
        plan = transform(window, self._to_device(motion.astype(np.float32)))
        if before.shape[1]:
            put_lead_in(plan, self._to_device(before), numbers[3])
        if holds.any():
            rows = np.flatnonzero(holds)
            hold_last(plan, *self._to_device(np.array((rows, steps[rows]))))
        return EefPlans(numbers[0], numbers[1], *as_waypoints(plan), self._noise(spec, batch, steps, longest))

    def _to_device(self, values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    def _motion(self, spec: EefSpec, batch: Rows, world: World, times: Ints) -> Floats:
        """(3, 4, M) what moves the object from where it lay at the segment's start to where it lies, else identity."""
        objects, parts = spec.objects[batch.subtask], len(self._pool.object_names)
        still = objects < 0
        if still.all():
            return np.repeat(np.eye(3, 4)[..., None], len(objects), axis=2)
        index = np.maximum(objects, 0)
        source = self._pool.timeline.rows("objects", times, index, parts)[:12].reshape(3, 4, -1)
        motion = rigid.compose(world.object_poses(index, batch.rows), rigid.invert(source.astype(np.float64)))
        return np.where(still, np.eye(3, 4)[..., None], motion) if still.any() else motion

    def _lead_in(
        self, spec: EefSpec, batch: Rows, world: World, first: Ints, last: Ints, motion: Floats
    ) -> npt.NDArray[np.float32]:
        """(16 + G, H, M) the plan's steps before the segment's first target; remembers its last one.

        `first` and `last` (M,) are the times of the two.
        """
        subtask, timeline = batch.subtask, self._pool.timeline
        ends = timeline.rows(f"target/{spec.name}", np.array((first, last)))
        source = ends[:12].reshape(3, 4, 2, -1)
        measured = spec.measured[subtask]
        if measured.any():
            source_eef = timeline.rows(f"eef/{spec.name}", first)[:12].reshape(3, 4, -1)
            source[:, :, 0] = np.where(measured, source_eef, source[:, :, 0])
        moved = rigid.compose(motion[:, :, None], source)
        start = self._start_pose(spec, batch, world)
        self._last_target[spec.index][:, :, batch.slots] = moved[:, :, 1]
        return lead_in(start, moved[:, :, 0], ends[12:, 0], spec.between[subtask], int(spec.lead[subtask].max()))

    def _start_pose(self, spec: EefSpec, batch: Rows, world: World) -> Floats:
        """(3, 4, M) where interpolation starts: the last target, or, in the first subtask, where the eef is."""
        from_last = (batch.subtask > 0) & self._config.generation_interpolate_from_last_target_pose
        last = self._last_target[spec.index].take(batch.slots, axis=2)
        return last if from_last.all() else np.where(from_last, last, world.eef_poses(spec.name, batch.rows))

    def _remember(self, spec: EefSpec, batch: Rows, steps: Ints) -> None:
        self._subtask[batch.slots, spec.index] = batch.subtask
        self._pending[batch.slots, spec.index] = steps
        self._planned[batch.slots, spec.index] += steps

    def _noise(self, spec: EefSpec, batch: Rows, steps: Ints, longest: int) -> Tensor | None:
        """(M, L, noise_dim) drawn and scaled; None where no subtask of the task has any."""
        if not self._noisy:
            return None
        first_step = self._planned[batch.slots, spec.index] - steps
        noise = unit_noise(batch.seeds, spec.index, first_step, longest, self._env.noise_dim)
        noise *= spec.noise[batch.subtask][:, None, None]
        quiet = spec.quiet[batch.subtask]
        most = int(quiet.max())
        noise[:, :most][np.arange(most) < quiet[:, None]] = 0.0
        if self._holds:
            # The step behind the last is one to hold.
            held = np.flatnonzero(steps < longest)
            noise[held, steps[held]] = 0.0
        return self._to_device(noise)


def _note_chosen(requests: Sequence[SegmentRequest], spec: EefSpec, batch: Rows, demo: Ints) -> None:
    for row, subtask, source in zip(batch.rows.tolist(), batch.subtask.tolist(), demo.tolist(), strict=True):
        requests[row].chosen.append((spec.index, subtask, source))
