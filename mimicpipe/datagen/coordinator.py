"""Plans of several eefs that wait for each other: what each is told to play, from one event of a slot to the next.

The planner writes an eef's segment into its *script*; the coordinator decides what of it is played now. An eef that
waits holds the last waypoint that it has played, without noise, and before its first one the pose where it is. It goes
on with its script where it left off.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mimicpipe.datagen.batch import EefSpec, Ints, Rows, World
from mimicpipe.datagen.choose import DemoChooser
from mimicpipe.datagen.constraints import SubTaskConstraintConfig, check_constraints
from mimicpipe.datagen.pairs import Pairs
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.rigid import Floats
from mimicpipe.datagen.subtask import DataGenConfig, SubtaskConfigs
from mimicpipe.datagen.timing import Mask, Timing
from mimicpipe.errors import ConfigError

Singles = npt.NDArray[np.float32]
Emitted = tuple[Ints, Ints, Singles]
"""Rows of the batch (M,), their number of waypoints (M,), and the waypoints (M, L, W)."""

_INITIAL_STEPS = 64
_POSE = 12
_GRIPPER = 16
"""Where a waypoint's pose ends, and where its gripper action begins."""


def check_ties(constraints: Sequence[SubTaskConstraintConfig], subtask_configs: SubtaskConfigs) -> None:
    """Raise ConfigError, with the key, unless every constraint can be met with these subtasks."""
    check_constraints(constraints, {eef: [c.object_ref for c in configs] for eef, configs in subtask_configs.items()})
    for number, constraint in enumerate(constraints):
        for eef, subtask in constraint.eef_subtask_constraint_tuple if constraint.is_coordination else ():
            if subtask_configs[eef][subtask].num_settle_steps:
                raise ConfigError(
                    f"task.subtasks.{eef}[{subtask}].num_settle_steps: must be 0, as the subtask keeps time with "
                    f"another (task.constraints[{number}])"
                )


def share_demos(timing: Timing, specs: Sequence[EefSpec]) -> None:
    """Let the subtasks of a pair use one remembered demo of their own."""
    cell = 1 + max(int(spec.cell.max()) for spec in specs)
    for number, pair in enumerate(timing.pairs):
        for eef, subtask in pair.parts:
            specs[eef].cell[subtask] = cell + number


