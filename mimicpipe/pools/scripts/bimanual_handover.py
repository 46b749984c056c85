"""The expert for bimanual_handover."""

import math
from dataclasses import replace

from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.bimanual_handover import GRIPS
from mimicpipe.pools.experts import PASSING, Move, above, retreat, roughly, stay, take_at
from mimicpipe.pools.goals import Grip, at, bring, fixed, grip, lift_by

_MEETING = (0.50, 0.0, 0.28)
"""Where the bar changes hands, metres."""
_DOWN = 0.018
"""Height of the bar's middle over the pad when it is let go, metres."""


def expert(task: Task) -> dict[str, tuple[Move, ...]]:
    """The left hand takes the bar and holds it out until the right one has it; that one puts it on the pad."""
    left, right = task.eef_names
    return {left: _giver(), right: _taker()}


def _giver() -> tuple[Move, ...]:
    return (
        *take_at(grip(Grip("bar", GRIPS["left"], math.pi / 2, either=False))),
        Move(lift_by(0.12), GRIPPER_CLOSE, speed=0.2, pause=(0, 1), tolerance=PASSING),
        Move(bring("bar", fixed(_MEETING)), GRIPPER_CLOSE, speed=0.2, pause=(5, 7), label="presented"),
        Move(stay, GRIPPER_OPEN, pause=(4, 6), after="taken"),
        Move(retreat, GRIPPER_OPEN, speed=0.2, tolerance=PASSING, label="away"),
    )


def _taker() -> tuple[Move, ...]:
    first, *reach, close = take_at(grip(Grip("bar", GRIPS["right"], math.pi / 2, either=False)))
    on_pad = bring("bar", at("pad", (0.0, 0.0, _DOWN)))
    return (
        replace(first, after="presented"),
        *reach,
        replace(close, label="taken"),
        Move(above(roughly(on_pad, 0.5)), GRIPPER_CLOSE, speed=0.22, tolerance=PASSING, bowed=True, after="away"),
        Move(above(on_pad), GRIPPER_CLOSE, speed=0.12, tolerance=0.008),
        Move(on_pad, GRIPPER_CLOSE, speed=0.12, pause=(1, 4)),
        Move(stay, GRIPPER_OPEN, pause=(3, 6)),
        Move(retreat, GRIPPER_OPEN, speed=0.2, tolerance=PASSING),
    )
