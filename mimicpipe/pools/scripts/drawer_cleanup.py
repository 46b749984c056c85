"""The expert for drawer_cleanup."""

import math

from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.drawer_cleanup import DRAWER_FLOOR, DRAWER_HANDLE, DRAWER_ORIGIN, HAMMER_HANDLE
from mimicpipe.pools.experts import PASSING, Goal, Move, above, retreat, roughly, stay, take_at
from mimicpipe.pools.goals import Grip, at, commanded_by, grip, hand_at, lift_by, set_down

_PULL = 0.145
"""Metres."""
_ASIDE = math.pi / 2
"""The hand's x axis along the drawer's y axis: then hand and fingers pass between its side walls."""
_HAND_HEIGHT = 0.05
"""Of the hammer over the drawer's floor when it is let go, metres: the hand is just over the walls then."""


def expert(task: Task) -> tuple[Move, ...]:
    """Pull the drawer open by its bar, put the hammer in, and push the bar with closed fingers."""
    del task
    x, y, z = DRAWER_FLOOR
    over = set_down("hammer", at("drawer", (x, y - 0.01, z + 0.10)), _ASIDE)
    into = set_down("hammer", at("drawer", (x, y - 0.01, z + _HAND_HEIGHT)), _ASIDE)
    return (
        *take_at(grip(Grip("drawer", DRAWER_HANDLE))),
        Move(commanded_by("cabinet", (0.0, -_PULL, 0.0)), GRIPPER_CLOSE, speed=0.12, pause=(1, 3)),
        Move(stay, GRIPPER_OPEN, pause=(3, 5)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=PASSING),
        *take_at(grip(Grip("hammer", HAMMER_HANDLE))),
        Move(lift_by(0.18), GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING),
        Move(above(roughly(over, 0.5)), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING, bowed=True),
        Move(over, GRIPPER_CLOSE, speed=0.12, pause=(1, 3), tolerance=0.008),
        Move(into, GRIPPER_CLOSE, speed=0.10, pause=(1, 4), tolerance=0.008),
        Move(stay, GRIPPER_OPEN, pause=(3, 6)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=PASSING),
        Move(_before_cabinet(-_PULL - 0.06, 0.08), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING),
        Move(_before_cabinet(-_PULL - 0.06, 0.0), GRIPPER_CLOSE, speed=0.15, tolerance=0.008),
        Move(_before_cabinet(-0.008, 0.0), GRIPPER_CLOSE, speed=0.15, pause=(3, 6), tolerance=0.012),
        Move(_before_cabinet(-0.04, 0.08), GRIPPER_CLOSE, speed=0.20, tolerance=PASSING),
    )


def _before_cabinet(forward: float, height: float) -> Goal:
    """The closed fingers at the bar of the closed drawer, shifted along the cabinet's y axis and up, metres."""
    x, y, z = (a + b for a, b in zip(DRAWER_ORIGIN, DRAWER_HANDLE, strict=True))
    return hand_at(at("cabinet", (x, y + forward, z + height)), _ASIDE)
