"""Forward kinematics and Jacobian of the Panda's seven joints, batched, from the same table that builds the model.

The batch is the last axis everywhere, so each numpy call runs over contiguous memory and costs per batch. Every formula
is elementwise along the batch (no matmul, no reduction over it): one slot's numbers are the same bits in any batch.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.mujoco.panda import DH_A, DH_D, DH_TWIST, FLANGE_OFFSET, GRASP_OFFSET, HAND_YAW

Array = npt.NDArray[np.float64]

_EEF_OFFSET = FLANGE_OFFSET + GRASP_OFFSET
_COS_YAW, _SIN_YAW = math.cos(HAND_YAW), math.sin(HAND_YAW)


@dataclass(slots=True)
class ArmPose:
    """Kinematics of N arms at one joint configuration each, in the base's frame, metres."""

    rot: Array
    """(3, 3, N) rotation of the grasp frame; rot[:, j] is its j-th axis. z points along the approach direction."""
    pos: Array
    """(3, N) grasp point."""
    axes: Array
    """(3, 7, N) direction of each joint's axis."""
    origins: Array
    """(3, 7, N) a point on each joint's axis."""

    def select(self, rows: npt.NDArray[np.int64]) -> "ArmPose":
        """The arms of some batch rows."""
        return ArmPose(self.rot[..., rows], self.pos[..., rows], self.axes[..., rows], self.origins[..., rows])


def forward(q: Array) -> ArmPose:
    """Kinematics at joint positions q (7, N), radians."""
    count = q.shape[1]
    sin, cos = np.sin(q), np.cos(q)
    axes, origins = np.empty((3, 7, count)), np.empty((3, 7, count))
    # The frame's columns; identity at the base.
    x, y, z = np.zeros((3, count)), np.zeros((3, count)), np.zeros((3, count))
    x[0] = y[1] = z[2] = 1.0
    pos = np.zeros((3, count))
    for joint in range(7):
        if DH_A[joint]:
            pos = pos + DH_A[joint] * x
        # A quarter turn about x maps (y, z) to (z, -y) or (-z, y).
        if DH_TWIST[joint] == 1:
            y, z = z, -y
        elif DH_TWIST[joint] == -1:
            y, z = -z, y
        if DH_D[joint]:
            pos = pos + DH_D[joint] * z
        axes[:, joint], origins[:, joint] = z, pos
        s, c = sin[joint], cos[joint]
        x, y = c * x + s * y, c * y - s * x
    rot = np.empty((3, 3, count))
    rot[:, 0] = _COS_YAW * x + _SIN_YAW * y
    rot[:, 1] = _COS_YAW * y - _SIN_YAW * x
    rot[:, 2] = z
    return ArmPose(rot, pos + _EEF_OFFSET * z, axes, origins)


def jacobian(pose: ArmPose) -> Array:
    """Jacobian (6, 7, N) of the grasp frame: linear velocity (3), angular velocity (3), in the base's frame."""
    out = np.empty((6, 7, pose.pos.shape[1]))
    arm = pose.pos[:, None] - pose.origins
    axes = pose.axes
    out[0] = axes[1] * arm[2] - axes[2] * arm[1]
    out[1] = axes[2] * arm[0] - axes[0] * arm[2]
    out[2] = axes[0] * arm[1] - axes[1] * arm[0]
    out[3:] = axes
    return out


def compose_rotations(a: Array, b: Array) -> Array:
    """Rotation a b; both (3, 3, N)."""
    return a[:, 0:1] * b[0:1] + a[:, 1:2] * b[1:2] + a[:, 2:3] * b[2:3]


