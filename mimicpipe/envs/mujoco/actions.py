"""What the numbers of an action mean: target poses of the grasp frame, relative or absolute, and the gripper.

`ik_rel` (7): position change, rotation change as axis-angle, both in the base's frame (target_rot = delta_rot current_rot),
gripper: Isaac Lab's `DifferentialInverseKinematicsAction` with relative poses and `BinaryJointPositionAction`. 1.0 is
0.05 m or 0.5 rad per step, clipped, the scale of robosuite's OSC_POSE that MimicGen's action noise of 0.05 refers to.
`ik_abs` (8): position, wxyz quaternion, gripper; its noise has the units of `ik_rel`.
"""

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.mujoco.kinematics import (
    Array,
    ArmPose,
    compose_rotations,
    quat_from_rotation,
    rotation_from_quat,
    rotation_from_vector,
    vector_from_rotation,
)

POSITION_SCALE = 0.05
"""Metres per unit of a position action."""
ROTATION_SCALE = 0.5
"""Radians per unit of a rotation action."""
POSE_NOISE_DIM = 6

Actions = npt.NDArray[np.float32]
_SCALE = np.array([[POSITION_SCALE]] * 3 + [[ROTATION_SCALE]] * 3)


class ControlMode(enum.StrEnum):
    """How an action names the target pose."""

    IK_REL = "ik_rel"
    IK_ABS = "ik_abs"

    @property
    def names(self) -> tuple[str, ...]:
        """One name per number of the action."""
        if self is ControlMode.IK_REL:
            return ("delta_x", "delta_y", "delta_z", "delta_rx", "delta_ry", "delta_rz", "gripper")
        return ("target_x", "target_y", "target_z", "target_qw", "target_qx", "target_qy", "target_qz", "gripper")


@dataclass(slots=True)
class Target:
    """Target of N arms, base frame."""

    pos: Array
    """(3, N) metres."""
    rot: Array
    """(3, 3, N)"""
    error: Array
    """(6, N) from the current pose: metres, and rotation vector in radians."""


def decode(mode: ControlMode, actions: Actions, current: ArmPose) -> Target:
    """Targets that actions (N, A) ask for from the current poses; relative actions are clipped to [-1, 1]."""
    values = np.ascontiguousarray(actions.T, dtype=np.float64)
    if mode is ControlMode.IK_REL:
        error = np.clip(values[:6], -1.0, 1.0) * _SCALE
        return Target(current.pos + error[:3], compose_rotations(rotation_from_vector(error[3:]), current.rot), error)
    rot = rotation_from_quat(values[3:7])
    return Target(values[:3], rot, relative_error(values[:3], rot, current))


def encode(
    mode: ControlMode, pos: Array, rot: Array, gripper: Actions, noise: Array | None, current: ArmPose
) -> Actions:
    """Actions (N, A) float32 that ask for target poses.

    Args:
        mode: which numbers to write.
        pos, rot: (3, N), (3, 3, N) targets.
        gripper: (N, 1).
        noise: (6, N) added in units of a relative action, or None.
        current: current poses, which relative actions start from.
    """
    out = np.empty((pos.shape[1], len(mode.names)), dtype=np.float32)
    out[:, -1:] = gripper
    if mode is ControlMode.IK_REL:
        values = relative_error(pos, rot, current) / _SCALE
        if noise is not None:
            values += noise
        out[:, :6] = np.clip(values, -1.0, 1.0).T
        return out
    if noise is not None:
        shift = noise * _SCALE
        pos = pos + shift[:3]
        rot = compose_rotations(rotation_from_vector(shift[3:]), rot)
    out[:, :3] = pos.T
    out[:, 3:7] = quat_from_rotation(rot).T
    return out


def relative_error(pos: Array, rot: Array, current: ArmPose) -> Array:
    """(6, N) position and rotation vector from the current poses to targets, in the base's frame."""
    error = np.empty((6, pos.shape[1]))
    error[:3] = pos - current.pos
    error[3:] = vector_from_rotation(compose_rotations(rot, current.rot.transpose(1, 0, 2)))
    return error
