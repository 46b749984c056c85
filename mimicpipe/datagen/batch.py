"""The rows of one planning call, and what they look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe import rng
from mimicpipe.datagen import rigid
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.pose_noise import EXACT, PoseNoise
from mimicpipe.datagen.rigid import Floats
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.subtask import DataGenConfig
from mimicpipe.pipeline.transfer import Download

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class EefSpec:
    """The subtasks of one eef as arrays over S subtasks."""

    name: str
    index: int
    """Index in the env's order."""
    last: int
    """Index of the last subtask."""
    between: Ints
    """Interpolation steps."""
    lead: Ints
    """Steps before the segment's first target."""
    measured: npt.NDArray[np.bool_]
    """Whether the segment begins at the source eef's measured pose."""
    objects: Ints
    """Index into `pool.object_names`, -1 for none."""
    noise: npt.NDArray[np.float32]
    """Standard deviation of the action noise in the segment."""
    settle: Ints
    """Steps to wait before each change of the gripper."""
    quiet: Ints
    """Steps at the start that have no noise: all before the segment's first pose, or none."""
    cell: Ints
    """Which of the attempt's remembered demos the subtask uses."""
    draw: Ints
    """Position in stream SELECTION."""


def eef_spec(pool: DataGenInfoPool, config: DataGenConfig, index: int) -> EefSpec:
    """The subtasks of the pool's eef `index`."""
    eef = pool.eef_names[index]
    subtasks = pool.subtask_configs[eef]
    numbers = np.arange(len(subtasks), dtype=np.int64)
    before = sum(len(pool.subtask_configs[name]) for name in pool.eef_names[:index])
    measured = np.asarray([config.starts_at_measured_pose(number) for number in range(len(subtasks))])
    between = np.asarray([c.num_interpolation_steps for c in subtasks], dtype=np.int64)
    fixed = np.asarray([c.num_fixed_steps for c in subtasks], dtype=np.int64)
    names = pool.object_names
    objects = [-1 if c.object_ref is None else names.index(c.object_ref) for c in subtasks]
    is_quiet = np.asarray([not c.apply_noise_during_interpolation for c in subtasks])
    own_cell = numbers if config.generation_select_src_per_subtask else np.zeros_like(numbers)
    return EefSpec(
        name=eef,
        index=index,
        last=len(subtasks) - 1,
        between=between,
        lead=between + fixed + measured,
        measured=measured,
        objects=np.asarray(objects, dtype=np.int64),
        noise=np.asarray([c.action_noise for c in subtasks], dtype=np.float32),
        settle=np.asarray([c.num_settle_steps for c in subtasks], dtype=np.int64),
        quiet=np.where(is_quiet, between + fixed, 0),
        cell=own_cell + (before if config.generation_select_src_per_arm else 0),
        draw=before + numbers,
    )


@dataclass(slots=True)
class Rows:
    """The M rows of a batch that get a new segment of one eef; every array is (M,)."""

    rows: Ints
    """Index into the batch."""
    slots: Ints
    seeds: rng.Seeds
    visible: Ints
    """Demos the attempt may choose from."""
    subtask: Ints

    def take(self, which: Ints) -> "Rows":
        """Some of the rows, by index."""
        arrays = (self.rows, self.slots, self.seeds, self.visible, self.subtask)
        return Rows(*(array[which] for array in arrays))


class Attempts(NamedTuple):
    """The attempts of a batch's rows; every array is (K,)."""

    index: Ints
    seed: rng.Seeds
    run_seed: rng.Seeds


class World:
    """What the batch's rows look at: where things are in their slots, each pose read from the env once, if at all.

    With `pose_noise` objects are seen with errors.
    """

    def __init__(
        self,
        env: MimicSim,
        env_ids: Tensor,
        object_names: Sequence[str],
        attempts: Attempts,
        download: Download = Tensor.cpu,
        pose_noise: PoseNoise = EXACT,
    ) -> None:
        self._env = env
        self._ids = env_ids
        self._object_names = object_names
        self._attempts = attempts
        self._download = download
        self._pose_noise = pose_noise
        self._objects: Floats | None = None
        self._eefs: dict[str, Floats] = {}

    def attempts(self, rows: Ints) -> Ints:
        """(M,) index of each row's attempt."""
        return self._attempts.index[rows]

    def run_seeds(self, rows: Ints) -> rng.Seeds:
        """(M,) seed of each row's run."""
        return self._attempts.run_seed[rows]

    def object_poses(self, objects: Ints, rows: Ints) -> Floats:
        """(3, 4, M) pose of one object in each row; both arguments (M,)."""
        count = len(self._ids)
        if self._objects is None:
            current = self._env.get_object_poses(self._ids)
            chosen = [current[name] for name in self._object_names]
            self._objects = rigid.from_tensor(self._download(torch.cat(chosen) if len(chosen) > 1 else chosen[0]))
            if self._pose_noise:
                for number in range(len(chosen)):
                    own = self._objects[:, :, number * count : (number + 1) * count]
                    own[:] = self._pose_noise.seen(own, self._attempts.seed, number)
        return self._objects.take(objects * count + rows, axis=2)

    def eef_poses(self, eef: str, rows: Ints) -> Floats:
        """(3, 4, M) pose of an eef in each row."""
        if eef not in self._eefs:
            self._eefs[eef] = rigid.from_tensor(self._download(self._env.get_robot_eef_pose(eef, self._ids)))
        return self._eefs[eef].take(rows, axis=2)
