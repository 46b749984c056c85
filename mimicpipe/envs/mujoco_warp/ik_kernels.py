"""Actions of slots and servo targets, on the device: the method of `envs.mujoco.ik` and the layout of `envs.actions`.

Each kernel is one launch for all slots, whatever their number.
"""

import warp as wp

from mimicpipe.envs.mujoco_warp.rotations import (
    ArmModel,
    ArmPose,
    Number,
    compose,
    forward,
    quat_from_rotation,
    rotation_from_quat,
    rotation_from_vector,
    vector_from_rotation,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 1})


class Vec6(wp.types.vector(length=6, dtype=wp.float64)):
    """A pose change: metres, rotation vector."""


class Vec7(wp.types.vector(length=7, dtype=wp.float64)):
    """A number for each joint."""


class Mat67(wp.types.matrix(shape=(6, 7), dtype=wp.float64)):
    """A pose change for each joint; or six equations with their right sides."""


@wp.func
def jacobian_of(pose: ArmPose) -> Mat67:
    """Jacobian of the grasp frame: linear velocity, angular velocity, in the slot's frame."""
    jac = Mat67()
    for joint in range(7):
        for k in range(3):
            a = (k + 1) % 3
            b = (k + 2) % 3
            jac[k, joint] = pose.axes[joint, a] * (pose.pos[b] - pose.origins[joint, b]) - pose.axes[joint, b] * (
                pose.pos[a] - pose.origins[joint, a]
            )
            jac[3 + k, joint] = pose.axes[joint, k]
    return jac


@wp.func
def damped_step(jac: Mat67, error: Vec6, rest: Vec7, damping: wp.float64, most: wp.float64) -> Vec7:
    """DLS step for a task error, with a wish for the null space, at most `most` a joint."""
    system = Mat67()
    for r in range(6):
        for c in range(6):
            total = jac[r, 0] * jac[c, 0]
            for joint in range(1, 7):
                total += jac[r, joint] * jac[c, joint]
            system[r, c] = total
        system[r, r] = system[r, r] + damping
        drift = jac[r, 0] * rest[0]
        for joint in range(1, 7):
            drift += jac[r, joint] * rest[joint]
        system[r, 6] = error[r] - drift
    # Positive definite, so elimination needs no pivoting.
    for k in range(5):
        for r in range(k + 1, 6):
            factor = system[r, k] / system[k, k]
            for c in range(k + 1, 7):
                system[r, c] = system[r, c] - factor * system[k, c]
    for back in range(6):
        k = 5 - back
        system[k, 6] = system[k, 6] / system[k, k]
        for r in range(k):
            system[r, 6] = system[r, 6] - system[r, k] * system[k, 6]
    step = Vec7()
    longest = Number(0.0)
    for joint in range(7):
        total = jac[0, joint] * system[0, 6]
        for r in range(1, 6):
            total += jac[r, joint] * system[r, 6]
        step[joint] = rest[joint] + total
        longest = wp.max(longest, wp.abs(step[joint]))
    if longest > most:
        for joint in range(7):
            step[joint] = step[joint] * (most / longest)
    return step


@wp.func
def joint_targets(arm: ArmModel, pose: ArmPose, state: wp.array2d[float], slot: int, error: Vec6) -> Vec7:
    """Joint positions one DLS step towards a target, within the limits."""
    jac = jacobian_of(pose)
    left = error
    q = Vec7()
    rest = Vec7()
    for joint in range(7):
        q[joint] = Number(state[slot, arm.first + joint])
        rest[joint] = arm.rest_gain * (arm.limits[joint, 2] - q[joint])
    step = damped_step(jac, left, rest, arm.damping, arm.most)
    stopped = Vec7()
    beyond = int(0)
    for joint in range(7):
        target = q[joint] + step[joint]
        if target < arm.limits[joint, 0] or target > arm.limits[joint, 1]:
            beyond = 1
            stopped[joint] = wp.min(wp.max(target, arm.limits[joint, 0]), arm.limits[joint, 1]) - q[joint]
            rest[joint] = Number(0.0)
            # The joint's column still tells what its way to the limit does for the task.
            for r in range(6):
                left[r] = left[r] - jac[r, joint] * stopped[joint]
                jac[r, joint] = Number(0.0)
    if beyond == 1:
        step = damped_step(jac, left, rest, arm.damping, arm.most)
    out = Vec7()
    for joint in range(7):
        target = q[joint] + stopped[joint] + step[joint]
        out[joint] = target
        if not wp.isnan(target):
            out[joint] = wp.min(wp.max(target, arm.limits[joint, 0]), arm.limits[joint, 1])
    return out


@wp.func
def relative_motion(pose: ArmPose, pos: wp.vec3d, rot: wp.mat33d) -> Vec6:
    """From the current pose to another: metres, rotation vector in the slot's frame."""
    turn = vector_from_rotation(compose(rot, wp.transpose(pose.rot)))
    way = pos - pose.pos
    return Vec6(way[0], way[1], way[2], turn[0], turn[1], turn[2])


@wp.func
def scale_of(arm: ArmModel, k: int) -> wp.float64:
    """Metres or radians per unit of the k-th number of an action."""
    if k < 3:
        return arm.position_scale
    return arm.rotation_scale


@wp.func
def asked_quat(arm: ArmModel, actions: wp.array2d[float], row: int) -> wp.vec4d:
    """Quaternion of an absolute action."""
    at = arm.action + 3
    return wp.vec4d(
        Number(actions[row, at]),
        Number(actions[row, at + 1]),
        Number(actions[row, at + 2]),
        Number(actions[row, at + 3]),
    )


