"""The expert for bimanual_threading."""

import math
from dataclasses import replace

from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.bimanual_threading import HANDLE, HEAD, HEAD_BELOW, RING_TOP
from mimicpipe.pools.experts import PASSING, Move, retreat, stay, take_at
from mimicpipe.pools.goals import Grip, at, bring, fixed, grip, lift_by

_MEETING = (0.50, -0.06, 0.20)
"""Where the ring is held up, metres."""
_TURN = 0.5 * math.pi
_SHAFT = 0.09
"""Length below the head, metres."""


def expert(task: Task) -> dict[str, tuple[Move, ...]]:
    """The left hand holds up the ring, the right one brings the peg over it, lowers it and lets go."""
    left, right = task.eef_names
    return {left: _holder(), right: _threader()}


def _holder() -> tuple[Move, ...]:
    return (
        *take_at(grip(Grip("ring", HANDLE, either=False))),
        Move(lift_by(0.12), GRIPPER_CLOSE, speed=0.2, pause=(0, 1), tolerance=PASSING),
        Move(bring("ring", fixed(_MEETING, _TURN)), GRIPPER_CLOSE, speed=0.2, pause=(3, 5), label="held up"),
        Move(stay, GRIPPER_CLOSE, after="away"),
    )


def _threader() -> tuple[Move, ...]:
    seated = HEAD_BELOW - RING_TOP
    over = bring("peg", at("ring", (0.0, 0.0, _SHAFT - seated + 0.03)))
    around = bring("peg", at("ring", (0.0, 0.0, 0.012 - seated)))
    return (
        *take_at(grip(Grip("peg", HEAD, either=False))),
        Move(lift_by(0.26), GRIPPER_CLOSE, speed=0.2, pause=(0, 1), tolerance=PASSING),
        replace(Move(over, GRIPPER_CLOSE, speed=0.2, pause=(1, 3)), after="held up"),
        Move(over, GRIPPER_CLOSE, speed=0.1, pause=(1, 2), tolerance=0.003),
        Move(around, GRIPPER_CLOSE, speed=0.1, pause=(1, 3), tolerance=0.006),
        Move(stay, GRIPPER_OPEN, pause=(3, 6)),
        Move(retreat, GRIPPER_OPEN, speed=0.2, tolerance=PASSING, label="away"),
    )
