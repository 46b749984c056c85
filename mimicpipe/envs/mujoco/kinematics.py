"""Forward kinematics and Jacobian of the Panda's seven joints, batched, from the same table that builds the model.

The batch is the last axis everywhere. The loops are in `kernels`; one slot's numbers are the same bits in any batch.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.mujoco import ik_kernels, kernels
from mimicpipe.envs.mujoco.panda import DH_A, DH_D, DH_TWIST, FLANGE_OFFSET, GRASP_OFFSET, HAND_YAW

Array = npt.NDArray[np.float64]

_DH_A, _DH_D, _DH_TWIST = (np.asarray(column, dtype=np.float64) for column in (DH_A, DH_D, DH_TWIST))
EEF_OFFSET = FLANGE_OFFSET + GRASP_OFFSET
"""Link 7's frame to the grasp point, metres."""
_AT_ORIGIN = np.eye(3, 4)


@dataclass(slots=True)
class HandPose:
    """Grasp frames of N arms, in the slots' frames, metres."""

    rot: Array
    """(3, 3, N) rotation of the grasp frame; rot[:, j] is its j-th axis. z points along the approach direction."""
    pos: Array
    """(3, N) grasp point."""


@dataclass(slots=True)
class ArmPose(HandPose):
    """Kinematics of N arms at one joint configuration each, in the slots' frames, metres."""

    axes: Array
    """(7, 3, N) direction of each joint's axis."""
    origins: Array
    """(7, 3, N) a point on each joint's axis."""

    def select(self, rows: npt.NDArray[np.int64]) -> "ArmPose":
        """The arms of some batch rows."""
        parts = (self.rot, self.pos, self.axes, self.origins)
        return ArmPose(*(np.ascontiguousarray(part[..., rows]) for part in parts))


def forward(q: Array, base: Array = _AT_ORIGIN) -> ArmPose:
    """Kinematics at joint positions q (7, N), radians, of arms whose base has a pose (3, 4) in the slot's frame."""
    count = q.shape[1]
    pose = ArmPose(np.empty((3, 3, count)), np.empty((3, count)), np.empty((7, 3, count)), np.empty((7, 3, count)))
    kernels.forward(
        q, base, _DH_A, _DH_D, _DH_TWIST, HAND_YAW, EEF_OFFSET, pose.rot, pose.pos, pose.axes, pose.origins
    )  # fmt: skip
    return pose


def jacobian(pose: ArmPose) -> Array:
    """Jacobian (6, 7, N) of the grasp frame: linear velocity (3), angular velocity (3), in the slot's frame."""
    out = np.empty((6, 7, pose.pos.shape[1]))
    ik_kernels.jacobian(pose.pos, pose.axes, pose.origins, out)
    return out


def compose_rotations(a: Array, b: Array) -> Array:
    """Rotation a b; both (3, 3, N)."""
    return a[:, 0:1] * b[0:1] + a[:, 1:2] * b[1:2] + a[:, 2:3] * b[2:3]


def rotation_from_vector(vec: Array) -> Array:
    """Rotation (3, 3, N) by axis-angle vectors (3, N), radians (Rodrigues' formula)."""
    out = np.empty((3, 3, vec.shape[1]))
    kernels.rotations_from_vectors(vec, out)
    return out


def quat_from_rotation(rot: Array) -> Array:
    """Unit wxyz quaternions (4, N), w >= 0, of rotations (3, 3, N).

    Shepperd's method (J. Guidance and Control 1(3), 1978): of the four formulas, the one with the largest pivot.
    """
    out = np.empty((4, rot.shape[2]))
    kernels.quats_from_rotations(rot, out)
    return out


def rotation_from_quat(quat: Array) -> Array:
    """Rotations (3, 3, N) of wxyz quaternions (4, N) of any non-zero norm."""
    out = np.empty((3, 3, quat.shape[1]))
    kernels.rotations_from_quats(quat, out)
    return out


def vector_from_rotation(rot: Array) -> Array:
    """Axis-angle vectors (3, N), norm in [0, pi], of rotations (3, 3, N)."""
    out = np.empty((3, rot.shape[2]))
    kernels.vectors_from_rotations(rot, out)
    return out
