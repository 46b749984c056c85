"""Where each body's frame is: in the state, in the fixtures' poses, or on a fixture's joint.

A slot's fixtures stand in a row of their own, (3F positions, then 4F wxyz quaternions), as MuJoCo takes the inputs
`mocap_pos` and `mocap_quat`. They are inputs of a step, no state of it, but part of `get_state`.
"""

from collections.abc import Mapping

import mujoco
import numpy as np
import numpy.typing as npt
from torch import Tensor

from mimicpipe.envs.mujoco import kernels, kinematics
from mimicpipe.envs.mujoco.bodies import joint_name
from mimicpipe.envs.mujoco.kinematics import Array
from mimicpipe.envs.tasks.base import Task


class Frames:
    """The layout of one task's bodies.

    Attributes:
        names: objects, fixtures, parts.
        joint_columns: (P,) of the parts' joints in the state.
        speed_columns: (M, 3) of the objects' linear velocity in the state.
        object_columns: (M, 7) of the objects' poses in the state.
        owner: (P,) index of the fixture of each part.
        hinge: (P,) bool, whether a part turns; else it slides.
        geometry: (P, 3, 3) origin, axis and anchor of each part, as in `PartSpec`.
    """

    def __init__(self, model: mujoco.MjModel, task: Task) -> None:
        self.names = task.body_names
        self._objects = [item.name for item in task.objects]
        self._fixtures = [item.name for item in task.fixtures]
        joints = [model.joint(joint_name(name)) for name in self._objects]
        self.object_columns = np.array([[1 + j.qposadr[0] + i for i in range(7)] for j in joints]).reshape(-1, 7)
        self.speed_columns = np.array([[1 + model.nq + j.dofadr[0] + i for i in range(3)] for j in joints])
        self.speed_columns = self.speed_columns.reshape(-1, 3)
        parts = task.parts
        self.joint_columns = np.array([1 + model.joint(joint_name(p.name)).qposadr[0] for p in parts], dtype=np.int64)
        self.owner = np.array([i for i, item in enumerate(task.fixtures) for _ in item.parts], dtype=np.int64)
        self.hinge = np.array([part.joint == "hinge" for part in parts])
        self.geometry = np.array([[part.pos, part.axis, part.anchor] for part in parts]).reshape(-1, 3, 3)
        self._columns = self.object_columns
        if self._fixtures:
            self._columns = np.arange(7 * len(self.names)).reshape(-1, 7)

    @property
    def fixture_width(self) -> int:
        """Numbers in a row of fixtures."""
        return 7 * len(self._fixtures)

    def rows(self, state: Array, fixtures: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """An array with one row per slot, and the columns (B, 7) of every body's pose in it.

        Without fixtures that is the state itself.
        """
        if not self._fixtures:
            return state, self._columns
        out = np.empty((len(state), 7 * len(self.names)))
        kernels.place_bodies(
            state, fixtures, self.object_columns, self.owner, self.hinge, self.geometry, self.joint_columns, out
        )
        return out, self._columns

    def set_poses(self, poses: Mapping[str, Tensor], state: Array, fixtures: Array) -> None:
        """Write the poses {object or fixture: (K, 4, 4)} into rows (K, S) of state and (K, 7F) of fixtures."""
        for columns, name in zip(self.object_columns, self._objects, strict=True):
            state[:, columns[:3]], state[:, columns[3:]] = _pos_quat(poses[name])
        start = 3 * len(self._fixtures)
        for index, name in enumerate(self._fixtures):
            pos, quat = _pos_quat(poses[name])
            fixtures[:, 3 * index : 3 * index + 3] = pos
            fixtures[:, start + 4 * index : start + 4 * index + 4] = quat


def _pos_quat(pose: Tensor) -> tuple[Array, Array]:
    """Position (K, 3) and wxyz quaternion (K, 4) of poses (K, 4, 4)."""
    array = pose.numpy()
    rot = np.ascontiguousarray(array[:, :3, :3].transpose(1, 2, 0))
    return array[:, :3, 3], kinematics.quat_from_rotation(rot).T
