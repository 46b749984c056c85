"""From source segments to trajectories: M segments of any lengths in a fixed number of tensor operations.

A plan's row is

    t:  0 ... between-1 | between ... lead-1 | lead ... lead+n-1
        interpolation   | first pose, held   | the transformed segment

where lead = interpolation steps + fixed steps + 1 if the segment begins at the source eef's measured pose. Tensors are
component-major, (components, M, L), so that arithmetic runs along time; `as_waypoints` gives the views (M, L, ...) that
a plan has.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.datagen import rigid
from mimicpipe.datagen.rigid import Floats


def lead_in(start: Floats, goal: Floats, between: npt.NDArray[np.int64], steps: int) -> npt.NDArray[np.float32]:
    """(3, 4, steps, M) top rows of the poses that lead to a segment.

    Args:
        start: (3, 4, M) where interpolation starts.
        goal: (3, 4, M) the segment's first pose.
        between: (M,) interpolation steps.
        steps: how many are wanted, at least `between`.
    """
    before = np.empty((3, 4, steps, len(between)), dtype=np.float32)
    longest = int(between.max())
    before[:, :, longest:] = goal[:, :, None]
    if longest:
        time = np.arange(longest)[:, None]
        poses = rigid.interpolate(start, goal, (time + 1) / (between + 1))
        before[:, :, :longest] = np.where(time < between, poses, goal[:, :, None].astype(np.float32))
    return before


def transform(window: Tensor, motion: Tensor) -> Tensor:
    """(16, M, L) poses moved rigidly.

    Args:
        window: (12, M, L) or more: the poses' top three rows.
        motion: (3, 4, M) what is applied to each row's poses.
    """
    _, count, steps = window.shape
    source = window[:12].view(3, 4, count, steps)
    rows = motion[:, :, None, :, None]
    targets = torch.empty(16, count, steps, dtype=window.dtype, device=window.device)
    targets[12:15] = 0.0
    targets[15] = 1.0
    out = targets[:12].view(3, 4, count, steps)
    torch.mul(rows[:, 0], source[0], out=out)
    product = torch.mul(rows[:, 1], source[1])
    out += product
    torch.mul(rows[:, 2], source[2], out=product)
    out += product
    out[:, 3] += rows[:, 3, 0]
    return targets


def put_lead_in(values: Tensor, before: Tensor, lead: Tensor) -> None:
    """Overwrite the steps before each row's `lead` (M,) in values (C, M, L) by `before` (C, H, M)."""
    steps = before.shape[1]
    leading = torch.arange(steps, device=values.device) < lead[:, None]
    head = values[:, :, :steps]
    head.copy_(torch.where(leading, before.transpose(1, 2), head))


def hold_last(values: Tensor, rows: Tensor, at: Tensor) -> None:
    """Repeat the value before step `at` (R,) there, for some rows (R,) of values (C, M, L)."""
    values[:, rows, at] = values[:, rows, at - 1]


def as_waypoints(targets: Tensor, grippers: Tensor) -> tuple[Tensor, Tensor]:
    """Views (M, L, 4, 4) and (M, L, G) of component-major targets (16, M, L) and gripper actions (G, M, L)."""
    _, count, steps = targets.shape
    return targets.view(4, 4, count, steps).permute(2, 3, 0, 1), grippers.permute(1, 2, 0)
