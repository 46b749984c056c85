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

Singles = npt.NDArray[np.float32]


def lead_in(start: Floats, goal: Floats, gripper: Singles, between: npt.NDArray[np.int64], steps: int) -> Singles:
    """(16 + G, steps, M) the plan's steps that lead to a segment.

    Args:
        start: (3, 4, M) where interpolation starts.
        goal: (3, 4, M) the segment's first pose.
        gripper: (G, M) its first gripper action.
        between: (M,) interpolation steps.
        steps: how many are wanted, at least `between`.
    """
    before = np.empty((16 + len(gripper), steps, len(between)), dtype=np.float32)
    before[:12] = goal.reshape(12, 1, -1)
    before[12:15] = 0.0
    before[15] = 1.0
    before[16:] = gripper[:, None]
    longest = int(between.max())
    if longest:
        time = np.arange(longest)[:, None]
        poses = rigid.interpolate(start, goal, (time + 1) / (between + 1))
        np.copyto(before[:12, :longest], poses.reshape(12, longest, -1), where=time < between)
    return before


def transform(window: Tensor, motion: Tensor) -> Tensor:
    """Source segments, moved rigidly, as plan rows: (16 + G, M, L), a pose's 16 numbers and the gripper action.

    Args:
        window: (12 + G, M, L) the poses' top three rows and the gripper actions.
        motion: (3, 4, M) what is applied to each row's poses.
    """
    components, count, steps = window.shape
    plan = torch.empty(components + 4, count, steps, dtype=window.dtype, device=window.device)
    plan[12:15].zero_()
    plan[15].fill_(1.0)
    plan[16:].copy_(window[12:])
    source = window[:12].view(3, 4, count, steps).unbind(0)
    x, y, z, offset = motion[..., None].unbind(1)
    out = plan[:12].view(3, 4, count, steps)
    torch.mul(x[:, None], source[0], out=out)
    product = torch.mul(y[:, None], source[1])
    out += product
    torch.mul(z[:, None], source[2], out=product)
    out += product
    out[:, 3].add_(offset)
    return plan


def put_lead_in(plan: Tensor, before: Tensor, lead: Tensor) -> None:
    """Overwrite the steps before each row's `lead` (M,) in a plan (C, M, L) by `before` (C, H, M)."""
    steps = before.shape[1]
    leading = torch.arange(steps, device=plan.device) < lead[:, None]
    head = plan[:, :, :steps]
    head.copy_(torch.where(leading, before.transpose(1, 2), head))


def hold_last(plan: Tensor, rows: Tensor, at: Tensor) -> None:
    """Repeat the waypoint before step `at` (R,) there, for some rows (R,) of a plan (C, M, L)."""
    plan[:, rows, at] = plan[:, rows, at - 1]


def as_waypoints(plan: Tensor) -> tuple[Tensor, Tensor]:
    """Views: targets (M, L, 4, 4) and gripper actions (M, L, G) of a plan (16 + G, M, L)."""
    _, count, steps = plan.shape
    return plan[:16].view(4, 4, count, steps).permute(2, 3, 0, 1), plan[16:].permute(1, 2, 0)
