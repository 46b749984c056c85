"""Batched rigid-body geometry on torch tensors: 4x4 poses, wxyz quaternions, axis-angle vectors.

Poses are (..., 4, 4) matrices, metres. Every function is elementwise along the batch: products are written as explicit
sums of three or four terms, never as matmul or einsum, whose kernels may round differently for another batch size or
position; results for one pose are therefore the same bits in every batch (a property test holds this).
"""

import torch
from torch import Tensor

_EPS = 1e-12


def make_pose(pos: Tensor, rot: Tensor) -> Tensor:
    """Pose (..., 4, 4) from a position (..., 3) and a rotation matrix (..., 3, 3)."""
    pose = torch.zeros(*pos.shape[:-1], 4, 4, dtype=pos.dtype, device=pos.device)
    pose[..., :3, :3] = rot
    pose[..., :3, 3] = pos
    pose[..., 3, 3] = 1.0
    return pose


def pose_from_pos_quat(pos: Tensor, quat: Tensor) -> Tensor:
    """Pose (..., 4, 4) from a position (..., 3) and a wxyz quaternion (..., 4)."""
    return make_pose(pos, matrix_from_quat(quat))


def compose(a: Tensor, b: Tensor) -> Tensor:
    """Pose a @ b, broadcasting over the batch; both (..., 4, 4)."""
    top = a[..., :3, 0:1] * b[..., 0:1, :] + a[..., :3, 1:2] * b[..., 1:2, :] + a[..., :3, 2:3] * b[..., 2:3, :]
    out = torch.zeros(*top.shape[:-2], 4, 4, dtype=top.dtype, device=top.device)
    out[..., :3, :] = top
    out[..., :3, 3] += a[..., :3, 3]
    out[..., 3, 3] = 1.0
    return out


def rotate(rot: Tensor, vec: Tensor) -> Tensor:
    """Vector rot @ vec; rot (..., 3, 3), vec (..., 3)."""
    return rot[..., 0] * vec[..., 0:1] + rot[..., 1] * vec[..., 1:2] + rot[..., 2] * vec[..., 2:3]


def compose_rotations(a: Tensor, b: Tensor) -> Tensor:
    """Rotation a @ b; both (..., 3, 3)."""
    return a[..., 0:1] * b[..., 0:1, :] + a[..., 1:2] * b[..., 1:2, :] + a[..., 2:3] * b[..., 2:3, :]


def invert(pose: Tensor) -> Tensor:
    """Inverse of a rigid pose (..., 4, 4)."""
    rot_t = pose[..., :3, :3].transpose(-1, -2)
    return make_pose(-rotate(rot_t, pose[..., :3, 3]), rot_t)


