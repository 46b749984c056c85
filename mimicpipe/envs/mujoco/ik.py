"""Batched damped-least-squares inverse kinematics of the Panda, one step per control step.

Method: dq = J^T (J J^T + lambda^2 I)^-1 e (Wampler, "Manipulator inverse kinematic solutions based on vector
formulations and damped least-squares methods", IEEE Trans. SMC 16(1), 1986; Nakamura and Hanafusa, J. Dyn. Sys. Meas.
Control 108(3), 1986), with a pull to a rest posture in the null space (Liegeois, IEEE Trans. SMC 7(12), 1977). The 6x6
systems are eliminated elementwise over the batch, so that results do not depend on batch size or position.
"""

import numpy as np
import numpy.typing as npt

from mimicpipe.envs.mujoco.kinematics import ArmPose, Array, jacobian
from mimicpipe.envs.mujoco.panda import JOINT_LOWER, JOINT_UPPER

REST_POSTURE = np.array([0.0, -0.0066, 0.0, -2.4436, 0.0, 2.4370, 0.7854])
"""Elbow up, gripper straight down 0.20 m above the table at x = 0.48 m; the null space is pulled to it, radians."""

_DAMPING_SQ = 1e-4
"""lambda^2 with lambda = 0.01, Isaac Lab's value; m^2 and rad^2 alike."""
_REST_GAIN = 0.1
"""Share of the distance to the rest posture taken per step, in the null space."""
_MAX_STEP = 0.35
"""Largest joint step, radians: beyond it the linearization is poor."""
_LIMIT_MARGIN = 1e-3
"""Distance kept from the joint limits, radians, so that the limit constraints of the model stay silent."""

_LOWER = (JOINT_LOWER + _LIMIT_MARGIN)[:, None]
_UPPER = (JOINT_UPPER - _LIMIT_MARGIN)[:, None]
_REST = REST_POSTURE[:, None]


def joint_targets(q: Array, pose: ArmPose, error: Array) -> Array:
    """Joint positions one DLS step towards a target.

    One step a control step is enough: the next one starts from the pose that was reached, so what the linearization
    leaves over (under 2.5 mm for the largest action) is corrected then.

    Args:
        q: (7, N) current joint positions, radians.
        pose: `forward(q)`.
        error: (6, N) from the current to the target pose: metres, rotation vector in the base's frame, radians.

    Returns:
        (7, N) joint positions within the limits.
    """
    jac = jacobian(pose)
    rest = _REST_GAIN * (_REST - q)
    target = q + _damped_step(jac, error, rest)
    beyond = (target < _LOWER) | (target > _UPPER)
    slots = np.flatnonzero(beyond.any(axis=0))
    if slots.size:
        target[:, slots] = _with_locked_joints(
            q[:, slots], jac[..., slots], error[:, slots], rest[:, slots], target[:, slots], beyond[:, slots]
        )
    return np.clip(target, _LOWER, _UPPER)


def _damped_step(jac: Array, error: Array, rest: Array) -> Array:
    """DLS step (7, N) for a task error (6, N), with a wish (7, N) for the null space; shortened to `_MAX_STEP`."""
    step = rest + _times_transposed(jac, _solve_damped(jac, error - _times(jac, rest)))
    return step * (_MAX_STEP / np.maximum(np.abs(step).max(axis=0), _MAX_STEP))


def _with_locked_joints(
    q: Array, jac: Array, error: Array, rest: Array, target: Array, beyond: npt.NDArray[np.bool_]
) -> Array:
    """The step again, for slots where joints would pass their limits: those stop there, the others do their work.

    One round of Flacco, De Luca and Khatib's saturation in the null space (IEEE Trans. Robotics 31(3), 2015).
    """
    stopped = np.where(beyond, np.clip(target, _LOWER, _UPPER) - q, 0.0)
    free = np.where(beyond, 0.0, 1.0)
    return q + stopped + _damped_step(jac * free, error - _times(jac, stopped), rest * free)


def _times(jac: Array, vec: Array) -> Array:
    """J v: (6, 7, N) (7, N) -> (6, N), terms in a fixed order."""
    out = jac[:, 0] * vec[0]
    for joint in range(1, 7):
        out += jac[:, joint] * vec[joint]
    return out


def _times_transposed(jac: Array, vec: Array) -> Array:
    """J^T v: (6, 7, N) (6, N) -> (7, N), terms in a fixed order."""
    out = jac[0] * vec[0]
    for row in range(1, 6):
        out += jac[row] * vec[row]
    return out


def _solve_damped(jac: Array, rhs: Array) -> Array:
    """(J J^T + lambda^2 I)^-1 rhs, (6, N). The matrix is positive definite, so elimination needs no pivoting."""
    system = np.empty((6, 7, rhs.shape[1]))
    matrix = system[:, :6]
    np.multiply(jac[:, None, 0], jac[None, :, 0], out=matrix)
    for joint in range(1, 7):
        matrix += jac[:, None, joint] * jac[None, :, joint]
    system.reshape(42, -1)[::8] += _DAMPING_SQ  # the diagonal
    system[:, 6] = rhs
    for k in range(5):
        factor = system[k + 1 :, k] / system[k, k]
        system[k + 1 :, k + 1 :] -= factor[:, None] * system[k, k + 1 :]
    out = system[:, 6]
    for k in range(5, -1, -1):
        out[k] /= system[k, k]
        if k:
            out[:k] -= system[:k, k] * out[k]
    return out
