"""Goals for bodies of any shape: grips on them, and where a hand must be so that what it holds is somewhere."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.pools.experts import Goal, Habits, Scene, Yaw, pointing_down

Vector = tuple[float, float, float]
Where = Callable[[Scene, Habits], Tensor]
"""Poses (K, 4, 4) that an object should have."""


_PER_METRE = 40.0
_REST_TURN = 0.25 * math.pi
"""The wrist of a Panda that points down turns from -121 to 211 degrees, as seen from above: this is the middle."""
_MOST_TURN = 3.05
"""Up to here it turns the short way from its rest, radians."""


@dataclass(frozen=True)
class Grip:
    """A place on a body where fingers close from above."""

    body: str
    offset: Vector = (0.0, 0.0, 0.0)
    """Grasp point in the body's frame, metres."""
    along: float = 0.0
    """Direction of the hand's x axis, which the fingers close across, from the body's x axis, radians."""
    either: bool = True
    """Whether the hand may as well be the other way round; else only where the wrist could not turn so far."""


def offset_pose(pose: Tensor, offset: Vector, yaw: float = 0.0) -> Tensor:
    """Pose (K, 4, 4) of a frame that is fixed to a body, turned by `yaw` about the body's z axis."""
    local = torch.eye(4, dtype=pose.dtype, device=pose.device)
    local[:3, 3] = torch.tensor(offset)
    local[0, 0] = local[1, 1] = math.cos(yaw)
    local[1, 0], local[0, 1] = math.sin(yaw), -math.sin(yaw)
    return poses.compose(pose, local.expand_as(pose))


def heading(pose: Tensor) -> Yaw:
    """Cosine and sine (K,) of the direction of a pose's x axis, seen from above."""
    cos, sin = pose[:, 0, 0], pose[:, 1, 0]
    length = torch.sqrt(cos * cos + sin * sin)
    return cos / length, sin / length


def grip(place: Grip) -> Goal:
    """Fingers around a place on a body, from above; of the two ways round the one that turns the wrist less."""

    def goal(scene: Scene, habits: Habits) -> Tensor:
        frame = offset_pose(scene.objects[place.body], place.offset, place.along)
        cos, sin = heading(frame)
        wrong = cos < 0.0 if place.either else _wrist_angle(cos, sin) > _MOST_TURN
        flip = torch.where(wrong, -1.0, 1.0)
        target = pointing_down((flip * cos, flip * sin), frame[:, :3, 3])
        shift = poses.rotate(target[:, :3, :3], habits.grasp_shift)
        return poses.make_pose(frame[:, :3, 3] - shift, target[:, :3, :3])

    return goal


def bring(body: str, where: Where) -> Goal:
    """Where the hand must be so that the object in it is at a pose, however it lies in the hand."""

    def goal(scene: Scene, habits: Habits) -> Tensor:
        return _hand_for(scene, body, where(scene, habits))

    return goal


def set_down(body: str, where: Where, along: float = 0.0) -> Goal:
    """Where the hand must be, pointing down, so that the origin of the object in it is at a frame's.

    The hand's x axis has the direction `along` in the frame, radians.
    """

    def goal(scene: Scene, habits: Habits) -> Tensor:
        frame = where(scene, habits)
        target = pointing_down(heading(offset_pose(frame, (0.0, 0.0, 0.0), along)), frame[:, :3, 3])
        in_hand = poses.compose(poses.invert(scene.eef), scene.objects[body])[:, :3, 3]
        return poses.make_pose(frame[:, :3, 3] - poses.rotate(target[:, :3, :3], in_hand), target[:, :3, :3])

    return goal


def hand_at(where: Where, along: float = 0.0) -> Goal:
    """The hand at a frame's origin, pointing down, its x axis in the direction `along` of the frame, radians."""

    def goal(scene: Scene, habits: Habits) -> Tensor:
        frame = where(scene, habits)
        return pointing_down(heading(offset_pose(frame, (0.0, 0.0, 0.0), along)), frame[:, :3, 3])

    return goal


def bring_turned(body: str, where: Where, folds: int, reach: float) -> Goal:
    """As `bring`, with an object that may be turned by parts of a full turn about the vertical.

    Of the ways to turn it, that with the wrist nearest to the middle of its range is taken; a hand further from the
    robot's base than `reach`, metres, counts as a radian for each 2.5 cm.
    """

    def goal(scene: Scene, habits: Habits) -> Tensor:
        pose = where(scene, habits)
        best, least = torch.empty_like(pose), torch.full_like(pose[:, 0, 0], math.inf)
        for index in range(folds):
            hand = _hand_for(scene, body, offset_pose(pose, (0.0, 0.0, 0.0), 2.0 * math.pi * index / folds))
            cos, sin = heading(hand)
            x, y = hand[:, 0, 3], hand[:, 1, 3]
            turn = (_wrist_angle(cos, sin) - _REST_TURN).abs()
            cost = turn + _PER_METRE * (torch.sqrt(x * x + y * y) - reach).clamp(min=0.0)
            best = torch.where((cost < least)[:, None, None], hand, best)
            least = torch.minimum(least, cost)
        return best

    return goal


def _hand_for(scene: Scene, body: str, target: Tensor) -> Tensor:
    in_hand = poses.compose(poses.invert(scene.eef), scene.objects[body])
    return poses.compose(target, poses.invert(in_hand))


def at(body: str, offset: Vector = (0.0, 0.0, 0.0), yaw: float = 0.0) -> Where:
    """A frame fixed to a body."""
    return lambda scene, _habits: offset_pose(scene.objects[body], offset, yaw)


def fixed(position: Vector, yaw: float = 0.0) -> Where:
    """An upright pose in the slot's frame, missed by half of the demo's aim error."""

    def where(scene: Scene, habits: Habits) -> Tensor:
        origin = torch.eye(4, dtype=scene.eef.dtype, device=scene.eef.device).expand_as(scene.eef)
        pose = offset_pose(origin, position, yaw).clone()
        pose[:, :3, 3] += 0.5 * habits.aim_error
        return pose

    return where


def raised(goal: Goal, height: float) -> Goal:
    """Over another goal, by metres."""

    def over(scene: Scene, habits: Habits) -> Tensor:
        pose = goal(scene, habits).clone()
        pose[:, 2, 3] += height
        return pose

    return over


def commanded_by(body: str, offset: Vector) -> Goal:
    """The last target, shifted by metres along the axes of a body."""

    def goal(scene: Scene, _habits: Habits) -> Tensor:
        shift = torch.tensor(offset, device=scene.commanded.device).expand(scene.commanded.shape[0], 3)
        pose = scene.commanded.clone()
        pose[:, :3, 3] += poses.rotate(scene.objects[body][:, :3, :3], shift)
        return pose

    return goal


def lift_by(height: float) -> Goal:
    """Straight up from the last target, by metres and a part of the demo's lift height."""

    def goal(scene: Scene, habits: Habits) -> Tensor:
        pose = scene.commanded.clone()
        pose[:, 2, 3] += height + 0.5 * (habits.lift_height - 0.15)
        return pose

    return goal


def _wrist_angle(cos: Tensor, sin: Tensor) -> Tensor:
    """Yaw (K,) from 3/4 of a half turn before zero to 5/4 after it, the range of the wrist."""
    turned = math.sqrt(0.5) * torch.stack((cos + sin, sin - cos))
    return torch.atan2(turned[1].contiguous(), turned[0].contiguous()) + _REST_TURN
