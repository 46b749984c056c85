"""Steps in which an eef waits for its lagging arm before the gripper changes (`SubTaskConfig.num_settle_steps`).

A segment is played by index: where the arm lags behind its targets, the gripper would close before it has arrived.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]


def gripper_changes(gripper: Tensor) -> Tensor:
    """(T,) bool: steps at which a demo's gripper action (T, G) crosses the middle of its range."""
    middle = (gripper.amin(dim=0) + gripper.amax(dim=0)) / 2
    beyond = gripper > middle
    changes = torch.zeros(gripper.shape[0], dtype=torch.bool, device=gripper.device)
    changes[1:] = (beyond[1:] != beyond[:-1]).any(dim=1)
    return changes


def settled(
    waypoints: Singles, lengths: Ints, lead: Ints, changes: list[Ints], wait: Ints, gripper: slice
) -> tuple[Ints, Singles]:
    """Wait before each change of the gripper, at the pose where it happens, with the gripper as it was, without noise.

    Args:
        waypoints: (M, L, W).
        lengths: (M,).
        lead: (M,) steps before the segment.
        changes: for each row, steps of its segment at which the gripper changes.
        wait: (M,) steps to wait.
        gripper: where in a waypoint its gripper action stands; the noise follows.

    Returns:
        Waypoints more than before (M,), and (M, L', W).
    """
    more = wait * np.asarray([len(steps) for steps in changes], dtype=np.int64)
    longer = np.zeros((len(waypoints), int((lengths + more).max()), waypoints.shape[2]), dtype=np.float32)
    for row, steps in enumerate(changes):
        repeats = np.ones(int(lengths[row]), dtype=np.int64)
        repeats[lead[row] + steps] += wait[row]
        taken = np.repeat(np.arange(len(repeats)), repeats)
        longer[row, : len(taken)] = waypoints[row, taken]
        waits = np.flatnonzero(taken[:-1] == taken[1:])
        longer[row, waits, gripper] = waypoints[row, taken[waits] - 1, gripper]
        longer[row, waits, gripper.stop :] = 0.0
    return more, longer
