"""Batched damped-least-squares inverse kinematics of the Panda, a fixed number of steps per call.

Method: dq = J^T (J J^T + lambda^2 I)^-1 e (Wampler, "Manipulator inverse kinematic solutions based on vector formulations
and damped least-squares methods", IEEE Trans. SMC 16(1), 1986; Nakamura and Hanafusa, J. Dyn. Sys. Meas. Control 108(3),
1986), with a pull to a rest posture in the null space (Liegeois, IEEE Trans. SMC 7(12), 1977). The 6x6 systems are
eliminated elementwise over the batch, so that results do not depend on batch size or position.
"""

import numpy as np

from mimicpipe.envs.mujoco.kinematics import Array, ArmPose, compose_rotations, forward, jacobian
from mimicpipe.envs.mujoco.panda import JOINT_LOWER, JOINT_UPPER

REST_POSTURE = np.array([0.0, 0.196, 0.0, -2.419, 0.0, 2.615, 0.785])
"""Elbow up, gripper down over the table; the null space is pulled to it, radians."""

_DAMPING_SQ = 1e-4
"""lambda^2 with lambda = 0.01, Isaac Lab's value; m^2 and rad^2 alike."""
_REST_GAIN = 0.1
"""Share of the distance to the rest posture taken per iteration, in the null space."""
_MAX_STEP = 0.35
"""Largest joint step per iteration, radians: beyond it the linearization is poor."""
_LIMIT_MARGIN = 1e-3
"""Distance kept from the joint limits, radians, so that the limit constraints of the model stay silent."""

_LOWER = (JOINT_LOWER + _LIMIT_MARGIN)[:, None]
_UPPER = (JOINT_UPPER - _LIMIT_MARGIN)[:, None]
_REST = REST_POSTURE[:, None]


def solve(q: Array, pose: ArmPose, target_pos: Array, target_rot: Array, error: Array, iterations: int) -> Array:
    """Joint positions whose grasp frame approaches a target.

    Args:
        q: (7, N) current joint positions, radians.
        pose: `forward(q)`.
        target_pos: (3, N) metres, base frame.
        target_rot: (3, 3, N).
        error: (6, N) first step's error: position, rotation vector from the current to the target frame.
        iterations: DLS steps; the joint limits hold after each.

    Returns:
        (7, N) joint positions within the limits.
    """
    solution = _step(q, jacobian(pose), error)
    for _ in range(iterations - 1):
        pose = forward(solution)
        solution = _step(solution, jacobian(pose), pose_error(pose, target_pos, target_rot))
    return solution


def pose_error(pose: ArmPose, target_pos: Array, target_rot: Array) -> Array:
    """Error (6, N) from a pose to a target: position; rotation as sin(angle) times its axis, good for small angles."""
    error = np.empty((6, target_pos.shape[1]))
    error[:3] = target_pos - pose.pos
    # Half the sum of the cross products of matching axes (Luh, Walker and Paul, IEEE Trans. AC 25(3), 1980).
    relative = compose_rotations(target_rot, pose.rot.transpose(1, 0, 2))
    error[3] = 0.5 * (relative[2, 1] - relative[1, 2])
    error[4] = 0.5 * (relative[0, 2] - relative[2, 0])
    error[5] = 0.5 * (relative[1, 0] - relative[0, 1])
    return error


def _step(q: Array, jac: Array, error: Array) -> Array:
    """One DLS step from q (7, N), clipped to the joint limits."""
    # Joints at a limit that the rest posture or the task pushes outwards are handled by the clip and the next call.
    rest = _REST_GAIN * (_REST - q)
    residual = error - _times(jac, rest)
    step = rest + _times_transposed(jac, _solve_damped(jac, residual))
    largest = np.maximum(np.abs(step).max(axis=0), _MAX_STEP)
    return np.clip(q + step * (_MAX_STEP / largest), _LOWER, _UPPER)


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
    for row in range(6):
        matrix[row, row] += _DAMPING_SQ
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
