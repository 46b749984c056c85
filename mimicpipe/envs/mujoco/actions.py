"""The action layout of `mimicpipe.envs.actions` on numpy rows in float64, for the inner loop of the MuJoCo env.

Numbers go in and out as float32: what a step does is a function of the float32 action, so recorded actions replay bit
for bit.
"""

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.actions import NOISE_DIM, POSITION_SCALE, ROTATION_SCALE, action_dim
from mimicpipe.envs.mujoco import kernels
from mimicpipe.envs.mujoco.kinematics import (
    ArmPose,
    Array,
    compose_rotations,
    quat_from_rotation,
    rotation_from_quat,
    rotation_from_vector,
)

Actions = npt.NDArray[np.float32]

_NO_NOISE = np.empty((NOISE_DIM, 0))
_SCALE = np.repeat([[POSITION_SCALE], [ROTATION_SCALE]], NOISE_DIM // 2, axis=0)


def asked_motion(control: str, actions: Actions, current: ArmPose) -> Array:
    """Pose change (6, N) that actions (N, A) ask for: metres, rotation vector in the base's frame, radians."""
    values = np.ascontiguousarray(actions.T, dtype=np.float64)
    if control == "ik_rel":
        return _clip(values[:NOISE_DIM]) * _SCALE
    return _relative_motion(values[:3], rotation_from_quat(values[3:7]), current)


def asked_pose(control: str, actions: Actions, current: ArmPose) -> tuple[Array, Array]:
    """Target position (3, N) and rotation (3, 3, N) that actions (N, A) ask for."""
    if control == "ik_rel":
        motion = asked_motion(control, actions, current)
        return current.pos + motion[:3], compose_rotations(rotation_from_vector(motion[3:]), current.rot)
    values = np.ascontiguousarray(actions.T, dtype=np.float64)
    return values[:3], rotation_from_quat(values[3:7])


def encode(control: str, pos: Array, rot: Array, gripper: Actions, noise: Array | None, current: ArmPose) -> Actions:
    """Actions (N, A) float32 that ask for target poses.

    Args:
        control: "ik_rel" or "ik_abs".
        pos, rot: (3, N), (3, 3, N) targets.
        gripper: (N, 1).
        noise: (6, N) added in units of a relative action, or None.
        current: poses that relative actions start from.
    """
    out = np.empty((pos.shape[1], action_dim(control)), dtype=np.float32)
    out[:, -1:] = gripper
    if control == "ik_rel":
        # A target further away than one action is approached on the straight way, position and rotation together.
        kernels.as_actions(
            _relative_motion(pos, rot, current), _SCALE[:, 0], _NO_NOISE if noise is None else noise, out
        )
        return out
    if noise is not None:
        shift = noise * _SCALE
        pos = pos + shift[:3]
        rot = compose_rotations(rotation_from_vector(shift[3:]), rot)
    out[:, :3] = pos.T
    out[:, 3:7] = quat_from_rotation(rot).T
    return out


def _relative_motion(pos: Array, rot: Array, current: ArmPose) -> Array:
    """(6, N) from the current poses to targets."""
    motion = np.empty((NOISE_DIM, pos.shape[1]))
    kernels.relative_motions(pos, rot, current.pos, current.rot, motion)
    return motion


def _clip(values: Array) -> Array:
    return np.minimum(np.maximum(values, -1.0), 1.0)