def quat_multiply(a: Tensor, b: Tensor) -> Tensor:
    """Hamilton product a b of wxyz quaternions (..., 4)."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        dim=-1,
    )


def quat_conjugate(quat: Tensor) -> Tensor:
    """Conjugate of a wxyz quaternion (..., 4): the inverse rotation."""
    return torch.cat((quat[..., :1], -quat[..., 1:]), dim=-1)


def matrix_from_quat(quat: Tensor) -> Tensor:
    """Rotation matrix (..., 3, 3) from a wxyz quaternion (..., 4) of any non-zero norm."""
    w, x, y, z = quat.unbind(-1)
    s = 2.0 / (w * w + x * x + y * y + z * z)
    rows = (
        1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y),
        s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x),
        s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(rows, dim=-1).reshape(*quat.shape[:-1], 3, 3)


def quat_from_matrix(rot: Tensor) -> Tensor:
    """Unit wxyz quaternion (..., 4), w >= 0, from a rotation matrix (..., 3, 3).

    Shepperd's method (J. Guidance and Control 1(3), 1978): four candidates, the one with the largest pivot is kept.
    """
    m = rot.reshape(*rot.shape[:-2], 9)
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = m.unbind(-1)
    one = torch.ones_like(m00)
    candidates = torch.stack(
        (
            torch.stack((one + m00 + m11 + m22, m21 - m12, m02 - m20, m10 - m01), dim=-1),
            torch.stack((m21 - m12, one + m00 - m11 - m22, m10 + m01, m02 + m20), dim=-1),
            torch.stack((m02 - m20, m10 + m01, one - m00 + m11 - m22, m21 + m12), dim=-1),
            torch.stack((m10 - m01, m02 + m20, m21 + m12, one - m00 - m11 + m22), dim=-1),
        ),
        dim=-2,
    )
    pivots = torch.stack((m00 + m11 + m22, m00 - m11 - m22, m11 - m00 - m22, m22 - m00 - m11), dim=-1)
    best = pivots.argmax(dim=-1)
    quat = candidates.gather(-2, best[..., None, None].expand(*best.shape, 1, 4)).squeeze(-2)
    quat = quat / vector_norm(quat)
    return torch.where(quat[..., :1] < 0, -quat, quat)


def vector_norm(vec: Tensor) -> Tensor:
    """Euclidean norm (..., 1) of the last axis (3 or 4 long), summed in a fixed order."""
    parts = vec.unbind(-1)
    total = parts[0] * parts[0]
    for part in parts[1:]:
        total = total + part * part
    return torch.sqrt(total)[..., None]


def axis_angle_from_quat(quat: Tensor) -> Tensor:
    """Axis-angle vector (..., 3), radians, norm in [0, pi], from a unit wxyz quaternion (..., 4)."""
    quat = torch.where(quat[..., :1] < 0, -quat, quat)
    sin_half = vector_norm(quat[..., 1:])
    # tan(a/4) = sin(a/2) / (1 + cos(a/2)). Not atan2: torch's rounds the last few elements of a batch differently.
    angle = 4.0 * torch.atan(sin_half / (1.0 + quat[..., :1]))
    # sin(a/2)/a -> 1/2: below the threshold the quotient is 2 to float precision.
    scale = torch.where(sin_half > 1e-7, angle / sin_half.clamp_min(_EPS), torch.full_like(angle, 2.0))
    return quat[..., 1:] * scale


def quat_from_axis_angle(vec: Tensor) -> Tensor:
    """Unit wxyz quaternion (..., 4) from an axis-angle vector (..., 3), radians."""
    angle = vector_norm(vec)
    half = 0.5 * angle
    scale = torch.where(angle > 1e-7, torch.sin(half) / angle.clamp_min(_EPS), torch.full_like(angle, 0.5))
    return torch.cat((torch.cos(half), vec * scale), dim=-1)


def axis_angle_from_matrix(rot: Tensor) -> Tensor:
    """Axis-angle vector (..., 3), radians, from a rotation matrix (..., 3, 3)."""
    return axis_angle_from_quat(quat_from_matrix(rot))


def matrix_from_axis_angle(vec: Tensor) -> Tensor:
    """Rotation matrix (..., 3, 3) from an axis-angle vector (..., 3), radians."""
    return matrix_from_quat(quat_from_axis_angle(vec))


def slerp(a: Tensor, b: Tensor, fraction: Tensor) -> Tensor:
    """Spherical interpolation of unit wxyz quaternions, along the shorter arc.

    Args:
        a, b: (..., 4).
        fraction: (...,), 0 gives a and 1 gives b.

    Source: Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985.
    """
    relative = quat_multiply(quat_conjugate(a), b)
    return quat_multiply(a, quat_from_axis_angle(axis_angle_from_quat(relative) * fraction[..., None]))


def interpolate(a: Tensor, b: Tensor, fraction: Tensor) -> Tensor:
    """Pose between a and b (..., 4, 4): linear in position, slerp in rotation; fraction (...,) in [0, 1]."""
    pos = a[..., :3, 3] + (b[..., :3, 3] - a[..., :3, 3]) * fraction[..., None]
    rot = slerp(quat_from_matrix(a[..., :3, :3]), quat_from_matrix(b[..., :3, :3]), fraction)
    return make_pose(pos, matrix_from_quat(rot))


def rotation_defect(pose: Tensor) -> Tensor:
    """Largest deviation (...,) of the 3x3 block from a right-handed rotation and of the last row from (0, 0, 0, 1)."""
    rot = pose[..., :3, :3]
    gram = compose_rotations(rot.transpose(-1, -2), rot)
    eye = torch.eye(3, dtype=pose.dtype, device=pose.device)
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=pose.dtype, device=pose.device)
    defect = (gram - eye).abs().amax(dim=(-1, -2))
    defect = torch.maximum(defect, (torch.linalg.cross(rot[..., 0], rot[..., 1]) - rot[..., 2]).abs().amax(dim=-1))
    return torch.maximum(defect, (pose[..., 3, :] - last).abs().amax(dim=-1))
