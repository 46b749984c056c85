"""The arm that a way is planned for: its joints in a model, its limits, and how it follows targets. No torch here."""

from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from mimicpipe.envs.mujoco import ik, kinematics
from mimicpipe.envs.mujoco.panda import ARM_JOINTS, JOINT_LOWER, JOINT_UPPER

Array = npt.NDArray[np.float64]

SPEED_LIMITS = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
"""Of the joints, rad/s (franka_ros, franka_description: robots/panda/joint_limits.yaml)."""
LEVERS = np.array([1.1, 1.1, 0.8, 0.75, 0.3, 0.3, 0.15])
"""How far the arm and what it holds can be from each joint's axis, metres (lengths of the Denavit-Hartenberg table): no
point of them moves further than sum(LEVERS * |dq|)."""
_LIMIT_MARGIN = 2e-3
"""Kept from the joint limits, radians; the env's own control keeps half of it."""
LOWER, UPPER = JOINT_LOWER + _LIMIT_MARGIN, JOINT_UPPER - _LIMIT_MARGIN
_MOST = np.array([0.05, 0.05, 0.05, 0.5, 0.5, 0.5])
"""What one action asks for at most, metres and radians (`envs.actions`)."""
_ARRIVED = 1e-3
"""Metres and radians. Far out, the pull to the rest posture keeps the arm 0.4 mm from where it is told to be."""
_ONE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Arm:
    """One arm of a scene."""

    prefix: str
    """Of its names in the model."""
    base: Array
    """(3, 4) pose in the slot's frame."""

    def columns(self, model: mujoco.MjModel) -> npt.NDArray[np.int64]:
        """(7,) of its joints in qpos."""
        return np.array([model.joint(self.prefix + name).qposadr[0] for name in ARM_JOINTS], dtype=np.int64)

    def hand(self, model: mujoco.MjModel) -> int:
        """Index of its grasp site."""
        return int(model.site(f"{self.prefix}panda_grasp").id)

    def link_of(self, model: mujoco.MjModel, body: int) -> int | None:
        """0 to 7 for a link, 8 for the hand and its fingers; None for a body that is not this arm's."""
        name, own = model.body(body).name, f"{self.prefix}panda_"
        if not name.startswith(own):
            return None
        return int(name[-1]) if name.startswith(f"{own}link") else 8

    def poses(self, joints: Array) -> Array:
        """(N, 4, 4) of the grasp point at joint positions (N, 7)."""
        pose = kinematics.forward(np.ascontiguousarray(joints.T), self.base)
        out = np.zeros((len(joints), 4, 4))
        out[:, :3, :3] = pose.rot.transpose(2, 0, 1)
        out[:, :3, 3] = pose.pos.T
        out[:, 3, 3] = 1.0
        return out

    def towards(self, joints: Array, target: Array) -> tuple[Array, Array]:
        """One control step to a target pose (4, 4), as the env takes it: joint positions (7,) asked for, and what was
        missing (6,) before it, metres and radians."""
        column = joints[:, None].copy()
        pose = kinematics.forward(column, self.base)
        missing = np.empty((6, 1))
        missing[:3, 0] = target[:3, 3] - pose.pos[:, 0]
        turn = _times_transposed(target[:3, :3], pose.rot[:, :, 0])
        missing[3:] = kinematics.vector_from_rotation(turn[:, :, None])
        asked = missing / max(1.0, float(np.max(np.abs(missing[:, 0]) / _MOST)))
        out = np.empty((1, 7))
        ik.joint_targets(column, _ONE, pose, asked, out)
        return out[0], missing[:, 0]

    def reach(self, joints: Array, target: Array, steps: int = 150) -> Array | None:
        """Joint positions (7,) at which the grasp point is at a pose (4, 4), within 1 mm and 1 mrad; None if control
        that begins at `joints` does not lead there."""
        for _ in range(steps):
            following, missing = self.towards(joints, target)
            if float(np.max(np.abs(missing))) < _ARRIVED:
                return joints
            joints = following
        return None

    def follow(self, joints: Array, targets: Array) -> Array:
        """(T, 7) joint positions of an arm that takes target poses (T, 4, 4), one a step, without lag."""
        out = np.empty((len(targets), 7))
        for step, target in enumerate(targets):
            joints, _ = self.towards(joints, target)
            out[step] = joints
        return out


def moved_at_most(a: Array, b: Array) -> float:
    """Metres that no point of the arm moves further than from joint positions a to b, on the straight way."""
    return float((LEVERS * np.abs(b - a)).sum())


def _times_transposed(a: Array, b: Array) -> Array:
    """a @ b.T of two rotations, as sums of elementwise terms."""
    return a[:, None, 0] * b[None, :, 0] + a[:, None, 1] * b[None, :, 1] + a[:, None, 2] * b[None, :, 2]
