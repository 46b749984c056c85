"""The kinematic env's step and its actions as compiled loops over slots, for the CPU.

The same mathematics as `mimicpipe.envs.kinematic_ops`, which runs on any device; a test holds the two together. Numbers
are read and written as float32 and computed as float64. A rotation is read as (3, 3), a quaternion is wxyz.
"""

import math

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


# -- rotations ---------------------------------------------------------------------------------------------------------


@compiled
def turn_of_vector(x: float, y: float, z: float, out: Doubles) -> None:
    """Rotation (3, 3) by an axis-angle vector, radians, by Rodrigues' formula."""
    angle = max(math.sqrt(x * x + y * y + z * z), 1e-18)
    x, y, z = x / angle, y / angle, z / angle
    sin, cos = math.sin(angle), math.cos(angle)
    rest = 1.0 - cos
    out[0, 0], out[0, 1], out[0, 2] = cos + rest * x * x, rest * x * y - sin * z, rest * x * z + sin * y
    out[1, 0], out[1, 1], out[1, 2] = rest * x * y + sin * z, cos + rest * y * y, rest * y * z - sin * x
    out[2, 0], out[2, 1], out[2, 2] = rest * x * z - sin * y, rest * y * z + sin * x, cos + rest * z * z


@compiled
def vector_of_quat(w: float, x: float, y: float, z: float, out: Doubles) -> None:
    """Axis-angle vector (3,), norm in [0, pi], of a quaternion of any non-zero norm and either sign."""
    sine = max(math.sqrt(x * x + y * y + z * z), 1e-18)
    scale = 2.0 * math.atan(sine / w) / sine if w != 0.0 else math.pi / sine
    out[0], out[1], out[2] = scale * x, scale * y, scale * z


@compiled
def vector_of_turn(r: Doubles, out: Doubles) -> None:
    """Axis-angle vector (3,) of a rotation, over an unscaled quaternion (Shepperd 1978) with a large pivot."""
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    a, b, c = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    d, e, f = r[1, 0] + r[0, 1], r[0, 2] + r[2, 0], r[2, 1] + r[1, 2]
    if trace > 0.0:
        vector_of_quat(1.0 + trace, a, b, c, out)
    elif r[0, 0] >= max(r[1, 1], r[2, 2]):
        vector_of_quat(a, 1.0 + 2.0 * r[0, 0] - trace, d, e, out)
    elif r[1, 1] >= r[2, 2]:
        vector_of_quat(b, d, 1.0 + 2.0 * r[1, 1] - trace, f, out)
    else:
        vector_of_quat(c, e, f, 1.0 + 2.0 * r[2, 2] - trace, out)


# -- actions -----------------------------------------------------------------------------------------------------------


@compiled
def relative_actions(
    state: Singles, slots: Ints, targets: Singles, grippers: Singles, noise: Singles, scale: Doubles, out: Singles
) -> None:
    """Fill in relative actions (K, 7) from slots' eef poses to targets (K, 4, 4).

    Args:
        state: (N, C), see `KinematicState`; the eef's pose comes first.
        slots: (K,).
        targets, grippers: (K, 4, 4), (K, 1).
        noise: (K, 6) in action units, or (K, 0) for none.
        scale: (6,) metres or radians per action unit.
        out: (K, 7).
    """
    turn, motion = np.empty((3, 3)), np.empty(6)
    noisy = noise.shape[1] > 0
    for i in range(len(slots)):
        slot = slots[i]
        for r in range(3):
            motion[r] = np.float64(targets[i, r, 3]) - state[slot, 4 * r + 3]
            for c in range(3):
                turn[r, c] = (
                    np.float64(targets[i, r, 0]) * state[slot, 4 * c]
                    + np.float64(targets[i, r, 1]) * state[slot, 4 * c + 1]
                    + np.float64(targets[i, r, 2]) * state[slot, 4 * c + 2]
                )
        vector_of_turn(turn, motion[3:])
        for k in range(6):
            value = motion[k] / scale[k]
            if noisy:
                value += noise[i, k]
            out[i, k] = min(max(value, -1.0), 1.0)
        out[i, 6] = min(max(grippers[i, 0], np.float32(-1.0)), np.float32(1.0))


