"""Rotations stored component first, the batch last: vectors (3, N), quaternions (4, N), matrices (3, 3, N).

The same mathematics as mimicpipe.poses in the layout that is fast for a simulator's inner loop: each component is one
contiguous row, so a formula is a few wide operations instead of many strided ones. The same rule holds: every product
is an explicit sum of elementwise terms, and sin, cos, atan and hypot see contiguous rows (atan2 would round differently
at the end of a batch), so a slot's bits do not depend on the batch around it; a property test holds this.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor


class _Tables(NamedTuple):
    """Constants of one device. Python numbers would do, but each costs a conversion in each operation."""

    lower: Tensor
    upper: Tensor
    candidates: Tensor
    skew: Tensor
    skew_sign: Tensor
    zero: Tensor
    one: Tensor
    two: Tensor
    tiny: Tensor


@lru_cache(maxsize=16)
@torch.inference_mode()
def _tables(device: torch.device) -> _Tables:
    return _Tables(
        # m21, m02, m10 and m12, m20, m01 of a flattened matrix: their differences are 2 sin(angle) times the axis.
        lower=torch.tensor([7, 2, 3], device=device),
        upper=torch.tensor([5, 6, 1], device=device),
        # Rows of [pivot w, x, y, z | differences | sums]: the four candidates of Shepperd's method, one after another.
        candidates=torch.tensor([0, 4, 5, 6, 4, 1, 9, 8, 5, 9, 2, 7, 6, 8, 7, 3], device=device),
        skew=torch.tensor([0, 2, 1, 2, 0, 0, 1, 0, 0], device=device),
        skew_sign=torch.tensor([0.0, -1.0, 1.0, 1.0, 0.0, -1.0, -1.0, 1.0, 0.0], device=device)[:, None],
        zero=torch.tensor(0.0, device=device),
        one=torch.tensor(1.0, device=device),
        two=torch.tensor(2.0, device=device),
        # A norm that is safe to divide by, far below any angle that float32 can tell from zero next to 1.
        tiny=torch.tensor(1e-18, device=device),
    )


def norm(vec: Tensor) -> Tensor:
    """Euclidean norms (N,) of vectors (3, N)."""
    x, y, z = vec.unbind(0)
    return torch.hypot(torch.hypot(x, y), z)


def compose(a: Tensor, b: Tensor) -> Tensor:
    """Rotation a @ b; both (3, 3, N)."""
    first, second, third = (a.unsqueeze(2) * b.unsqueeze(0)).unbind(1)
    return first + second + third


def compose_inverse(a: Tensor, b: Tensor) -> Tensor:
    """Rotation a @ b^-1, which takes b's axes to a's; both (3, 3, N)."""
    first, second, third = (a.unsqueeze(1) * b.unsqueeze(0)).unbind(2)
    return first + second + third


def _unscaled_quat(rot: Tensor) -> Tensor:
    """wxyz quaternion (4, N) of any non-zero norm and either sign, from rotations (3, 3, N).

    Shepperd's method (J. Guidance and Control 1(3), 1978): of four candidates one with a large pivot is kept.
    """
    tables = _tables(rot.device)
    m = rot.reshape(9, -1)
    diagonal = m[0::4]
    x, y, z = diagonal.unbind(0)
    trace = x + y + z
    pivots = diagonal + diagonal + (tables.one - trace)
    lower, upper = m.index_select(0, tables.lower), m.index_select(0, tables.upper)
    terms = torch.cat(((tables.one + trace).unsqueeze(0), pivots, lower - upper, lower + upper))
    by_w, by_x, by_y, by_z = terms.index_select(0, tables.candidates).view(4, 4, -1).unbind(0)
    by_axis = torch.where(x >= torch.maximum(y, z), by_x, torch.where(y >= z, by_y, by_z))
    return torch.where(trace > tables.zero, by_w, by_axis)


def quat_from_matrix(rot: Tensor) -> Tensor:
    """Unit wxyz quaternion (4, N), w >= 0, from rotations (3, 3, N)."""
    quat = _unscaled_quat(rot)
    w, x, y, z = quat.unbind(0)
    length = torch.hypot(torch.hypot(w, x), torch.hypot(y, z))
    return quat / torch.where(w < 0, -length, length)


def axis_angle_from_quat(quat: Tensor) -> Tensor:
    """Axis-angle vectors (3, N), radians, norm in [0, pi], from wxyz quaternions (4, N), any non-zero norm and sign."""
    tables = _tables(quat.device)
    vector = quat[1:]
    sine = torch.maximum(norm(vector), tables.tiny)
    # atan of the signed quotient: a negative w gives the negative half angle, so q and -q are the same vector.
    return vector * (tables.two * torch.atan(sine / quat[0]) / sine)


def axis_angle_from_matrix(rot: Tensor) -> Tensor:
    """Axis-angle vectors (3, N), radians, from rotations (3, 3, N)."""
    return axis_angle_from_quat(_unscaled_quat(rot))


def matrix_from_axis_angle(vec: Tensor) -> Tensor:
    """Rotations (3, 3, N) from axis-angle vectors (3, N), radians, by Rodrigues' formula."""
    tables = _tables(vec.device)
    angle = torch.maximum(norm(vec), tables.tiny)
    axis = vec / angle
    cos = torch.cos(angle)
    outer = (axis * (tables.one - cos)).unsqueeze(1) * axis
    out = outer.view(9, -1) + (axis * torch.sin(angle)).index_select(0, tables.skew) * tables.skew_sign
    out[0::4] += cos
    return out.view(3, 3, -1)


def matrix_from_quat(quat: Tensor) -> Tensor:
    """Rotations (3, 3, N) from wxyz quaternions (4, N) of any non-zero norm."""
    return matrix_from_axis_angle(axis_angle_from_quat(quat))


def from_poses(pose: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations (3, 3, N) and positions (3, N) of poses (N, 4, 4); the two share memory."""
    components = pose.permute(1, 2, 0).contiguous()[:3]
    return components[:, :3], components[:, 3]


def to_poses(rot: Tensor, pos: Tensor) -> Tensor:
    """Poses (N, 4, 4) from rotations (3, 3, N) and positions (3, N)."""
    pose = torch.zeros(pos.shape[-1], 4, 4, dtype=pos.dtype, device=pos.device)
    pose[:, :3, :3] = rot.permute(2, 0, 1)
    pose[:, :3, 3] = pos.t()
    pose[:, 3, 3] = 1.0
    return pose
