"""The MuJoCo env's inner loops over slots: kinematics, rotations, actions, and what is seen; `ik_kernels` has the rest.

The batch is the last axis of every array. `kinematics` and `actions` say what the arguments mean and where the methods
come from; these are their bodies. Elements are copied one by one: a slice costs nothing when it runs, but half
a second when it is compiled.
"""

import math

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled

Array = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@compiled
def forward(
    q: Array, base: Array, dh_a: Array, dh_d: Array, twist: Array, yaw: float, offset: float,
    rot: Array, pos: Array, axes: Array, origins: Array,
) -> None:  # fmt: skip
    """Fill in the arms' poses from joint positions q (7, N); base (3, 4) is where they stand."""
    cos_yaw, sin_yaw = math.cos(yaw), math.sin(yaw)
    x, y, z, p, t = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for i in range(q.shape[1]):
        for k in range(3):
            x[k], y[k], z[k], p[k] = base[k, 0], base[k, 1], base[k, 2], base[k, 3]
        for joint in range(7):
            for k in range(3):
                p[k] += dh_a[joint] * x[k]
                # A quarter turn about x maps (y, z) to (z, -y) or (-z, y).
                if twist[joint] > 0.0:
                    y[k], z[k] = z[k], -y[k]
                elif twist[joint] < 0.0:
                    y[k], z[k] = -z[k], y[k]
                p[k] += dh_d[joint] * z[k]
                axes[joint, k, i] = z[k]
                origins[joint, k, i] = p[k]
            c, s = math.cos(q[joint, i]), math.sin(q[joint, i])
            for k in range(3):
                t[k] = c * x[k] + s * y[k]
                y[k] = c * y[k] - s * x[k]
                x[k] = t[k]
        for k in range(3):
            rot[k, 0, i] = cos_yaw * x[k] + sin_yaw * y[k]
            rot[k, 1, i] = cos_yaw * y[k] - sin_yaw * x[k]
            rot[k, 2, i] = z[k]
            pos[k, i] = p[k] + offset * z[k]


# -- rotations ---------------------------------------------------------------------------------------------------------


@compiled
def rotation_from_vector_of(vec: Array, out: Array) -> None:
    """Rotation (3, 3) by an axis-angle vector (3,)."""
    x, y, z = vec
    angle = math.sqrt(x * x + y * y + z * z)
    a, b = 1.0, 0.5
    if angle >= 1e-7:
        half = math.sin(0.5 * angle) / angle
        a, b = math.sin(angle) / angle, 2.0 * half * half
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y
    out[1, 0], out[1, 1], out[1, 2] = b * x * y + a * z, 1.0 - b * (x * x + z * z), b * y * z - a * x
    out[2, 0], out[2, 1], out[2, 2] = b * x * z - a * y, b * y * z + a * x, 1.0 - b * (x * x + y * y)


@compiled
def rotation_from_quat_of(quat: Array, out: Array) -> None:
    """Rotation (3, 3) of a wxyz quaternion (4,) of any non-zero norm."""
    w, x, y, z = quat
    scale = 2.0 / (w * w + x * x + y * y + z * z)
    sx, sy, sz = scale * x, scale * y, scale * z
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - (sy * y + sz * z), sx * y - sz * w, sx * z + sy * w
    out[1, 0], out[1, 1], out[1, 2] = sx * y + sz * w, 1.0 - (sx * x + sz * z), sy * z - sx * w
    out[2, 0], out[2, 1], out[2, 2] = sx * z - sy * w, sy * z + sx * w, 1.0 - (sx * x + sy * y)


@compiled
def quat_from_rotation_of(rot: Array, quat: Array) -> None:
    """Unit wxyz quaternion (4,), w >= 0, of a rotation (3, 3)."""
    trace = rot[0, 0] + rot[1, 1] + rot[2, 2]
    a, b, c = rot[2, 1] - rot[1, 2], rot[0, 2] - rot[2, 0], rot[1, 0] - rot[0, 1]
    d, e, f = rot[1, 0] + rot[0, 1], rot[0, 2] + rot[2, 0], rot[2, 1] + rot[1, 2]
    best = max(trace, rot[0, 0], rot[1, 1], rot[2, 2])
    if best == trace:
        quat[0], quat[1], quat[2], quat[3] = 1.0 + trace, a, b, c
    elif best == rot[0, 0]:
        quat[0], quat[1], quat[2], quat[3] = a, 1.0 + 2.0 * rot[0, 0] - trace, d, e
    elif best == rot[1, 1]:
        quat[0], quat[1], quat[2], quat[3] = b, d, 1.0 + 2.0 * rot[1, 1] - trace, f
    else:
        quat[0], quat[1], quat[2], quat[3] = c, e, f, 1.0 + 2.0 * rot[2, 2] - trace
    norm = math.sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3])
    if quat[0] < 0.0:
        norm = -norm
    for k in range(4):
        quat[k] /= norm


