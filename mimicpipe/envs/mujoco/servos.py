"""From actions to what the servos hold for a control step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.mujoco import ik, ik_kernels
from mimicpipe.envs.mujoco.actions import Actions, asked_motion
from mimicpipe.envs.mujoco.arms import SERVOS, Arm
from mimicpipe.envs.mujoco.kernels import Ints
from mimicpipe.envs.mujoco.kinematics import ArmPose, Array
from mimicpipe.envs.mujoco.panda import MAX_FINGER

DIVERGED = 1e8
"""No position, velocity or time of a sane simulation comes near this."""


@dataclass(slots=True)
class Posture:
    """Where the arms are in N states."""

    joints: list[Array]
    """(7, N) radians of each arm."""
    poses: list[ArmPose]
    """Of each arm."""

    def select(self, rows: Ints) -> "Posture":
        """That of some of the states."""
        return Posture([q[:, rows] for q in self.joints], [pose.select(rows) for pose in self.poses])


def posture_of(arms: Sequence[Arm], state: Array) -> Posture:
    """The arms in states (N, S)."""
    joints = [arm.joint_positions(state) for arm in arms]
    return Posture(joints, [arm.pose(q) for arm, q in zip(arms, joints, strict=True)])


def sane(state: Array) -> npt.NDArray[np.bool_]:
    """(N,) whether a state (N, S) has no NaN and no diverged number."""
    with np.errstate(invalid="ignore"):
        return np.abs(state).max(axis=1) < DIVERGED


def controls_of(
    control: str, arms: Sequence[Arm], wanted: Actions, state: Array, fixtures: Array, posture: Posture, rows: Ints,
    slots: Ints,
) -> Array:  # fmt: skip
    """Servo targets (K, nu) of one control step, and fixtures (K, 7 F); a state that has diverged has zeros.

    Args:
        control: "ik_rel" or "ik_abs".
        arms: of the scene.
        wanted: actions (K, A).
        state: (K, S) to start from.
        fixtures: (K, 7 F).
        posture: where the arms are in states of which these are `rows` (K,).
        slots: (K,) whose they are.

    Raises:
        ValueError: an action asks for no finite motion of a state that has not diverged.
    """
    servos = SERVOS * len(arms)
    controls = np.empty((len(rows), servos + fixtures.shape[1]))
    controls[:, servos:] = fixtures
    wrong = 0
    for index, (arm, joints, pose) in enumerate(zip(arms, posture.joints, posture.poses, strict=True)):
        motion = asked_motion(control, wanted[:, arm.action], rows, pose)
        ik.joint_targets(joints, rows, pose, motion, controls, SERVOS * index)
        # An action that is not finite makes the joints' targets so; the gripper's command is looked at by itself.
        wrong += ik_kernels.finish_servos(wanted[:, arm.gripper], MAX_FINGER, SERVOS * index, controls)
    if wrong:
        finite = np.isfinite(controls[:, :servos].sum(axis=1) + wanted[:, [arm.gripper for arm in arms]].sum(1))
        refused = slots[~finite & sane(state)]
        if len(refused):
            raise ValueError(f"the action of slot {', '.join(map(str, refused))} asks for no finite motion")
        controls[~finite, :servos] = 0.0
    return controls
