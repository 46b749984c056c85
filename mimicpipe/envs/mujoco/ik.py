"""Batched damped-least-squares inverse kinematics of the Panda, one step per control step.

Method: dq = J^T (J J^T + lambda^2 I)^-1 e (Wampler, "Manipulator inverse kinematic solutions based on vector
formulations and damped least-squares methods", IEEE Trans. SMC 16(1), 1986; Nakamura and Hanafusa, J. Dyn. Sys. Meas.
Control 108(3), 1986), with a pull to a rest posture in the null space (Liegeois, IEEE Trans. SMC 7(12), 1977). Joints
that would pass their limits stop there and the others do their work: one round of Flacco, De Luca and Khatib's
saturation in the null space (IEEE Trans. Robotics 31(3), 2015).
"""

import numpy as np

from mimicpipe.envs.mujoco import ik_kernels
from mimicpipe.envs.mujoco.ik_kernels import Ints
from mimicpipe.envs.mujoco.kinematics import ArmPose, Array
from mimicpipe.envs.mujoco.panda import JOINT_LOWER, JOINT_UPPER

REST_POSTURE = np.array([0.0, -0.0066, 0.0, -2.4436, 0.0, 2.4370, 0.7854])
"""Elbow up, gripper straight down 0.20 m above the table at x = 0.48 m; the null space is pulled to it, radians."""

DAMPING_SQ = 1e-4
"""lambda^2 with lambda = 0.01, Isaac Lab's value; m^2 and rad^2 alike."""
REST_GAIN = 0.1
"""Share of the distance to the rest posture taken per step, in the null space."""
MAX_STEP = 0.35
"""Largest joint step, radians: beyond it the linearization is poor."""
_LIMIT_MARGIN = 1e-3
"""Distance kept from the joint limits, radians, so that the limit constraints of the model stay silent."""

LOWER = JOINT_LOWER + _LIMIT_MARGIN
UPPER = JOINT_UPPER - _LIMIT_MARGIN
"""(7,) of a joint target, radians."""


def joint_targets(q: Array, slots: Ints, pose: ArmPose, error: Array, out: Array, first: int = 0) -> None:
    """Joint positions one DLS step towards a target.

    One step a control step is enough: the next one starts from the pose that was reached, so what the linearization
    leaves over (under 2.5 mm for the largest action) is corrected then.

    Args:
        q: (7, N) current joint positions, radians.
        slots: (K,) of which.
        pose: `forward(q)`.
        error: (6, K) from the current to the target pose: metres, rotation vector in the slot's frame, radians.
        out: (K, at least first + 7); seven columns become joint positions within the limits.
        first: the first of them.
    """
    ik_kernels.joint_targets(
        q, slots, pose.pos, pose.axes, pose.origins, error,
        REST_POSTURE, LOWER, UPPER, REST_GAIN, DAMPING_SQ, MAX_STEP, first, out,
    )  # fmt: skip
