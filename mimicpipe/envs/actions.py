"""The action layout shared by the simulators of this package: poses to actions and back, for one arm with a gripper.

An env of several arms has their actions one behind the other.

Two controls, as in Isaac Lab's Franka tasks:

* ``ik_rel``, 7 numbers: position change / `POSITION_SCALE`, rotation change (axis-angle in the slot's frame, so that
  target = change * current) / `ROTATION_SCALE`, gripper; all clipped to [-1, 1].
* ``ik_abs``, 8 numbers: position in metres, wxyz quaternion, gripper.

The gripper opens for values >= 0 and closes below. Action noise has 6 numbers in both: position and rotation in units
of the two scales, so one noise level means the same in both. Rows (see mimicpipe.envs.rows) are the fast form; the
functions on poses wrap them.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from mimicpipe.envs import rows
from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError

POSITION_SCALE = 0.05
"""Metres per action unit."""
ROTATION_SCALE = 0.5
"""Radians per action unit."""
NOISE_DIM = 6
GRIPPER_DIM = 1
GRIPPER_OPEN = 1.0
GRIPPER_CLOSE = -1.0

_SHORTEST = 1e-6
"""Length of a quaternion that still has a direction; a recorded one has 1."""
_NAMES = {
    "ik_rel": ("delta_x", "delta_y", "delta_z", "delta_rx", "delta_ry", "delta_rz", "gripper"),
    "ik_abs": ("target_x", "target_y", "target_z", "target_qw", "target_qx", "target_qy", "target_qz", "gripper"),
}
CONTROLS = tuple(_NAMES)


def check_control(control: str) -> str:
    """Return `control`; raise ConfigError unless it is one of `CONTROLS`."""
    if control not in CONTROLS:
        raise ConfigError(f"env.control={control!r} is unknown; choose one of {', '.join(CONTROLS)}")
    return control


def action_dim(control: str) -> int:
    """Length of one arm's action."""
    return len(_NAMES[control])


def faults(control: str, actions: Tensor) -> dict[int, str]:
    """{row: what is wrong with it} of actions (K, A), of one arm or of several, that ask for no rotation."""
    if control == "ik_rel":
        return {}
    length = action_dim(control)
    turns = actions.unflatten(1, (-1, length))[..., 3:7]
    short = ((turns * turns).sum(dim=-1) < _SHORTEST**2).any(dim=-1)
    return dict.fromkeys(short.nonzero()[:, 0].tolist(), "asks for no rotation: its quaternion has no length")


def action_feature(control: str, prefixes: Sequence[str] = ("",)) -> Feature:
    """Dataset feature of the action; arms' names have their prefix."""
    names = tuple(prefix + name for prefix in prefixes for name in _NAMES[control])
    return Feature("float32", (len(names),), names)


@lru_cache(maxsize=16)
def _scales(device: torch.device, gain: float = 1.0) -> Tensor:
    """(6, 1): metres or radians per unit of the pose part, times `gain`."""
    return torch.tensor([gain * POSITION_SCALE] * 3 + [gain * ROTATION_SCALE] * 3, device=device)[:, None]


def target_rows(control: str, rot: Tensor, pos: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Target rotation (3, 3, N) and position (3, N) that action rows (A, N) ask for, from the current ones."""
    if control == "ik_abs":
        return rows.matrix_from_quat(actions[3:7]), actions[:3]
    motion = motion_rows(control, rot, pos, actions)
    return rows.compose(rows.matrix_from_axis_angle(motion[3:]), rot), pos + motion[:3]


def motion_rows(control: str, rot: Tensor, pos: Tensor, actions: Tensor, gain: float = 1.0) -> Tensor:
    """Pose change (6, N) from the current rotation and position to what action rows (A, N) ask for, times `gain`."""
    if control == "ik_rel":
        return actions[:6].clamp(-1.0, 1.0) * _scales(actions.device, gain)
    turn = rows.axis_angle_from_matrix(rows.compose_inverse(rows.matrix_from_quat(actions[3:7]), rot))
    return torch.cat((actions[:3] - pos, turn)) * gain


def action_rows(
    control: str,
    rot: Tensor,
    pos: Tensor,
    target_rot: Tensor,
    target_pos: Tensor,
    gripper: Tensor,
    noise: Tensor | None = None,
) -> Tensor:
    """Action rows (A, N) that lead from the current pose to the target.

    Args:
        control: one of `CONTROLS`.
        rot, target_rot: (3, 3, N).
        pos, target_pos: (3, N), metres.
        gripper: (1, N).
        noise: (6, N) in action units; None is none.
    """
    if control == "ik_rel":
        turn = rows.axis_angle_from_matrix(rows.compose_inverse(target_rot, rot))
        pose = torch.cat((target_pos - pos, turn)) / _scales(rot.device)
        if noise is not None:
            pose = pose + noise
        return torch.cat((pose, gripper)).clamp_(-1.0, 1.0)
    if noise is not None:
        shift = noise * _scales(rot.device)
        target_pos = target_pos + shift[:3]
        target_rot = rows.compose(rows.matrix_from_axis_angle(shift[3:].contiguous()), target_rot)
    return torch.cat((target_pos, rows.quat_from_matrix(target_rot), gripper.clamp(-1.0, 1.0)))


def poses_to_actions(
    control: str, current: Tensor, target: Tensor, gripper: Tensor, noise: Tensor | None = None
) -> Tensor:
    """Actions (N, A) that lead from current to target eef poses (N, 4, 4).

    Args:
        control: one of `CONTROLS`.
        current, target: (N, 4, 4) in the base frame.
        gripper: (N, 1), >= 0 opens.
        noise: (N, 6) in action units, added to the pose part before it is clipped.
    """
    noise_rows = None if noise is None else noise.t()
    actions = action_rows(control, *rows.from_poses(current), *rows.from_poses(target), gripper.t(), noise_rows)
    return actions.t().contiguous()


def actions_to_poses(control: str, current: Tensor, actions: Tensor) -> Tensor:
    """Target eef poses (N, 4, 4) that actions (N, A) ask for from the current poses: the inverse of the above."""
    return rows.to_poses(*target_rows(control, *rows.from_poses(current), actions.t().contiguous()))


def gripper_part(actions: Tensor) -> Tensor:
    """Gripper action (..., 1) of actions (..., A)."""
    return actions[..., -1:]