@compiled
def asked_motion(relative: bool, state: Singles, slot: int, action: Singles, scale: Doubles, out: Doubles) -> None:
    """Pose change (6,), metres and axis-angle, from a slot's eef pose to what its action (A,) asks for."""
    if relative:
        for k in range(6):
            out[k] = min(max(np.float64(action[k]), -1.0), 1.0) * scale[k]
        return
    target, turn = np.empty((3, 3)), np.empty((3, 3))
    vector_of_quat(action[3], action[4], action[5], action[6], out[3:])
    turn_of_vector(out[3], out[4], out[5], target)
    for r in range(3):
        out[r] = np.float64(action[r]) - state[slot, 4 * r + 3]
        for c in range(3):
            turn[r, c] = (
                target[r, 0] * state[slot, 4 * c]
                + target[r, 1] * state[slot, 4 * c + 1]
                + target[r, 2] * state[slot, 4 * c + 2]
            )
    vector_of_turn(turn, out[3:])


# -- the step ----------------------------------------------------------------------------------------------------------


@compiled
def move_body(state: Singles, first: int, slot: int, turn: Doubles, pivot: Doubles, target: Doubles) -> None:
    """Turn the pose in rows `first`... of a slot about `pivot` (3,), which goes to `target` (3,)."""
    for c in range(4):
        x, y, z = np.float64(state[slot, first + c]), np.float64(state[slot, first + 4 + c]), np.float64(
            state[slot, first + 8 + c]
        )  # fmt: skip
        if c == 3:
            x, y, z = x - pivot[0], y - pivot[1], z - pivot[2]
        for r in range(3):
            moved = turn[r, 0] * x + turn[r, 1] * y + turn[r, 2] * z
            state[slot, first + 4 * r + c] = moved + target[r] if c == 3 else moved


@compiled
def is_between(state: Singles, first: int, slot: int, half_size: Doubles, margin: float) -> bool:
    """Whether the slot's grasp point lies in the box whose pose begins at row `first`, or within a margin of it."""
    for c in range(3):
        along = 0.0
        for r in range(3):
            offset = np.float64(state[slot, 4 * r + 3]) - state[slot, first + 4 * r + 3]
            along += offset * state[slot, first + 4 * r + c]
        if not abs(along) <= half_size[c] + margin:
            return False
    return True


@compiled
def outline(state: Singles, first: int, slot: int, half_size: Doubles, out: Doubles) -> None:
    """Half sides (3,) of the axis-aligned outline of a box."""
    for r in range(3):
        out[r] = 0.0
        for c in range(3):
            out[r] += abs(np.float64(state[slot, first + 4 * r + c])) * half_size[c]


@compiled
def settle_boxes(state: Singles, slot: int, half_sizes: Doubles, extents: Doubles, heights: Doubles) -> None:
    """Let every box of a slot that is not held fall on what bears it; `extents` (M, 3) and `heights` (M,) are room."""
    count = len(half_sizes)
    held = 16 * (count + 1) + 1
    for m in range(count):
        outline(state, 16 * (m + 1), slot, half_sizes[m], extents[m])
        heights[m] = state[slot, 16 * (m + 1) + 11]
    for m in range(count):
        if state[slot, held + m] != 0.0:
            continue
        first, top = 16 * (m + 1), 0.0
        for other in range(count):
            below = 16 * (other + 1)
            x = np.float64(state[slot, first + 3]) - state[slot, below + 3]
            y = np.float64(state[slot, first + 7]) - state[slot, below + 7]
            if abs(x) <= extents[other, 0] and abs(y) <= extents[other, 1] and heights[m] > heights[other]:
                top = max(top, heights[other] + extents[other, 2])
        state[slot, first + 11] = extents[m, 2] + top


