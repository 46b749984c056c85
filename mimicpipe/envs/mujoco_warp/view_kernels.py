"""What is seen of a state, and the way of states into the physics and back; each kernel is one launch for all slots."""

import warp as wp

from mimicpipe.envs.mujoco_warp.rotations import (
    ArmModel,
    Number,
    forward,
    quat_from_rotation,
    quat_product,
    rotation_from_quat,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})


@wp.struct
class BodyColumns:
    """Where the task's bodies are in a row of state; `envs.mujoco.frames` says what the names mean."""

    objects: wp.array2d[int]
    speeds: wp.array2d[int]
    fixtures: int
    """Number of fixtures."""
    fixture: int
    """First column of their positions; their quaternions come after."""
    owner: wp.array[int]
    hinge: wp.array[int]
    geometry: wp.array3d[wp.float64]
    joints: wp.array[int]


@wp.kernel
def look_at_arm(
    arm: ArmModel,
    index: int,
    state: wp.array2d[float],
    eefs: wp.array4d[float],
    widths: wp.array2d[float],
    joints: wp.array2d[float],
    observed: wp.array2d[float],
):
    """Fill in an arm's eef pose (A, N, 4, 4), gripper width (A, N), joints (N, 8 A) and observed pose (N, 7 A)."""
    slot = wp.tid()
    pose = forward(arm, state, slot)
    quat = quat_from_rotation(pose.rot)
    width = float(Number(state[slot, arm.first + 7]) + Number(state[slot, arm.first + 8]))
    for r in range(3):
        for c in range(3):
            eefs[index, slot, r, c] = float(pose.rot[r, c])
        eefs[index, slot, r, 3] = float(pose.pos[r])
        eefs[index, slot, 3, r] = 0.0
        observed[slot, 7 * index + r] = float(pose.pos[r])
    eefs[index, slot, 3, 3] = 1.0
    for k in range(4):
        observed[slot, 7 * index + 3 + k] = float(quat[k])
    for k in range(7):
        joints[slot, 8 * index + k] = state[slot, arm.first + k]
    joints[slot, 8 * index + 7] = width
    widths[index, slot] = width


@wp.func
def see(
    body: int, slot: int, pos: wp.vec3d, quat: wp.vec4d, poses: wp.array4d[float], observed: wp.array2d[float]
):  # fmt: skip
    """Write one body's pose."""
    rot = rotation_from_quat(quat)
    sign = Number(1.0)
    if quat[0] < Number(0.0):
        sign = Number(-1.0)
    for r in range(3):
        for c in range(3):
            poses[body, slot, r, c] = float(rot[r, c])
        poses[body, slot, r, 3] = float(pos[r])
        poses[body, slot, 3, r] = 0.0
        observed[slot, 7 * body + r] = float(pos[r])
    poses[body, slot, 3, 3] = 1.0
    for k in range(4):
        observed[slot, 7 * body + 3 + k] = float(sign * quat[k])


@wp.func
def vector_at(state: wp.array2d[float], slot: int, column: int) -> wp.vec3d:
    """Three numbers of a row."""
    return wp.vec3d(Number(state[slot, column]), Number(state[slot, column + 1]), Number(state[slot, column + 2]))


@wp.func
def quat_at(state: wp.array2d[float], slot: int, column: int) -> wp.vec4d:
    """Four numbers of a row."""
    first = vector_at(state, slot, column)
    return wp.vec4d(first[0], first[1], first[2], Number(state[slot, column + 3]))