@compiled
def vector_from_rotation_of(rot: Array, out: Array) -> None:
    """Axis-angle vector (3,), norm in [0, pi], of a rotation (3, 3)."""
    x, y, z = rot[2, 1] - rot[1, 2], rot[0, 2] - rot[2, 0], rot[1, 0] - rot[0, 1]
    # The skew part is 2 sin(angle) times the axis, the trace 1 + 2 cos(angle).
    sin2 = math.sqrt(x * x + y * y + z * z)
    cos2 = rot[0, 0] + rot[1, 1] + rot[2, 2] - 1.0
    scale = 0.5 if sin2 < 1e-12 else math.atan2(sin2, cos2) / sin2
    if cos2 < -1.9:
        # Towards half a turn the skew part loses the axis; there the quaternion is well conditioned.
        quat = np.empty(4)
        quat_from_rotation_of(rot, quat)
        x, y, z = quat[1], quat[2], quat[3]
        sin_half = math.sqrt(x * x + y * y + z * z)
        scale = 2.0 * math.atan2(sin_half, quat[0]) / sin_half
    out[0], out[1], out[2] = scale * x, scale * y, scale * z


@compiled
def rotations_from_vectors(vec: Array, out: Array) -> None:
    """`rotation_from_vector_of` each of (3, N)."""
    for i in range(vec.shape[1]):
        rotation_from_vector_of(vec[:, i], out[:, :, i])


@compiled
def rotations_from_quats(quat: Array, out: Array) -> None:
    """`rotation_from_quat_of` each of (4, N)."""
    for i in range(quat.shape[1]):
        rotation_from_quat_of(quat[:, i], out[:, :, i])


@compiled
def quats_from_rotations(rot: Array, out: Array) -> None:
    """`quat_from_rotation_of` each of (3, 3, N)."""
    for i in range(rot.shape[2]):
        quat_from_rotation_of(rot[:, :, i], out[:, i])


@compiled
def vectors_from_rotations(rot: Array, out: Array) -> None:
    """`vector_from_rotation_of` each of (3, 3, N)."""
    for i in range(rot.shape[2]):
        vector_from_rotation_of(rot[:, :, i], out[:, i])


@compiled
def relative_motions(target: npt.NDArray[np.floating], slots: Ints, pos: Array, rot: Array, out: Array) -> None:
    """Fill in the motions (6, K) from slots' poses to target poses (K, 4, 4)."""
    turn = np.empty((3, 3))
    for i in range(len(slots)):
        slot = slots[i]
        for r in range(3):
            out[r, i] = target[i, r, 3] - pos[r, slot]
            for c in range(3):
                total = target[i, r, 0] * rot[c, 0, slot]
                for k in range(1, 3):
                    total += target[i, r, k] * rot[c, k, slot]
                turn[r, c] = total
        vector_from_rotation_of(turn, out[3:, i])


@compiled
def scaled_motions(actions: Singles, scale: Array, out: Array) -> None:
    """Fill in the motions (6, K) that relative actions (K, >= 6) ask for."""
    for i in range(len(actions)):
        for k in range(6):
            value = np.float64(actions[i, k])
            if value > 1.0:
                value = 1.0
            elif value < -1.0:
                value = -1.0
            out[k, i] = value * scale[k]


@compiled
def as_actions(motion: Array, scale: Array, noise: Singles, gripper: Singles, out: Singles) -> None:
    """Fill in relative actions (K, 7) from motions (6, K); noise (K, 6), or (K, 0) for none; gripper (K, 1).

    A motion longer than one action is shortened as a whole, position and rotation together.
    """
    noisy = noise.shape[1] > 0
    for i in range(motion.shape[1]):
        longest = 1.0
        for k in range(6):
            longest = max(longest, abs(motion[k, i] / scale[k]))
        for k in range(6):
            value = motion[k, i] / scale[k] / longest
            if noisy:
                value += noise[i, k]
            out[i, k] = min(max(value, -1.0), 1.0)
        out[i, 6] = gripper[i, 0]


# -- what is seen ------------------------------------------------------------------------------------------------------


@compiled
def quat_product(a: Array, b: Array, out: Array) -> None:
    """Hamilton product (4,) of wxyz quaternions."""
    out[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]
    out[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2]
    out[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1]
    out[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]


