"""The expert for stack."""

from mimicpipe.envs.actions import GRIPPER_CLOSE
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pools.experts import PASSING, Move, lift, put, take


def expert(task: Task) -> tuple[Move, ...]:
    """Take the first object, put it on the second, let go and move away."""
    top, base = task.objects
    return (
        *take(top, (base,)),
        Move(lift, GRIPPER_CLOSE, speed=0.22, pause=(0, 1), tolerance=PASSING),
        *put(top, base),
    )
