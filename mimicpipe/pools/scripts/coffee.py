"""The expert for coffee."""

import math

from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.coffee import HINGE, HOLDER, HOLDER_DEPTH, POD_HALF_HEIGHT
from mimicpipe.pools.experts import PASSING, Goal, Move, above, retreat, roughly, stay, take_at
from mimicpipe.pools.goals import Grip, at, grip, hand_at, lift_by, set_down

_FORWARD = math.pi / 2
"""The hand's x axis along the machine's y axis: the fingers close sideways, so the hand is clear of the open lid."""
_TIP = 0.0095
"""Grasp point to the end of the fingers, metres."""


def expert(task: Task) -> tuple[Move, ...]:
    """Put the pod into the holder; then push the lid over from behind with the closed fingers, and press it down."""
    del task
    rim = HOLDER[2] + HOLDER_DEPTH
    over = set_down("coffee_pod", at("coffee_machine", (*HOLDER[:2], rim + POD_HALF_HEIGHT + 0.015)), _FORWARD)
    into = set_down("coffee_pod", at("coffee_machine", (*HOLDER[:2], rim + 0.003)), _FORWARD)
    return (
        Move(lift_by(0.08), GRIPPER_OPEN, speed=0.20, tolerance=PASSING),  # the machine stands beside the hand
        *take_at(grip(Grip("coffee_pod", (0.0, 0.0, 0.006)))),
        Move(lift_by(0.24), GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING),
        Move(above(roughly(over, 0.5)), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING, bowed=True),
        Move(over, GRIPPER_CLOSE, speed=0.12, pause=(2, 4)),
        Move(into, GRIPPER_CLOSE, speed=0.08, pause=(1, 4)),
        Move(stay, GRIPPER_OPEN, pause=(3, 6)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=PASSING),
        Move(_beside_lid(-0.13, 0.14), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING),
        Move(_beside_lid(-0.11, 0.045), GRIPPER_CLOSE, speed=0.15, tolerance=0.008),
        Move(_beside_lid(0.045, 0.045), GRIPPER_CLOSE, speed=0.15, tolerance=0.012),
        Move(_beside_lid(0.055, 0.0), GRIPPER_CLOSE, speed=0.10, pause=(2, 5), tolerance=0.012),
        Move(retreat, GRIPPER_CLOSE, speed=0.20, tolerance=PASSING),
    )


def _beside_lid(forward: float, height: float) -> Goal:
    """The tips of the fingers in front of and over the lid's hinge, metres."""
    x, y, z = HINGE
    return hand_at(at("coffee_machine", (x, y + forward, z + height + _TIP)), _FORWARD)
