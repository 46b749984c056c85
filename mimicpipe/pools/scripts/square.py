"""The expert for square."""

import math

from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.square import HANDLE, PEG_HEIGHT
from mimicpipe.pools.experts import PASSING, Move, above, retreat, roughly, stay, take_at
from mimicpipe.pools.goals import Grip, at, bring_turned, grip, lift_by

_REACH = 0.74
"""The hand is upright and free to turn up to here from the base, metres."""
_LET_GO = 0.05
"""Height at which the nut is dropped, metres: the peg then reaches through it, and the hand is clear of the peg."""


_HANDLE = Grip("square_nut", HANDLE, along=math.pi, either=False)
"""The hand's x axis towards the nut: then it is nearer than the peg when the wrist is at rest."""


def expert(task: Task) -> tuple[Move, ...]:
    """Take the nut by its handle, carry it over the peg, lower it and let it fall."""
    del task
    over = bring_turned("square_nut", at("square_peg", (0.0, 0.0, PEG_HEIGHT + 0.02)), 4, _REACH)
    around = bring_turned("square_nut", at("square_peg", (0.0, 0.0, _LET_GO)), 4, _REACH)
    return (
        *take_at(grip(_HANDLE)),
        Move(lift_by(0.20), GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING),
        Move(above(roughly(over, 0.5)), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING, bowed=True),
        Move(over, GRIPPER_CLOSE, speed=0.12, pause=(2, 4)),
        Move(around, GRIPPER_CLOSE, speed=0.12, pause=(1, 4), tolerance=0.008),
        Move(stay, GRIPPER_OPEN, pause=(3, 6)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=PASSING),
    )