@wp.kernel
def look_at_bodies(
    columns: BodyColumns,
    last: int,
    most: float,
    state: wp.array2d[float],
    poses: wp.array4d[float],
    speeds: wp.array2d[float],
    observed: wp.array2d[float],
    joint_positions: wp.array2d[float],
    diverged: wp.array[int],
):
    """Fill in poses (B, N, 4, 4), speeds (M, N), observations (N, 7 B + P), parts' joints (P, N), and who diverged.

    `last` is the column behind velocities; a slot with a number of at least `most` before it, or NaN, has diverged.
    """
    slot = wp.tid()
    bad = int(0)
    for column in range(last):
        value = state[slot, column]
        if not (wp.abs(value) < most):
            bad = 1
    diverged[slot] = bad
    objects = columns.objects.shape[0]
    for m in range(objects):
        column = columns.objects[m, 0]
        see(m, slot, vector_at(state, slot, column), quat_at(state, slot, column + 3), poses, observed)
        v = vector_at(state, slot, columns.speeds[m, 0])
        speeds[m, slot] = float(wp.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]))
    turns = columns.fixture + 3 * columns.fixtures
    for f in range(columns.fixtures):
        pos = vector_at(state, slot, columns.fixture + 3 * f)
        see(objects + f, slot, pos, quat_at(state, slot, turns + 4 * f), poses, observed)
    for p in range(columns.owner.shape[0]):
        at = Number(state[slot, columns.joints[p]])
        base = vector_at(state, slot, columns.fixture + 3 * columns.owner[p])
        quat = quat_at(state, slot, turns + 4 * columns.owner[p])
        moved = wp.vec3d()
        anchor = wp.vec3d()
        joint_quat = wp.vec4d(Number(1.0), Number(0.0), Number(0.0), Number(0.0))
        half = Number(0.5) * at
        for k in range(3):
            anchor[k] = columns.geometry[p, 2, k]
            moved[k] = columns.geometry[p, 0, k]
            if columns.hinge[p] == 0:
                moved[k] = moved[k] + at * columns.geometry[p, 1, k]
            else:
                joint_quat[1 + k] = wp.sin(half) * columns.geometry[p, 1, k]
        if columns.hinge[p] == 1:
            joint_quat[0] = wp.cos(half)
            moved = moved + anchor - rotation_from_quat(joint_quat) * anchor
        body = objects + columns.fixtures + p
        see(body, slot, base + rotation_from_quat(quat) * moved, quat_product(quat, joint_quat), poses, observed)
        joint_positions[p, slot] = float(at)
        observed[slot, 7 * (objects + columns.fixtures + columns.owner.shape[0]) + p] = float(at)


@wp.func
def number_of(state: wp.array2d[float], spare: wp.array2d[float], slot: int, use_spare: int, column: int) -> float:
    """One number of a slot's row, or of the spare one."""
    if use_spare == 1:
        return spare[0, column]
    return state[slot, column]


@wp.kernel
def load(
    state: wp.array2d[float],
    spare: wp.array2d[float],
    active: wp.array[int],
    diverged: wp.array[int],
    time: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    mocap_pos: wp.array2d[wp.vec3],
    mocap_quat: wp.array2d[wp.quat],
    warmstart: wp.array2d[float],
):
    """Put states (N, S + 7 F) into the physics, whose solver begins cold.

    A slot that is not stepped, or that has diverged, gets the state `spare` (1, S + 7 F): it cannot disturb the others.
    """
    slot = wp.tid()
    instead = int(0)
    if active[slot] == 0 or diverged[slot] == 1:
        instead = 1
    positions = qpos.shape[1]
    velocities = qvel.shape[1]
    fixtures = mocap_pos.shape[1]
    time[slot] = number_of(state, spare, slot, instead, 0)
    for k in range(positions):
        qpos[slot, k] = number_of(state, spare, slot, instead, 1 + k)
    for k in range(velocities):
        qvel[slot, k] = number_of(state, spare, slot, instead, 1 + positions + k)
        warmstart[slot, k] = 0.0
    first = 1 + positions + velocities
    for f in range(fixtures):
        pos = wp.vec3()
        quat = wp.vec4()
        for k in range(3):
            pos[k] = number_of(state, spare, slot, instead, first + 3 * f + k)
        for k in range(4):
            quat[k] = number_of(state, spare, slot, instead, first + 3 * fixtures + 4 * f + k)
        mocap_pos[slot, f] = pos
        # Warp has no type for wxyz: MuJoCo-Warp keeps such quaternions in that order in its own.
        mocap_quat[slot, f] = wp.quat(quat[0], quat[1], quat[2], quat[3])


@wp.kernel
def store(
    active: wp.array[int],
    diverged: wp.array[int],
    time: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    overflow: wp.array[int],
    state: wp.array2d[float],
    overflowed: wp.array[int],
):
    """Take the states of the slots that were stepped out of the physics; `overflowed[1]` is 1 + one without room."""
    slot = wp.tid()
    if active[slot] == 1 and diverged[slot] == 0:
        positions = qpos.shape[1]
        state[slot, 0] = time[slot]
        for k in range(positions):
            state[slot, 1 + k] = qpos[slot, k]
        for k in range(qvel.shape[1]):
            state[slot, 1 + positions + k] = qvel[slot, k]
        if overflow[slot] != 0:
            wp.atomic_max(overflowed, 1, slot + 1)
    overflow[slot] = 0