@wp.func
def asked_pos(arm: ArmModel, actions: wp.array2d[float], row: int) -> wp.vec3d:
    """Position of an absolute action."""
    at = arm.action
    return wp.vec3d(Number(actions[row, at]), Number(actions[row, at + 1]), Number(actions[row, at + 2]))


@wp.func
def asked_change(arm: ArmModel, actions: wp.array2d[float], row: int) -> Vec6:
    """Pose change that a relative action asks for."""
    motion = Vec6()
    for k in range(6):
        value = Number(actions[row, arm.action + k])
        if value > Number(1.0):
            value = Number(1.0)
        elif value < Number(-1.0):
            value = Number(-1.0)
        motion[k] = value * scale_of(arm, k)
    return motion


@wp.kernel
def servo_targets(
    arm: ArmModel,
    state: wp.array2d[float],
    diverged: wp.array[int],
    actions: wp.array2d[float],
    active: wp.array[int],
    ctrl: wp.array2d[float],
    wrong: wp.array[int],
):
    """Fill in the servos (N, nu) of one arm; `wrong[0]` is 1 + a slot that asks for no finite motion."""
    slot = wp.tid()
    pose = forward(arm, state, slot)
    motion = Vec6()
    gripper = actions[slot, arm.action + 6]
    if arm.absolute == 1:
        gripper = actions[slot, arm.action + 7]
        rot = rotation_from_quat(asked_quat(arm, actions, slot))
        motion = relative_motion(pose, asked_pos(arm, actions, slot), rot)
    else:
        motion = asked_change(arm, actions, slot)
    targets = joint_targets(arm, pose, state, slot, motion)
    total = Number(gripper)
    for joint in range(7):
        total += targets[joint]
    fingers = arm.max_finger
    if gripper < 0.0:
        fingers = Number(0.0)
    finite = int(1)
    if not wp.isfinite(total):
        finite = 0
        if active[slot] == 1 and diverged[slot] == 0:
            wp.atomic_max(wrong, 0, slot + 1)
    for joint in range(7):
        ctrl[slot, arm.servo + joint] = 0.0
        if finite == 1:
            ctrl[slot, arm.servo + joint] = float(targets[joint])
    ctrl[slot, arm.servo + 7] = 0.0
    if finite == 1:
        ctrl[slot, arm.servo + 7] = float(fingers)


@wp.kernel
def encode(
    arm: ArmModel,
    state: wp.array2d[float],
    slots: wp.array[wp.int64],
    target: wp.array3d[float],
    gripper: wp.array2d[float],
    noise: wp.array2d[float],
    noisy: int,
    out: wp.array2d[float],
):
    """Fill in actions (K, A) of one arm that ask for targets (K, 4, 4); noise (K, 6) in units of a relative action."""
    row = wp.tid()
    pose = forward(arm, state, int(slots[row]))
    pos = wp.vec3d(Number(target[row, 0, 3]), Number(target[row, 1, 3]), Number(target[row, 2, 3]))
    rot = wp.mat33d()
    for r in range(3):
        for c in range(3):
            rot[r, c] = Number(target[row, r, c])
    added = Vec6()
    if noisy == 1:
        for k in range(6):
            added[k] = Number(noise[row, k])
    if arm.absolute == 1:
        if noisy == 1:
            pos = pos + arm.position_scale * wp.vec3d(added[0], added[1], added[2])
            turn = arm.rotation_scale * wp.vec3d(added[3], added[4], added[5])
            rot = compose(rotation_from_vector(turn), rot)
        quat = quat_from_rotation(rot)
        for k in range(3):
            out[row, arm.action + k] = float(pos[k])
        for k in range(4):
            out[row, arm.action + 3 + k] = float(quat[k])
        out[row, arm.action + 7] = gripper[row, 0]
    else:
        motion = relative_motion(pose, pos, rot)
        # A target further away than one action is approached on the straight way, position and rotation together.
        longest = Number(1.0)
        for k in range(6):
            longest = wp.max(longest, wp.abs(motion[k] / scale_of(arm, k)))
        for k in range(6):
            value = motion[k] / scale_of(arm, k) / longest + added[k]
            out[row, arm.action + k] = float(wp.min(wp.max(value, Number(-1.0)), Number(1.0)))
        out[row, arm.action + 6] = gripper[row, 0]


@wp.kernel
def decode(
    arm: ArmModel,
    state: wp.array2d[float],
    slots: wp.array[wp.int64],
    actions: wp.array2d[float],
    out: wp.array3d[float],
):
    """Fill in the poses (K, 4, 4) that actions (K, A) ask of one arm."""
    row = wp.tid()
    pos = asked_pos(arm, actions, row)
    rot = wp.mat33d()
    if arm.absolute == 1:
        rot = rotation_from_quat(asked_quat(arm, actions, row))
    else:
        pose = forward(arm, state, int(slots[row]))
        motion = asked_change(arm, actions, row)
        pos = pose.pos + wp.vec3d(motion[0], motion[1], motion[2])
        rot = compose(rotation_from_vector(wp.vec3d(motion[3], motion[4], motion[5])), pose.rot)
    for r in range(3):
        for c in range(3):
            out[row, r, c] = float(rot[r, c])
        out[row, r, 3] = float(pos[r])
        out[row, 3, r] = 0.0
    out[row, 3, 3] = 1.0
