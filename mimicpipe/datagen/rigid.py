"""Rigid-body arithmetic on the host for the poses that selection strategies look at: one or two for each of M rows.

Arrays are component-major: a pose is (3, 4, M), its last row left out. Sums are written out, so that a row has the same
bits whatever M is.
"""

import numpy as np
import numpy.typing as npt
from torch import Tensor

Floats = npt.NDArray[np.float64]


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
