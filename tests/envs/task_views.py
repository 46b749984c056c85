"""Hand-made views of one slot, and what every task's tests ask."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.tasks.base import TaskView


def at(x: float, y: float, z: float, yaw: float = 0.0, tilt: float = 0.0) -> Tensor:
    """(1, 4, 4) pose, tilted about x, then turned by the yaw."""
    turn = poses.matrix_from_axis_angle(torch.tensor([[0.0, 0.0, yaw]]))
    lean = poses.matrix_from_axis_angle(torch.tensor([[tilt, 0.0, 0.0]]))
    return poses.make_pose(torch.tensor([[x, y, z]]), poses.compose_rotations(turn, lean))


def view(
    objects: Mapping[str, Tensor],
    eef: Tensor | Mapping[str, Tensor],
    width: float | Mapping[str, float],
    moving: Mapping[str, float] | None = None,
    joints: Mapping[str, float] | None = None,
) -> TaskView:
    """A view of one slot, in which all is still but for speeds `moving`, m/s; of several arms {eef: pose or width}."""
    speeds = {name: torch.tensor([(moving or {}).get(name, 0.0)]) for name in objects}
    positions = {name: torch.tensor([value]) for name, value in (joints or {}).items()}
    eefs = dict(eef) if isinstance(eef, Mapping) else {"panda": eef}
    widths = width if isinstance(width, Mapping) else dict.fromkeys(eefs, width)
    return TaskView(
        dict(objects), speeds, eefs, {name: torch.tensor([value]) for name, value in widths.items()}, positions
    )
