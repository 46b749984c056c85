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
_UNIT_Z = np.array([[0.0], [0.0], [1.0]])


@dataclass(slots=True)
class ArmPose:
    """Kinematics of N arms at one joint configuration each, in the base's frame, metres."""

    rot: Array
    """(3, 3, N) rotation of the grasp frame; rot[:, j] is its j-th axis. z points along the approach direction."""
    pos: Array
    """(3, N) grasp point."""
    axes: Array
    """(7, 3, N) direction of each joint's axis."""
    origins: Array
    """(7, 3, N) a point on each joint's axis."""

    def select(self, rows: npt.NDArray[np.int64]) -> "ArmPose":
        """The arms of some batch rows."""
        parts = (self.rot, self.pos, self.axes, self.origins)
        return ArmPose(*(np.ascontiguousarray(part[..., rows]) for part in parts))


def forward(q: Array) -> ArmPose:
    """Kinematics at joint positions q (7, N), radians."""
    count = q.shape[1]
    sin, cos = np.sin(q), np.cos(q)
    axes, origins = np.empty((7, 3, count)), np.empty((7, 3, count))
    rot = np.empty((3, 3, count))
    # The frame's axes x, y, z are columns that live in these buffers; joint 1 turns the base's frame about z.
    axes[0] = _UNIT_Z
    origins[0] = DH_D[0] * _UNIT_Z
    x, y, z, pos = np.empty((3, count)), np.empty((3, count)), axes[0], origins[0]
    x[0], x[1], x[2] = cos[0], sin[0], 0.0
    y[0], y[1], y[2] = -sin[0], cos[0], 0.0
    for joint in range(1, 7):
        if DH_A[joint]:
            pos = np.add(pos, DH_A[joint] * x, out=origins[joint])
        # A quarter turn about x maps (y, z) to (z, -y) or (-z, y); z is then the joint's axis.
        if DH_TWIST[joint] == 1:
            y, z = z, np.negative(y, out=axes[joint])
        else:
            axes[joint] = y
            y, z = -z, axes[joint]
        if DH_D[joint]:
            pos = np.add(pos, DH_D[joint] * z, out=origins[joint])
        elif not DH_A[joint]:
            origins[joint] = pos
        s, c = sin[joint], cos[joint]
        turned = c * x
        turned += s * y
        y = c * y
        y -= s * x
        x = turned
    rot[:, 0] = _COS_YAW * x + _SIN_YAW * y
    rot[:, 1] = _COS_YAW * y - _SIN_YAW * x
    rot[:, 2] = z
    return ArmPose(rot, pos + _EEF_OFFSET * z, axes, origins)


def jacobian(pose: ArmPose) -> Array:
    """Jacobian (6, 7, N) of the grasp frame: linear velocity (3), angular velocity (3), in the base's frame."""
    out = np.empty((6, 7, pose.pos.shape[1]))
    arm = (pose.pos - pose.origins).transpose(1, 0, 2)
    axes = pose.axes.transpose(1, 0, 2)
    for row in range(3):
        a, b = (row + 1) % 3, (row + 2) % 3
        np.multiply(axes[a], arm[b], out=out[row])
        out[row] -= axes[b] * arm[a]
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
    out = np.empty((3, rot.shape[2]))
    out[0] = rot[2, 1] - rot[1, 2]
    out[1] = rot[0, 2] - rot[2, 0]
    out[2] = rot[1, 0] - rot[0, 1]
    # The skew part is 2 sin(angle) times the axis, the trace 1 + 2 cos(angle).
    sin2 = np.sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2])
    cos2 = rot[0, 0] + rot[1, 1] + rot[2, 2] - 1.0
    small = sin2 < 1e-12
    out *= np.where(small, 0.5, np.arctan2(sin2, cos2) / np.where(small, 1.0, sin2))
    # Towards half a turn the skew part loses the axis; there the quaternion is well conditioned.
    flipped = np.flatnonzero(cos2 < -1.9)
    if flipped.size:
        out[:, flipped] = _vector_from_quat(quat_from_rotation(np.ascontiguousarray(rot[..., flipped])))
    return out


def _vector_from_quat(quat: Array) -> Array:
    """Axis-angle vectors (3, N) of unit quaternions (4, N) with w >= 0, away from the identity."""
    sin_half = np.sqrt(quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3])
    return quat[1:] * (2.0 * np.arctan2(sin_half, quat[0]) / sin_half)
