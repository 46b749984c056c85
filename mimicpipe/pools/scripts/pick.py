"""The expert for pick."""

from mimicpipe.envs.actions import GRIPPER_CLOSE
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pools.experts import PASSING, Move, lift, take


def expert(task: Task) -> tuple[Move, ...]:
    """Take the task's only object and hold it up."""
    (box,) = task.objects
    return (*take(box), Move(lift, GRIPPER_CLOSE, speed=0.18, tolerance=PASSING))