@compiled
def place_bodies(
    state: Array, fixtures: Array, object_columns: Ints, owner: Ints, hinge: Bools, geometry: Array,
    joint_columns: Ints, out: Array,
) -> None:  # fmt: skip
    """Fill in rows (N, 7 B) of positions and quaternions: objects, fixtures, parts.

    Fixtures (N, 7 F) are positions, then quaternions; a part has an owner, and geometry (3, 3): its origin, axis and
    anchor, as in `PartSpec`.
    """
    turn, joint_turn, joint_quat, moved = np.empty((3, 3)), np.empty((3, 3)), np.empty(4), np.empty(3)
    objects, count = object_columns.shape[0], fixtures.shape[1] // 7
    for i in range(state.shape[0]):
        for m in range(objects):
            for k in range(7):
                out[i, 7 * m + k] = state[i, object_columns[m, k]]
        for f in range(count):
            first = 7 * (objects + f)
            for k in range(3):
                out[i, first + k] = fixtures[i, 3 * f + k]
            for k in range(4):
                out[i, first + 3 + k] = fixtures[i, 3 * count + 4 * f + k]
        for p in range(len(owner)):
            base, first, at = 7 * (objects + owner[p]), 7 * (objects + count + p), state[i, joint_columns[p]]
            for k in range(4):
                joint_quat[k] = 1.0 if k == 0 else 0.0
            for k in range(3):
                moved[k] = geometry[p, 0, k] + (0.0 if hinge[p] else at * geometry[p, 1, k])
            if hinge[p]:
                half = math.sin(0.5 * at)
                joint_quat[0] = math.cos(0.5 * at)
                for k in range(3):
                    joint_quat[1 + k] = half * geometry[p, 1, k]
                rotation_from_quat_of(joint_quat, joint_turn)
                for r in range(3):
                    moved[r] += geometry[p, 2, r]
                    for c in range(3):
                        moved[r] -= joint_turn[r, c] * geometry[p, 2, c]
            rotation_from_quat_of(out[i, base + 3 : base + 7], turn)
            for r in range(3):
                out[i, first + r] = out[i, base + r]
                for c in range(3):
                    out[i, first + r] += turn[r, c] * moved[c]
            quat_product(out[i, base + 3 : base + 7], joint_quat, out[i, first + 3 : first + 7])


@compiled
def look(
    state: Array, arm: int, bodies: Array, pos: Array, rot: Array, pose_columns: Ints, speed_columns: Ints,
    eef: Singles, objects: Singles, speeds: Singles, widths: Singles,
) -> None:  # fmt: skip
    """Fill in the poses (N, 4, 4) and (B, N, 4, 4), speeds (M, N) and gripper widths (N,) of all slots.

    The joints of the arm begin at column `arm` of the state; `pose_columns` (B, 7) are columns of `bodies`,
    `speed_columns` (M, 3) of `state`.
    """
    turn = np.empty((3, 3))
    for i in range(state.shape[0]):
        widths[i] = state[i, arm + 7] + state[i, arm + 8]
        for r in range(3):
            for c in range(3):
                eef[i, r, c] = rot[r, c, i]
            eef[i, r, 3] = pos[r, i]
        eef[i, 3, 3] = 1.0
        for m in range(pose_columns.shape[0]):
            first = pose_columns[m, 0]
            rotation_from_quat_of(bodies[i, first + 3 : first + 7], turn)
            for r in range(3):
                for c in range(3):
                    objects[m, i, r, c] = turn[r, c]
                objects[m, i, r, 3] = bodies[i, first + r]
            objects[m, i, 3, 3] = 1.0
        for m in range(speed_columns.shape[0]):
            x, y, z = state[i, speed_columns[m, 0]], state[i, speed_columns[m, 1]], state[i, speed_columns[m, 2]]
            speeds[m, i] = math.sqrt(x * x + y * y + z * z)


@compiled
def observe(
    state: Array, arm: int, bodies: Array, slots: Ints, pos: Array, rot: Array, pose_columns: Ints,
    joints: Singles, eef: Singles, objects: Singles,
) -> None:  # fmt: skip
    """Fill in joints and gripper width (K, 8), eef poses (K, 7) and bodies' poses (K, >= 7 B) of slots (K,).

    The joints of the arm begin at column `arm` of the state.
    """
    quat = np.empty(4)
    for i in range(len(slots)):
        slot = slots[i]
        for k in range(7):
            joints[i, k] = state[slot, arm + k]
        joints[i, 7] = state[slot, arm + 7] + state[slot, arm + 8]
        quat_from_rotation_of(rot[:, :, slot], quat)
        for k in range(3):
            eef[i, k] = pos[k, slot]
        for k in range(4):
            eef[i, 3 + k] = quat[k]
        for m in range(pose_columns.shape[0]):
            first = pose_columns[m, 0]
            sign = -1.0 if bodies[slot, first + 3] < 0.0 else 1.0
            for k in range(7):
                objects[i, 7 * m + k] = bodies[slot, first + k] * (1.0 if k < 3 else sign)