class Coordinator:
    """Scripts and states of all slots.

    Args:
        pool: source demos.
        specs: the eefs, in the env's order; those of coordinated subtasks are made to share a demo.
        config: how segments are chosen.
        constraints: at least one.
        num_envs: number of slots.
        width: numbers of a waypoint.

    Raises:
        ConfigError: a constraint that cannot be met.
    """

    def __init__(
        self,
        pool: DataGenInfoPool,
        specs: list[EefSpec],
        config: DataGenConfig,
        constraints: Sequence[SubTaskConstraintConfig],
        num_envs: int,
        width: int,
    ) -> None:
        check_ties(constraints, pool.subtask_configs)
        self._pool = pool
        self._specs = specs
        self._grippers = slice(_GRIPPER, _GRIPPER + pool.env.gripper_dim)
        self.timing = Timing(specs, constraints, num_envs)
        self.pairs = Pairs(pool, specs, self.timing, num_envs)
        if config.generation_select_src_per_subtask:
            share_demos(self.timing, specs)
        self._script = [np.zeros((num_envs, _INITIAL_STEPS, width), dtype=np.float32) for _ in specs]
        self._last = np.zeros((len(specs), num_envs, width), dtype=np.float32)
        """The last waypoint of the segment before the current one."""
        self._holds = np.zeros((num_envs, len(specs)), dtype=np.bool_)
        self._began = np.zeros((num_envs, len(specs)), dtype=np.bool_)
        """Eefs whose segment was planned in this call."""

    def forget(self, slots: Ints) -> None:
        """New attempts begin in these slots."""
        self.timing.forget(slots)
        self._holds[slots] = False

    def adopt_demos(self, spec: EefSpec, batch: Rows, chooser: DemoChooser) -> None:
        """Let subtasks whose partner has begun use its demo, also in what the eef does later."""
        for at, demo in self.pairs.followers(spec, batch):
            chooser.remember(spec, batch.take(at), demo)

    def write(self, spec: EefSpec, slots: Ints, waypoints: Singles, steps: Ints) -> None:
        """A new segment: waypoints (M, L, W), of which each row's first `steps` count, and one more behind the last."""
        script, longest = self._script[spec.index], waypoints.shape[1]
        if longest > script.shape[1]:
            grown = np.zeros((script.shape[0], max(longest, 2 * script.shape[1]), script.shape[2]), dtype=np.float32)
            grown[:, : script.shape[1]] = script
            script = self._script[spec.index] = grown
        before = np.maximum(self.timing.length[slots, spec.index] - 1, 0)
        self._last[spec.index, slots] = script[slots, before]
        script[slots, :longest] = waypoints
        self.timing.begin(spec.index, slots, steps)
        self._began[slots, spec.index] = True

    def emit(self, slots: Ints, live: Ints, world: World, demo: Ints) -> dict[str, Emitted]:
        """What is new for the eefs of the rows `live` of a batch.

        Args:
            slots: (K,) of the batch.
            live: rows that were planned without an error.
            world: where things are.
            demo: (K,) a source demo of each row's attempt; an eef that has not begun holds its first gripper action.
        """
        some = slots[live]
        waiting, playing = self.timing.waiting(some), self.timing.playing(some)
        begins_to_hold = waiting & ~self._holds[some]
        goes_on = playing & (self._holds[some] | self._began[some])
        self._holds[some] = waiting
        self._began[slots] = False
        emitted = {}
        for spec in self._specs:
            parts = [
                self._held(spec, slots, live[begins_to_hold[:, spec.index]], world, demo),
                self._played(spec, slots, live[goes_on[:, spec.index]]),
            ]
            parts = [part for part in parts if len(part[0])]
            if parts:
                emitted[spec.name] = parts[0] if len(parts) == 1 else _joined(parts)
        return emitted

    def _played(self, spec: EefSpec, slots: Ints, rows: Ints) -> Emitted:
        """The rest of the rows' scripts."""
        timing, script, at = self.timing, self._script[spec.index], slots[rows]
        left, length = timing.left[at, spec.index], timing.length[at, spec.index]
        last = timing.begun[at, spec.index] == spec.last + 1
        lengths = left + last  # behind the last segment there is a waypoint to hold
        if not len(rows):
            return rows, lengths, script[:0]
        steps = (length - left)[:, None] + np.arange(int(lengths.max()))
        return rows, lengths, script[at[:, None], np.minimum(steps, script.shape[1] - 1)]

    def _held(self, spec: EefSpec, slots: Ints, rows: Ints, world: World, demo: Ints) -> Emitted:
        """One waypoint, without noise: the last one played, or the pose where the eef is."""
        timing, at = self.timing, slots[rows]
        waypoint = np.zeros((len(rows), self._script[spec.index].shape[2]), dtype=np.float32)
        if not len(rows):
            return rows, rows, waypoint[:, None]
        played = timing.length[at, spec.index] - timing.left[at, spec.index]
        waypoint[:] = self._script[spec.index][at, np.maximum(played - 1, 0)]
        unplayed = played == 0
        waypoint[unplayed] = self._last[spec.index, at[unplayed]]
        new = timing.length[at, spec.index] == 0
        if new.any():
            waypoint[new] = self._where_it_is(spec, rows[new], world, demo[rows[new]])
        waypoint[:, self._grippers.stop :] = 0.0
        return rows, np.ones(len(rows), dtype=np.int64), waypoint[:, None]

    def _where_it_is(self, spec: EefSpec, rows: Ints, world: World, demo: Ints) -> Singles:
        waypoint = np.zeros((len(rows), self._last.shape[2]), dtype=np.float32)
        pose: Floats = world.eef_poses(spec.name, rows)
        waypoint[:, :_POSE] = pose.reshape(_POSE, -1).T
        waypoint[:, _GRIPPER - 1] = 1.0
        target = self._pool.timeline[f"target/{spec.name}"]
        waypoint[:, self._grippers] = target[_POSE:, self._pool.start_times[demo]].T
        return waypoint

    def move_on(self, slots: Ints) -> tuple[Ints, Ints, Mask]:
        """Play the slots (K,) to their next event.

        Returns:
            Steps (K,), 0 where nothing can ever go on; subtasks wanted then (K, E); whether all is done (K,).
        """
        steps = self.timing.advance(slots)
        return steps, self.timing.wanted(slots), self.timing.done(slots)


def _joined(parts: list[Emitted]) -> Emitted:
    longest = max(part[2].shape[1] for part in parts)
    padded = [np.pad(part[2], ((0, 0), (0, longest - part[2].shape[1]), (0, 0))) for part in parts]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), np.concatenate(padded)
