"""Predicates on a `TaskView` that several tasks share. All are stateless: they look at one instant."""

import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import ObjectSpec, TaskView

_MAX_GRIPPED_WIDTH = 0.07
"""Fingers further apart than this hold none of the tasks' boxes (largest: 0.05 m sides), metres."""

_MAX_GRIPPED_OFFSET = 0.03
"""Box centre to grasp point while gripped, metres: half a 0.04 m cube and a grasp off its centre."""


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Distance (N,) between the origins of poses a and b (N, 4, 4)."""
    x, y, z = (a[:, :3, 3] - b[:, :3, 3]).unbind(-1)
    return torch.sqrt(x * x + y * y + z * z)


def clearance(view: TaskView, box: ObjectSpec) -> Tensor:
    """Height (N,) of a box's lowest corner above the table, metres."""
    pose = view.object_poses[box.name]
    x, y, z = box.half_size
    down_x, down_y, down_z, height = pose[:, 2].unbind(-1)
    return height - (down_x.abs() * x + down_y.abs() * y + down_z.abs() * z)


def gripped(view: TaskView, box: ObjectSpec, eef_name: str) -> Tensor:
    """(N,) bool: the box is between fingers that are not wide open. Together with a clearance this is a grasp."""
    near = distance(view.object_poses[box.name], view.eef_poses[eef_name]) < _MAX_GRIPPED_OFFSET
    return near & (view.gripper_widths[eef_name] < _MAX_GRIPPED_WIDTH)
