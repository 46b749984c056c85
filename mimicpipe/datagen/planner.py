"""Plans the next segments of many slots in one call.

    SegmentRequest ──► rows of each eef ──► source demo ──► boundaries ──► waypoints ──► PlanBatch
    (seed, visible,                         (choose)        (segments)     (stitch)
     wanted segments)

The work is a fixed number of calls for each eef, whatever the number of slots. It is done on the host, as planning asks
a few numbers of each slot and makes many decisions; waypoints go to the env's device in one piece. A row's plan depends
on the row alone (its seed, its demos, what its slot sees), so it has the same bits in every batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.datagen import stitch
from mimicpipe.datagen.batch import Attempts, EefSpec, Ints, Rows, World, eef_spec
from mimicpipe.datagen.choose import DemoChooser
from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.coordinator import Coordinator
from mimicpipe.datagen.noise import unit_noise
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.pose_noise import EXACT, PoseNoise
from mimicpipe.datagen.requests import SegmentRequest, SegmentTable
from mimicpipe.datagen.rigid import Floats
from mimicpipe.datagen.settling import settled
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.subtask import DataGenConfig, check_datagen_config
from mimicpipe.datagen.timing import GOES_ON
from mimicpipe.errors import RequestError
from mimicpipe.pipeline.protocol import EefPlans, PlanBatch, PlanFailedError, WriteWaypoints, written
from mimicpipe.pipeline.transfer import downloader, uploader
from mimicpipe.rng import Seeds

Flags = npt.NDArray[np.bool_]

_NO_POSES = np.zeros((3, 4, 0))
_NEVER = np.iinfo(np.int64).max


class SubtaskPlanner:
    """Plans subtask segments for slots of one env, from one pool.

    Args:
        env: the simulator.
        pool: source demos and subtasks.
        config: how segments are chosen and joined.
        constraints: how the eefs' subtasks are tied to each other.
        pose_noise: errors of the objects' poses that segments are moved to.
    """

    def __init__(
        self,
        env: MimicSim,
        pool: DataGenInfoPool,
        config: DataGenConfig,
        constraints: Sequence[SubTaskConstraintConfig] = (),
        pose_noise: PoseNoise = EXACT,
    ) -> None:
        check_datagen_config(config)
        self._env = env
        self._pool = pool
        self._config = config
        self._pose_noise = pose_noise
        device = torch.device(env.device)
        self._upload, self._download = uploader(device), downloader(device)
        self._specs = [eef_spec(pool, config, index) for index in range(len(pool.eef_names))]
        self._last = np.asarray([spec.last for spec in self._specs], dtype=np.int64)
        self._noisy = any(spec.noise.any() for spec in self._specs)
        # A hold after an eef's last segment is noiseless, so it needs a waypoint of its own.
        self._holds = config.settle_steps > 0 or len(self._specs) > 1
        count, eefs = env.num_envs, len(self._specs)
        self._width = width = 16 + env.gripper_dim + env.noise_dim
        self._coordinator = Coordinator(pool, self._specs, config, constraints, count, width) if constraints else None
        self._chooser = DemoChooser(pool, count, 1 + max(int(spec.cell.max()) for spec in self._specs))
        self._subtask = np.full((count, eefs), -1, dtype=np.int64)
        self._pending = np.zeros((count, eefs), dtype=np.int64)
        self._planned = np.zeros((count, eefs), dtype=np.int64)
        self._last_target = np.zeros((eefs, 3, 4, count))
        segments = sum(spec.last + 1 for spec in self._specs)
        self.table = SegmentTable(self, count, eefs, segments)
        """The requests of all slots."""
        self._compile()

    def _compile(self) -> None:
        """Run the compiled loops once, so that the first process of a machine does not compile when it first plans."""
        nothing = np.zeros(0, dtype=np.int64)
        none = Rows(nothing, nothing, nothing, nothing, nothing)
        spec = self._specs[0]
        waypoints = np.zeros((0, 1, self._width), dtype=np.float32)
        table = np.zeros((0, stitch.COLUMNS), dtype=np.int64)
        self._stitch(spec, none, table, _NO_POSES, _NO_POSES, nothing, nothing, nothing, waypoints)

    def request(self, seed: int, visible: int, attempt: int = 0, run_seed: int = 0) -> SegmentRequest:
        """The request of an attempt that begins: the first segment of every eef, from the first `visible` demos.

        Args:
            seed: the attempt's seed.
            visible: demos that it may choose from.
            attempt: its index in the run, for strategies that look at it.
            run_seed: the run's seed, likewise.
        """
        there = self._pool.num_datagen_infos
        if visible > there:
            raise ValueError(f"visible={visible}: the pool has {there} demos so far; wait for the others")
        return SegmentRequest(self, seed, visible, self._first_wanted(), attempt, run_seed)

    def begin(self, slots: Ints, seeds: Seeds, visible: int, attempts: Ints, run_seed: int) -> SegmentTable:
        """As `request`, for attempts (K,) that begin in slots (K,): what holds their requests."""
        self.table.begin(slots, seeds, visible, attempts, run_seed, np.asarray(self._first_wanted(), dtype=np.int64))
        return self.table

    def _first_wanted(self) -> list[int]:
        coordinator = self._coordinator
        return [0] * len(self._specs) if coordinator is None else list(coordinator.timing.first_wanted)

    def plan_batch(self, env_ids: Tensor, requests: Sequence[SegmentRequest] | SegmentTable) -> PlanBatch:
        """Plan for slots `env_ids` (K,) int64, and move their requests on, which may be the table itself.

        A row's steps end with the first segment that ends, and it is planned again then, until the last segments have
        been played and `settle_steps` after them. An exception of a selection strategy is raised in the coroutines
        that it was called for.
        """
        slots = self._download(env_ids).numpy()
        if isinstance(requests, SegmentTable):
            return self._plan(env_ids, slots)[0]
        self.table.enter(slots, requests)
        batch, done = self._plan(env_ids, slots)
        self.table.give_back(slots, requests, done)
        return batch

    def _plan(self, env_ids: Tensor, slots: Ints) -> tuple[PlanBatch, Flags]:
        """Plan what the table says for slots `env_ids` (K,), `slots` on the host; (K,) whether all is planned then."""
        table = self.table
        seeds, visible, wanted = table.seed[slots], table.visible[slots], table.wanted[slots]
        self._forget(slots[table.fresh[slots]])
        errors: dict[int, Exception] = {}
        for row in np.flatnonzero(visible <= 0).tolist():
            errors[row] = PlanFailedError("the pool has no source demo yet")
        attempts = Attempts(table.attempt[slots], seeds, table.run_seed[slots])
        world = World(self._env, env_ids, self._pool.object_names, attempts, self._download, self._pose_noise)
        coordinator, plans = self._coordinator, dict[str, EefPlans]()
        for spec in self._specs:
            wants = wanted[:, spec.index] != GOES_ON
            wants[list(errors)] = False
            batch = Rows(np.arange(len(slots)), slots, seeds, visible, wanted[:, spec.index])
            if not wants.all():
                batch = batch.take(np.flatnonzero(wants))
            if coordinator is not None:
                coordinator.adopt_demos(spec, batch, self._chooser)
            if len(batch.rows):
                batch, demo = self._chooser.choose(spec, batch, world, errors)
            if len(batch.rows):
                steps, lengths, given = self._plan_eef(spec, batch, demo, world)
                table.note_chosen(batch.slots, spec.index, batch.subtask, demo)
                if coordinator is None:
                    self._remember(spec, batch, steps)
                    plans[spec.name] = self._plans(batch.rows, lengths, given)
                else:
                    coordinator.write(spec, batch.slots, self._written(lengths, given), steps)
        if coordinator is None:
            played, following, done = self._move_on(slots)
        else:
            live = np.asarray([row for row in range(len(slots)) if row not in errors], dtype=np.int64)
            for eef, emitted in coordinator.emit(slots, live, world, table.first_demo(slots)).items():
                plans[eef] = self._plans(*emitted)
            played, following, done = coordinator.move_on(slots)
        return self._answer(plans, errors, _Moved(slots, played, following, done))

    def _forget(self, slots: Ints) -> None:
        """New attempts begin in these slots."""
        self._subtask[slots] = -1
        self._pending[slots] = 0
        self._planned[slots] = 0
        self._chooser.forget(slots)
        if self._coordinator is not None:
            self._coordinator.forget(slots)

    def _move_on(self, slots: Ints) -> tuple[Ints, Ints, Flags]:
        """As `Coordinator.move_on`, where each eef goes on as soon as its segment has ended."""
        pending, subtask = self._pending[slots], self._subtask[slots]
        steps = np.where(pending > 0, pending, _NEVER).min(axis=1)
        steps[steps == _NEVER] = 0
        pending = np.maximum(pending - steps[:, None], 0)
        self._pending[slots] = pending
        ended = pending == 0
        done = (ended & (subtask == self._last)).all(axis=1)
        return steps, np.where(ended & (subtask < self._last), subtask + 1, GOES_ON), done

    def _answer(
        self, plans: dict[str, EefPlans], errors: dict[int, Exception], moved: "_Moved"
    ) -> tuple[PlanBatch, Flags]:
        """Move the requests on, but for those that failed; (K,) which are done."""
        for row in np.flatnonzero(moved.steps == 0).tolist():
            errors.setdefault(row, self._standstill(int(moved.slots[row]), finished=bool(moved.done[row])))
        planned = np.ones(len(moved.slots), dtype=np.bool_)
        planned[list(errors)] = False
        slots = moved.slots[planned]
        self.table.wanted[slots] = moved.following[planned]
        self.table.fresh[slots] = False
        steps = moved.steps + np.where(moved.done, self._config.settle_steps, 0)
        steps[~planned] = 1
        again = np.flatnonzero(planned & ~moved.done).tolist()
        return PlanBatch(torch.from_numpy(steps), plans, errors, again), moved.done & planned

    def _standstill(self, slot: int, *, finished: bool) -> Exception:
        if finished or self._coordinator is None:
            return RequestError("nothing is left to plan: the last segments have been played")
        return PlanFailedError(f"no eef can ever go on: {self._coordinator.timing.describe(slot)}")

    # ---- one eef

    def _plan_eef(self, spec: EefSpec, batch: Rows, demo: Ints, world: World) -> tuple[Ints, Ints, "_Given"]:
        """Steps (M,), waypoints (M,) with the one that is held behind the last segment, and what gives them."""
        subtask, count = batch.subtask, len(batch.rows)
        begin, end = self._pool.boundaries[spec.name].of_segments(batch.seeds, subtask, demo)
        lead = spec.lead[subtask]
        steps = lead + end - begin
        holds = self._holds & (subtask == spec.last)
        table = np.empty((count, stitch.COLUMNS), dtype=np.int64)
        table[:, stitch.START] = self._pool.start_times[demo] + begin
        table[:, stitch.LENGTH] = end - begin
        table[:, stitch.BETWEEN] = spec.between[subtask]
        table[:, stitch.LEAD] = lead
        table[:, stitch.QUIET] = spec.quiet[subtask]
        objects = spec.objects[subtask]
        table[:, stitch.OBJECT] = objects
        table[:, stitch.SLOT] = batch.slots
        table[:, stitch.MEASURED] = spec.measured[subtask]
        table[:, stitch.FROM_LAST] = from_last = (
            subtask > 0
        ) & self._config.generation_interpolate_from_last_target_pose
        table[:, stitch.HELD] = holds
        lengths = steps + holds
        object_now = _NO_POSES if (objects < 0).all() else world.object_poses(np.maximum(objects, 0), batch.rows)
        if self._coordinator is not None:
            for at, motion in self._coordinator.pairs.motions(spec, batch, demo, begin, end, object_now):
                object_now = object_now if object_now.shape[2] else np.zeros((3, 4, count))
                object_now[:, :, at] = motion
                table[at, stitch.OBJECT] = stitch.GIVEN
        eef_now = _NO_POSES if from_last.all() else world.eef_poses(spec.name, batch.rows)
        first_step = self._planned[batch.slots, spec.index]
        self._planned[batch.slots, spec.index] += steps
        write = partial(self._stitch, spec, batch, table, object_now, eef_now, steps, first_step)
        if spec.settle.any():
            changing = self._pool.timeline[f"change/{spec.name}"][0]
            first = table[:, stitch.START]
            changes = [np.flatnonzero(changing[s + 1 : s + n]) + 1 for s, n in zip(first, end - begin, strict=True)]
            gripper = slice(16, 16 + self._env.gripper_dim)
            waypoints = self._written(lengths, write)
            more, waypoints = settled(waypoints, lengths, lead, changes, spec.settle[subtask], gripper)
            return steps + more, lengths + more, waypoints
        return steps, lengths, write

    def _written(self, lengths: Ints, given: "_Given") -> npt.NDArray[np.float32]:
        """(M, L, W) waypoints."""
        return given if isinstance(given, np.ndarray) else written(given, lengths, self._width)

    def _plans(self, rows: Ints, lengths: Ints, given: "_Given") -> EefPlans:
        on_host = torch.from_numpy(rows), torch.from_numpy(lengths)
        if isinstance(given, np.ndarray) or self._env.device.type != "cpu":
            return EefPlans(*on_host, self._upload(self._written(lengths, given)), self._noisy)
        return EefPlans(*on_host, given, self._noisy, self._width)

    def _stitch(
        self, spec: EefSpec, batch: Rows, table: Ints, object_now: Floats, eef_now: Floats, steps: Ints,
        first_step: Ints, to: Ints, out: npt.NDArray[np.float32],
    ) -> None:  # fmt: skip
        """Write the waypoints of segments (M,) to out[to]."""
        timeline = self._pool.timeline
        stitch.stitch(
            table, timeline[f"target/{spec.name}"], timeline[f"eef/{spec.name}"], timeline["objects"],
            len(self._pool.object_names), object_now, eef_now, self._last_target[spec.index],
            spec.noise[batch.subtask], self._unit_noise(spec, batch, steps, first_step), to, out,
        )  # fmt: skip

    def _unit_noise(self, spec: EefSpec, batch: Rows, steps: Ints, first_step: Ints) -> npt.NDArray[np.float32]:
        """(M, S, P) standard normals for the steps (M,) of the plans; (M, 0, P) where no subtask has noise."""
        wanted = steps if self._noisy else np.zeros_like(steps)
        longest = int(wanted.max(initial=0))
        return unit_noise(batch.seeds, spec.index, first_step, longest, self._env.noise_dim, wanted)

    def _remember(self, spec: EefSpec, batch: Rows, steps: Ints) -> None:
        self._subtask[batch.slots, spec.index] = batch.subtask
        self._pending[batch.slots, spec.index] = steps


_Given = npt.NDArray[np.float32] | WriteWaypoints
"""Waypoints (M, L, W), or what writes them."""


@dataclass(slots=True)
class _Moved:
    """How the slots (K,) of a batch go on."""

    slots: Ints
    steps: Ints
    following: Ints
    done: Flags
