"""Inverse kinematics of an arm as loops over slots; `ik` says what the arguments mean and where the method comes from.

The batch is the last axis of every array but where it says otherwise.
"""

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled

Array = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@compiled
def jacobian_of(i: int, pos: Array, axes: Array, origins: Array, jac: Array) -> None:
    """Fill in the Jacobian (6, 7) of one arm."""
    for joint in range(7):
        for k in range(3):
            a, b = (k + 1) % 3, (k + 2) % 3
            jac[k, joint] = axes[joint, a, i] * (pos[b, i] - origins[joint, b, i]) - axes[joint, b, i] * (
                pos[a, i] - origins[joint, a, i]
            )
            jac[3 + k, joint] = axes[joint, k, i]


@compiled
def jacobian(pos: Array, axes: Array, origins: Array, out: Array) -> None:
    """Fill in the Jacobians (6, 7, N)."""
    jac = np.empty((6, 7))
    for i in range(pos.shape[1]):
        jacobian_of(i, pos, axes, origins, jac)
        for r in range(6):
            for joint in range(7):
                out[r, joint, i] = jac[r, joint]


@compiled
def damped_step(jac: Array, error: Array, rest: Array, damping: float, most: float, step: Array, system: Array) -> None:
    """One arm's DLS step (7,) for a task error (6,), with a wish (7,) for the null space, at most `most` a joint.

    `system` (6, 7) is room for the equations; they are positive definite, so elimination needs no pivoting.
    """
    for r in range(6):
        for c in range(r, 6):
            total = jac[r, 0] * jac[c, 0]
            for joint in range(1, 7):
                total += jac[r, joint] * jac[c, joint]
            system[r, c] = system[c, r] = total
        system[r, r] += damping
        drift = jac[r, 0] * rest[0]
        for joint in range(1, 7):
            drift += jac[r, joint] * rest[joint]
        system[r, 6] = error[r] - drift
    for k in range(5):
        for r in range(k + 1, 6):
            factor = system[r, k] / system[k, k]
            for c in range(k + 1, 7):
                system[r, c] -= factor * system[k, c]
    for k in range(5, -1, -1):
        system[k, 6] /= system[k, k]
        for r in range(k):
            system[r, 6] -= system[r, k] * system[k, 6]
    longest = 0.0
    for joint in range(7):
        total = jac[0, joint] * system[0, 6]
        for r in range(1, 6):
            total += jac[r, joint] * system[r, 6]
        step[joint] = rest[joint] + total
        longest = max(longest, abs(step[joint]))
    if longest > most:
        for joint in range(7):
            step[joint] *= most / longest


@compiled
def joint_targets(
    q: Array, slots: Ints, pos: Array, axes: Array, origins: Array, error: Array, rest_posture: Array, lower: Array,
    upper: Array, rest_gain: float, damping: float, most: float, first: int, out: Array,
) -> None:  # fmt: skip
    """Fill in slots' joint positions one DLS step towards a target, within the limits; error (6, K).

    They are columns `first` to `first + 6` of `out` (K, ...).
    """
    jac, system = np.empty((6, 7)), np.empty((6, 7))
    rest, step, left, stopped = np.empty(7), np.empty(7), np.empty(6), np.empty(7)
    for i in range(len(slots)):
        slot = slots[i]
        jacobian_of(slot, pos, axes, origins, jac)
        for r in range(6):
            left[r] = error[r, i]
        for joint in range(7):
            rest[joint] = rest_gain * (rest_posture[joint] - q[joint, slot])
        damped_step(jac, left, rest, damping, most, step, system)
        beyond = False
        for joint in range(7):
            target = q[joint, slot] + step[joint]
            stopped[joint] = 0.0
            if target < lower[joint] or target > upper[joint]:
                beyond = True
                stopped[joint] = min(max(target, lower[joint]), upper[joint]) - q[joint, slot]
                rest[joint] = 0.0
                # The joint's column still tells what its way to the limit does for the task.
                for r in range(6):
                    left[r] -= jac[r, joint] * stopped[joint]
                    jac[r, joint] = 0.0
        if beyond:
            damped_step(jac, left, rest, damping, most, step, system)
        for joint in range(7):
            target = q[joint, slot] + stopped[joint] + step[joint]
            out[i, first + joint] = min(max(target, lower[joint]), upper[joint])


@compiled
def finish_servos(gripper: Singles, max_finger: float, first: int, out: Array) -> int:
    """Fill in the fingers' targets, and count the rows that are not finite.

    Args:
        gripper: (K,) commands; negative closes.
        max_finger: position of an open finger, metres.
        first: column of the arm's first joint in `out`; the fingers come after seven.
        out: (K, ...) with the joints' targets.
    """
    wrong = 0
    for i in range(len(gripper)):
        out[i, first + 7] = 0.0 if gripper[i] < 0.0 else max_finger
        total = np.float64(gripper[i])
        for joint in range(7):
            total += out[i, first + joint]
        if not np.isfinite(total):
            wrong += 1
    return wrong
