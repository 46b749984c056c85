"""The expert for bimanual_lift."""

import math
from dataclasses import replace

from mimicpipe.envs.actions import GRIPPER_CLOSE
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.bimanual_lift import HANDLES
from mimicpipe.pools.experts import Move, take_at
from mimicpipe.pools.goals import Grip, grip, lift_by

_HEIGHT = 0.15
"""Of the lift, metres."""


def expert(task: Task) -> dict[str, tuple[Move, ...]]:
    """Both take their handles; whoever is first waits, and they lift together."""
    first, second = task.eef_names
    return {first: _arm(first, second), second: _arm(second, first)}


def _arm(eef: str, other: str) -> tuple[Move, ...]:
    *reach, close = take_at(grip(Grip("tray", HANDLES[eef], math.pi / 2, either=False)))
    return (
        *reach,
        replace(close, label=f"{eef} holds"),
        Move(lift_by(_HEIGHT), GRIPPER_CLOSE, speed=0.12, tolerance=0.01, after=f"{other} holds"),
    )