def rotation_from_vector(vec: Array) -> Array:
    """Rotation (3, 3, N) by axis-angle vectors (3, N), radians (Rodrigues' formula)."""
    angle_sq = vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]
    angle = np.sqrt(angle_sq)
    small = angle < 1e-7
    safe = np.where(small, 1.0, angle)
    half = np.sin(0.5 * safe) / safe
    a = np.where(small, 1.0, np.sin(safe) / safe)
    b = np.where(small, 0.5, 2.0 * half * half)
    x, y, z = vec
    out = np.empty((3, 3, vec.shape[1]))
    xy, xz, yz = b * x * y, b * x * z, b * y * z
    ax, ay, az = a * x, a * y, a * z
    out[0, 0] = 1.0 - b * (y * y + z * z)
    out[1, 1] = 1.0 - b * (x * x + z * z)
    out[2, 2] = 1.0 - b * (x * x + y * y)
    out[0, 1], out[1, 0] = xy - az, xy + az
    out[0, 2], out[2, 0] = xz + ay, xz - ay
    out[1, 2], out[2, 1] = yz - ax, yz + ax
    return out


def quat_from_rotation(rot: Array) -> Array:
    """Unit wxyz quaternions (4, N), w >= 0, of rotations (3, 3, N).

    Shepperd's method (J. Guidance and Control 1(3), 1978): of the four formulas, the one with the largest pivot.
    """
    diagonal = rot[0, 0], rot[1, 1], rot[2, 2]
    pivots = np.empty((4, rot.shape[2]))
    pivots[0] = diagonal[0] + diagonal[1] + diagonal[2]
    pivots[1], pivots[2], pivots[3] = diagonal
    best = pivots.argmax(axis=0)
    a, b, c = rot[2, 1] - rot[1, 2], rot[0, 2] - rot[2, 0], rot[1, 0] - rot[0, 1]
    d, e, f = rot[1, 0] + rot[0, 1], rot[0, 2] + rot[2, 0], rot[2, 1] + rot[1, 2]
    trace = pivots[0]
    table = np.empty((4, 4, rot.shape[2]))
    table[0, 0], table[0, 1], table[0, 2], table[0, 3] = 1.0 + trace, a, b, c
    table[1, 0], table[1, 1], table[1, 2], table[1, 3] = a, 1.0 + 2.0 * diagonal[0] - trace, d, e
    table[2, 0], table[2, 1], table[2, 2], table[2, 3] = b, d, 1.0 + 2.0 * diagonal[1] - trace, f
    table[3, 0], table[3, 1], table[3, 2], table[3, 3] = c, e, f, 1.0 + 2.0 * diagonal[2] - trace
    quat = table[best, :, np.arange(rot.shape[2])].T
    norm = np.sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3])
    return np.ascontiguousarray(quat / np.where(quat[0] < 0.0, -norm, norm))


def rotation_from_quat(quat: Array) -> Array:
    """Rotations (3, 3, ...) of wxyz quaternions (4, ...) of any non-zero norm."""
    w, x, y, z = quat
    scale = 2.0 / (w * w + x * x + y * y + z * z)
    sx, sy, sz = scale * x, scale * y, scale * z
    xx, yy, zz, xy, xz, yz = sx * x, sy * y, sz * z, sx * y, sx * z, sy * z
    wx, wy, wz = sx * w, sy * w, sz * w
    out = np.empty((3, 3, *w.shape))
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - (yy + zz), xy - wz, xz + wy
    out[1, 0], out[1, 1], out[1, 2] = xy + wz, 1.0 - (xx + zz), yz - wx
    out[2, 0], out[2, 1], out[2, 2] = xz - wy, yz + wx, 1.0 - (xx + yy)
    return out


def vector_from_rotation(rot: Array) -> Array:
    """Axis-angle vectors (3, N), norm in [0, pi], of rotations (3, 3, N)."""
    quat = quat_from_rotation(rot)
    sin_half = np.sqrt(quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3])
    angle = 2.0 * np.arctan2(sin_half, quat[0])
    small = sin_half < 1e-9
    return quat[1:] * np.where(small, 2.0, angle / np.where(small, 1.0, sin_half))
