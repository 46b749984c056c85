"""The expert for three_piece_assembly."""

import math

from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.three_piece_assembly import (
    KNOB,
    PIECE_2_HALF,
    RIDGE,
    RIDGE_TOP,
    SEAT_1,
    SEAT_2,
    UNIT_BASE,
)
from mimicpipe.pools.experts import PASSING, Goal, Move, above, retreat, roughly, stay, take_at
from mimicpipe.pools.goals import Grip, at, grip, lift_by, set_down

_GAP = 0.004
"""Height over its seat at which a piece is let go, metres."""
_CLEAR = 0.015
"""Height over what it fits into at which a piece is aligned, metres."""


def expert(task: Task) -> tuple[Move, ...]:
    """Take piece 1 by its ridge and put it into the base, take piece 2 by its knob and put it over the ridge."""
    del task
    over_base = set_down("piece_1", at("base", (0.0, 0.0, SEAT_1 + UNIT_BASE + _CLEAR)), math.pi / 2)
    in_base = set_down("piece_1", at("base", (0.0, 0.0, SEAT_1 + _GAP)), math.pi / 2)
    over_ridge = set_down("piece_2", at("piece_1", (0.0, 0.0, RIDGE_TOP + PIECE_2_HALF + _CLEAR - SEAT_1)))
    on_ridge = set_down("piece_2", at("piece_1", (0.0, 0.0, SEAT_2 + _GAP - SEAT_1)))
    return (
        *take_at(grip(Grip("piece_1", RIDGE, either=False))),
        *_put(0.12, over_base, in_base),
        *take_at(grip(Grip("piece_2", KNOB, either=False))),
        *_put(0.15, over_ridge, on_ridge),
    )


def _put(height: float, over: Goal, down: Goal) -> tuple[Move, ...]:
    """Lift what is in the hand by metres, carry and align it, put it down and let go."""
    return (
        Move(lift_by(height), GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING),
        Move(above(roughly(over, 0.5)), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING, bowed=True),
        Move(over, GRIPPER_CLOSE, speed=0.12, pause=(2, 4), tolerance=0.003),
        Move(down, GRIPPER_CLOSE, speed=0.08, pause=(1, 4)),
        Move(stay, GRIPPER_OPEN, pause=(3, 6)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=PASSING),
    )
