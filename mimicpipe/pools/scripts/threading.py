"""The expert for threading."""

import math

from mimicpipe.envs.actions import GRIPPER_CLOSE
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.threading import HANDLE, NEEDLE_MIDDLE, RING
from mimicpipe.pools.experts import PASSING, Goal, Move, roughly, take_at
from mimicpipe.pools.goals import Grip, at, bring, grip, lift_by

_HANDLE = Grip("needle", HANDLE, along=math.pi / 2, either=False)
"""The hand's x axis from the tip to the handle: at the ring, the wrist is then in the middle of its range."""


def expert(task: Task) -> tuple[Move, ...]:
    """Take the needle by its handle, point it at the ring, and push it half way through."""
    del task
    return (
        *take_at(grip(_HANDLE)),
        Move(lift_by(0.20), GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING),
        Move(roughly(_needle_at(0.12), 0.5), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING),
        Move(_needle_at(0.09), GRIPPER_CLOSE, speed=0.10, pause=(3, 6), tolerance=0.002),
        Move(_needle_at(0.0), GRIPPER_CLOSE, speed=0.07, pause=(2, 5), tolerance=0.004),
    )


def _needle_at(before: float) -> Goal:
    """The needle along the ring's axis, its middle before the ring's, metres."""
    x, y, z = RING
    return bring("needle", at("tripod", (x + before - NEEDLE_MIDDLE[1], y, z), -math.pi / 2))
