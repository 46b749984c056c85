"""The expert for stack_three."""

from mimicpipe.envs.actions import GRIPPER_CLOSE
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pools.experts import PASSING, Move, lift, put, take


def expert(task: Task) -> tuple[Move, ...]:
    """Put the first object on the second, then the third on the first."""
    middle, base, top = task.objects
    up = Move(lift, GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING)
    return (*take(middle, (base, top)), up, *put(middle, base), *take(top, (base,)), up, *put(top, middle))
