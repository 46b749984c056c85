"""Predicates on a `TaskView` that several tasks share. All are stateless: they look at one instant."""

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.tasks.base import ObjectSpec, TaskView, Vector

_MAX_GRIPPED_WIDTH = 0.07
"""Fingers further apart than this hold none of the tasks' boxes (largest: 0.05 m sides), metres."""

_MAX_GRIPPED_OFFSET = 0.03
"""Box centre to grasp point while gripped, metres: half a 0.04 m cube and a grasp off its centre."""


_RELEASED_WIDTH = 0.06
"""Fingers further apart than a 4 cm cube's diagonal, 0.0566 m, cannot both touch it, metres."""

_RELEASED_DISTANCE = 0.07
"""Grasp point this far from a box's centre, metres: the finger tips reach 0.01 m past it, so they are clear of it."""

_STILL_SPEED = 0.02
"""Linear speed of a body at rest, m/s; resting contact is below 0.005."""

NEAR = 0.10
"""Where a skill may begin, metres from what it acts on: higher than fingers reach around an object, and as near as a
hand comes that aims from above. The way to there is free."""

_IN_HAND = 0.12
"""Grasp point to the frame of what the hand carries, metres: the frame of a long object is not where it is held."""

HEIGHT_TOLERANCE = 0.005
"""Of a box that rests on something, against where it rests, metres (Isaac Lab's `cubes_stacked`)."""

_XY_TOLERANCE = 0.03
"""Horizontal offset of stacked cubes' centres, metres. Beyond 0.025 m (half the lower one's side) an upper one at rest
would tip, so this bound only has to exclude one that something else holds."""


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


def point(pose: Tensor, offset: Vector) -> Tensor:
    """Poses (N, 4, 4) of a frame that is shifted within a body's, metres."""
    x, y, z = offset
    moved = pose.clone()
    moved[:, :3, 3] += x * pose[:, :3, 0] + y * pose[:, :3, 1] + z * pose[:, :3, 2]
    return moved


def position_in(frame: Tensor, pose: Tensor) -> tuple[Tensor, ...]:
    """x, y and z, (N,) each: where a pose is in a frame; both (N, 4, 4)."""
    return poses.compose(poses.invert(frame), pose)[:, :3, 3].unbind(-1)


def held_at(view: TaskView, name: str, offset: Vector, width: float, eef_name: str = "panda") -> Tensor:
    """(N,) bool: the grasp point is at a place on a body, within 3 cm, and the fingers are no wider than `width`."""
    near = distance(point(view.object_poses[name], offset), view.eef_poses[eef_name]) < _MAX_GRIPPED_OFFSET
    return near & (view.gripper_widths[eef_name] < width)


def released(view: TaskView, name: str, eef_name: str) -> Tensor:
    """(N,) bool: the fingers are open wider than a 4 cm cube, or away from the object's centre."""
    away = distance(view.object_poses[name], view.eef_poses[eef_name]) > _RELEASED_DISTANCE
    return away | (view.gripper_widths[eef_name] > _RELEASED_WIDTH)


def still(view: TaskView, *names: str) -> Tensor:
    """(N,) bool: none of the objects moves."""
    speed = view.object_speeds[names[0]]
    for name in names[1:]:
        speed = torch.maximum(speed, view.object_speeds[name])
    return speed < _STILL_SPEED


def near(view: TaskView, name: str, offset: Vector = (0.0, 0.0, 0.0), eef_name: str = "panda") -> Tensor:
    """(N,) bool: the grasp point is near to a place on a body, so that a skill on it may begin."""
    return distance(point(view.object_poses[name], offset), view.eef_poses[eef_name]) < NEAR


def near_above(
    view: TaskView,
    name: str,
    base: str,
    height: float,
    offset: Vector = (0.0, 0.0, 0.0),
    eef_name: str = "panda",
) -> Tensor:
    """(N,) bool: an object that is in the hand is near to where it is `height` over a place on another one."""
    there = point(view.object_poses[base], offset)
    there[:, 2, 3] += height
    carried = distance(view.object_poses[name], view.eef_poses[eef_name]) < _IN_HAND
    return carried & (distance(view.object_poses[name], there) < NEAR)


def stacked(view: TaskView, top: ObjectSpec, base: ObjectSpec) -> Tensor:
    """(N,) bool: a cube is on another one, in height and sideways."""
    x, y, z = (view.object_poses[top.name][:, :3, 3] - view.object_poses[base.name][:, :3, 3]).unbind(-1)
    return (x * x + y * y < _XY_TOLERANCE**2) & ((z - top.half_size[2] - base.half_size[2]).abs() < HEIGHT_TOLERANCE)


def on_table(view: TaskView, box: ObjectSpec) -> Tensor:
    """(N,) bool: a box's lowest corner is on the table."""
    return clearance(view, box).abs() < HEIGHT_TOLERANCE
