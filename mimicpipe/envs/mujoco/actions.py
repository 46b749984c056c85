"""The action layout of `mimicpipe.envs.actions` on numpy rows in float64, for the inner loop of the MuJoCo env.

One arm's part of the action at a time.

Numbers go in and out as float32: what a step does is a function of the float32 action, so recorded actions replay bit
for bit.
"""

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.actions import NOISE_DIM, POSITION_SCALE, ROTATION_SCALE, action_dim
from mimicpipe.envs.mujoco import kernels
from mimicpipe.envs.mujoco.kernels import Ints
from mimicpipe.envs.mujoco.kinematics import (
    ArmPose,
    Array,
    compose_rotations,
    quat_from_rotation,
    rotation_from_quat,
    rotation_from_vector,
)

Actions = npt.NDArray[np.float32]
Poses = npt.NDArray[np.floating]

_NO_NOISE = np.empty((0, 0), dtype=np.float32)
_SCALE = np.repeat([POSITION_SCALE, ROTATION_SCALE], NOISE_DIM // 2)


def asked_motion(control: str, actions: Actions, slots: Ints, current: ArmPose) -> Array:
    """Pose change (6, K) that actions (K, A) of slots (K,) ask for: metres, rotation vector in the slot's frame."""
    if control == "ik_rel":
        motion = np.empty((NOISE_DIM, len(actions)))
        kernels.scaled_motions(actions, _SCALE, motion)
        return motion
    # In float64: a rotation close to the current one has few digits left in float32.
    target = np.empty((len(actions), 3, 4))
    target[..., 3] = actions[:, :3]
    target[..., :3] = rotation_from_quat(actions[:, 3:7].T.astype(np.float64)).transpose(2, 0, 1)
    return _relative_motion(target, slots, current)


def asked_pose(control: str, actions: Actions, current: ArmPose) -> tuple[Array, Array]:
    """Target position (3, N) and rotation (3, 3, N) that actions (N, A) of the same slots ask for."""
    if control == "ik_rel":
        motion = asked_motion(control, actions, np.arange(len(actions)), current)
        return current.pos + motion[:3], compose_rotations(rotation_from_vector(motion[3:]), current.rot)
    values = np.ascontiguousarray(actions.T, dtype=np.float64)
    return values[:3], rotation_from_quat(values[3:7])


def encode(
    control: str, target: Poses, gripper: Actions, noise: Actions | None, slots: Ints, current: ArmPose
) -> Actions:
    """Actions (K, A) float32 that ask for target poses.

    Args:
        control: "ik_rel" or "ik_abs".
        target: (K, 4, 4).
        gripper: (K, 1).
        noise: (K, 6) added in units of a relative action, or None.
        slots: (K,) which of the current poses relative actions start from.
        current: of all slots.
    """
    out = np.empty((len(target), action_dim(control)), dtype=np.float32)
    if control == "ik_rel":
        # A target further away than one action is approached on the straight way, position and rotation together.
        motion = _relative_motion(target, slots, current)
        kernels.as_actions(motion, _SCALE, _NO_NOISE if noise is None else noise, gripper, out)
        return out
    pos, rot = target[:, :3, 3].T.astype(np.float64), target[:, :3, :3].transpose(1, 2, 0).astype(np.float64)
    if noise is not None:
        shift = noise.T * _SCALE[:, None]
        pos = pos + shift[:3]
        rot = compose_rotations(rotation_from_vector(shift[3:]), rot)
    out[:, :3] = pos.T
    out[:, 3:7] = quat_from_rotation(rot).T
    out[:, 7:] = gripper
    return out


def _relative_motion(target: Poses, slots: Ints, current: ArmPose) -> Array:
    """(6, K) from slots' poses to target poses (K, 3 or 4, 4)."""
    motion = np.empty((NOISE_DIM, len(target)))
    kernels.relative_motions(target, slots, current.pos, current.rot, motion)
    return motion
