"""Rigid-body arithmetic on the host for the few poses a plan is computed from: one or two for each of M rows.

Arrays are component-major: a pose is (3, 4, M), its last row left out, a rotation (3, 3, M), a vector (3, M). Sums are
written out, so that a row has the same bits whatever M is. Trajectories, which are long, are tensors.
"""

import numpy as np
import numpy.typing as npt
from torch import Tensor

Floats = npt.NDArray[np.float64]

_TINY = 1e-9


def from_tensor(pose: Tensor) -> Floats:
    """(3, 4, M) of a tensor (M, 4, 4) on any device."""
    return np.ascontiguousarray(pose.cpu().numpy()[:, :3].transpose(1, 2, 0), dtype=np.float64)


def compose(a: Floats, b: npt.NDArray[np.floating]) -> Floats:
    """Pose a @ b, broadcasting over what follows the first two axes; b may be a rotation (3, 3, M) and gives one."""
    product = a[:, 0, None] * b[0]
    product += a[:, 1, None] * b[1]
    product += a[:, 2, None] * b[2]
    if b.shape[1] == 4:
        product[:, 3] += a[:, 3]
    return product


def invert(pose: Floats) -> Floats:
    """Inverse of a pose."""
    inverse = np.empty_like(pose)
    inverse[:, :3] = pose[:, :3].transpose(1, 0, 2)
    position = pose[:, 3]
    inverse[:, 3] = -(inverse[:, 0] * position[0] + inverse[:, 1] * position[1] + inverse[:, 2] * position[2])
    return inverse


def axis_and_angle(rotation: Floats) -> tuple[Floats, Floats]:
    """Unit axis (3, M) and angle (M,) in [0, pi] of rotations (3, 3, M); the axis of no rotation is zero.

    Through the quaternion with the largest pivot (Shepperd, J. Guidance and Control 1(3), 1978), exact near 0 and pi.
    """
    r = rotation
    x, y, z = r[0, 0], r[1, 1], r[2, 2]
    a, b, c = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    d, e, f = r[0, 1] + r[1, 0], r[0, 2] + r[2, 0], r[1, 2] + r[2, 1]
    pivots = np.array((1.0 + x + y + z, 1.0 + x - y - z, 1.0 - x + y - z, 1.0 - x - y + z))
    candidates = np.array((pivots[0], a, b, c, a, pivots[1], d, e, b, d, pivots[2], f, c, e, f, pivots[3]))
    best = pivots.argmax(axis=0)
    quat = candidates.reshape(4, 4, -1)[best, :, np.arange(len(best))].T
    quat = np.where(quat[0] < 0, -quat, quat)
    real, vector = quat[0], quat[1:]
    sine = np.sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2])
    # tan(angle / 4) = sin(angle / 2) / (1 + cos(angle / 2)), here with the quaternion's norm still in both.
    angle = 4.0 * np.arctan(sine / (np.sqrt(sine * sine + real * real) + real))
    return vector / np.maximum(sine, _TINY), angle


def interpolate(start: Floats, goal: Floats, fraction: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """(3, 4, H, M) float32 poses at fractions (H, M) of the way: linear in position, at constant speed about one axis.

    The rotation is start @ (I + sin(a) K + (1 - cos(a)) K^2) (Rodrigues), K the axis' cross-product matrix.
    """
    rotation = start[:, :3]
    (x, y, z), angle = axis_and_angle(compose(rotation.transpose(1, 0, 2), goal[:, :3]))
    zero = np.zeros_like(x)
    cross = np.array((zero, -z, y, z, zero, -x, -y, x, zero)).reshape(3, 3, -1)
    sine_part = compose(rotation, cross)
    cosine_part = compose(sine_part, cross)
    turned = angle * fraction
    parts = np.concatenate((rotation, sine_part, cosine_part), axis=1)[:, :, None].astype(np.float32)
    poses = np.empty((3, 4, *fraction.shape), dtype=np.float32)
    turn = poses[:, :3]
    np.multiply(parts[:, 3:6], np.sin(turned).astype(np.float32), out=turn)
    turn += parts[:, 6:] * (1.0 - np.cos(turned)).astype(np.float32)
    turn += parts[:, :3]
    poses[:, 3] = start[:, 3, None] + (goal[:, 3] - start[:, 3])[:, None] * fraction
    return poses