@compiled
def step(
    before: Singles, after: Singles, slots: Ints, actions: Singles, relative: bool, scale: Doubles, gain: float,
    half_sizes: Doubles, margin: float, max_width: float, gripper_gain: float, rate: float,
) -> None:  # fmt: skip
    """Fill in `after` (N, C) the states `before` of slots one control step later; other slots are left alone.

    Args:
        before, after: see `KinematicState`.
        slots: (K,).
        actions: (N, A).
        relative: ik_rel, else ik_abs.
        scale: (6,) metres or radians per unit of a relative action.
        gain: part of the way that the eef goes.
        half_sizes: (M, 3) of the boxes, metres.
        margin: how far outside a box the grasp point may lie when the fingers close on it, metres.
        max_width: of the open gripper, metres.
        gripper_gain: part of the way to open or closed that the fingers go.
        rate: control steps a second.
    """
    count = len(half_sizes)
    width_row, held, speed = 16 * (count + 1), 16 * (count + 1) + 1, 16 * (count + 1) + 1 + count
    motion, turn, pivot, target = np.empty(6), np.empty((3, 3)), np.empty(3), np.empty(3)
    extents, heights, here = np.empty((count, 3)), np.empty(count), np.empty((count, 3))
    for i in range(len(slots)):
        slot = slots[i]
        for row in range(before.shape[1]):
            after[slot, row] = before[slot, row]
        action = actions[slot]
        closing = action[len(action) - 1] < 0.0
        asked_motion(relative, after, slot, action, scale, motion)
        turn_of_vector(gain * motion[3], gain * motion[4], gain * motion[5], turn)
        for r in range(3):
            pivot[r] = after[slot, 4 * r + 3]
            target[r] = pivot[r] + gain * motion[r]
        for m in range(count):
            for r in range(3):
                here[m, r] = after[slot, 16 * (m + 1) + 4 * r + 3]
            if not closing:
                after[slot, held + m] = 0.0
            if after[slot, held + m] != 0.0:
                move_body(after, 16 * (m + 1), slot, turn, pivot, target)
        move_body(after, 0, slot, turn, pivot, target)

        # A box is taken in the step in which the fingers reach its width with the grasp point inside it.
        open_before = np.float64(after[slot, width_row])
        width = open_before * (1.0 - gripper_gain) + (0.0 if closing else max_width * gripper_gain)
        narrowest = width
        for m in range(count):
            box = 2.0 * min(half_sizes[m, 0], half_sizes[m, 1])
            if open_before > box and width <= box and is_between(after, 16 * (m + 1), slot, half_sizes[m], margin):
                after[slot, held + m] = 1.0
            if after[slot, held + m] != 0.0:
                narrowest = max(narrowest, box)
        after[slot, width_row] = narrowest

        settle_boxes(after, slot, half_sizes, extents, heights)
        for m in range(count):
            square = 0.0
            for r in range(3):
                way = np.float64(after[slot, 16 * (m + 1) + 4 * r + 3]) - here[m, r]
                square += way * way
            after[slot, speed + m] = math.sqrt(square) * rate


@compiled
def carry_over(before: Singles, after: Singles, moved: npt.NDArray[np.bool_]) -> None:
    """Copy the states (N, C) of the slots that have not `moved` (N,)."""
    for slot in range(len(moved)):
        if not moved[slot]:
            for row in range(before.shape[1]):
                after[slot, row] = before[slot, row]


# -- several steps -----------------------------------------------------------------------------------------------------


@compiled
def play(
    states: Singles, sizes: Ints, targets: Singles, grippers: Singles, noise: Singles, actions: Singles, scale: Doubles,
    gain: float, half_sizes: Doubles, margin: float, max_width: float, gripper_gain: float, rate: float,
) -> None:  # fmt: skip
    """Several control steps with relative actions towards a target each; the states and the actions are filled in.

    Args:
        states: (K + R, C): those to start from, which are given, and those after each step.
        sizes: (T,) rows of each step, not increasing; the first is K, they are R together.
        targets, grippers, noise: (R, 4, 4), (R, 1), and (R, 6) or (R, 0), as `relative_actions` has them.
        actions: (R, 7).
        scale, gain, half_sizes, margin, max_width, gripper_gain, rate: as of `step`.
    """
    slots = np.arange(sizes[0])
    before, after, row = 0, sizes[0], 0
    for m in range(len(sizes)):
        size = sizes[m]
        rows = slots[:size]
        here, there, wanted = states[before : before + size], states[after : after + size], actions[row : row + size]
        relative_actions(
            here, rows, targets[row : row + size], grippers[row : row + size], noise[row : row + size], scale, wanted
        )
        step(here, there, rows, wanted, True, scale, gain, half_sizes, margin, max_width, gripper_gain, rate)
        before, after, row = after, after + size, row + size
