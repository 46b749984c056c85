"""The arms of a scene: their names, their bases, and their places in the state, the action and the servos."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.actions import action_dim
from mimicpipe.envs.mujoco import kinematics
from mimicpipe.envs.mujoco.kinematics import ArmPose, Array
from mimicpipe.envs.mujoco.panda import ARM_JOINTS, FINGER_JOINTS, MAX_ARMS
from mimicpipe.envs.tasks.base import ArmBase, Task
from mimicpipe.errors import ConfigError

JOINTS = len(ARM_JOINTS) + len(FINGER_JOINTS)
"""Of one arm with its fingers; the scene's arms come first in qpos, one behind the other."""
SERVOS = len(ARM_JOINTS) + 1
"""Of one arm: its joints, then the fingers."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm."""

    name: str
    """Of its eef."""
    prefix: str
    """Of the names of its joints, servos, cameras and features; none where it is the only one."""
    first: int
    """Column of its first joint in the state."""
    action: slice
    """Its part of the action."""
    gripper: int
    """Column of its gripper's command in the action."""
    base: Array
    """(3, 4) pose in the slot's frame."""

    def joint_positions(self, state: Array) -> Array:
        """(7, N) radians, from states (N, S)."""
        return np.ascontiguousarray(state[:, self.first : self.first + len(ARM_JOINTS)].T)

    def pose(self, joints: Array) -> ArmPose:
        """Kinematics at joint positions (7, N)."""
        return kinematics.forward(joints, self.base)


def prefix_of(task: Task, eef_name: str) -> str:
    """What the names of an arm begin with."""
    return f"{eef_name}_" if len(task.eef_names) > 1 else ""


def arms_of(task: Task, control: str) -> tuple[Arm, ...]:
    """The arms of a task.

    Raises:
        ConfigError: more than there can be, or not one base for each.
    """
    names = task.eef_names
    if not 1 <= len(names) <= MAX_ARMS or len(set(names)) != len(names):
        raise ConfigError(
            f"task {task.name}: eef_names={list(names)}; env=mujoco takes 1 to {MAX_ARMS} arms, each with its own name"
        )
    if len(task.bases) != len(names):
        raise ConfigError(
            f"task {task.name}: {len(names)} eef_names but {len(task.bases)} bases; every arm needs its ArmBase"
        )
    width = action_dim(control)
    return tuple(
        Arm(
            name,
            prefix_of(task, name),
            1 + JOINTS * index,
            slice(width * index, width * (index + 1)),
            width * (index + 1) - 1,
            _pose(base),
        )
        for index, (name, base) in enumerate(zip(names, task.bases, strict=True))
    )


def side_by_side[T: np.floating](parts: npt.NDArray[T]) -> npt.NDArray[T]:
    """(K, A W) rows from the arms' own (A, K, W)."""
    count, rows, width = parts.shape
    if count == 1:
        return parts[0]
    # A copy: (K, A, W).
    return parts.swapaxes(0, 1).reshape(rows, count * width)


def _pose(base: ArmBase) -> Array:
    cos, sin = np.cos(base.yaw), np.sin(base.yaw)
    pose = np.eye(3, 4)
    pose[0, :2], pose[1, :2] = (cos, -sin), (sin, cos)
    pose[:, 3] = base.pos
    return pose
