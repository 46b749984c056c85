"""Rotations and the Panda's kinematics as Warp functions: the formulas of `envs.mujoco.kernels`, one thread a slot.

In float64, as there. A thread sees its own slot only, so a slot's bits do not depend on the batch around it.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

Number = wp.float64


class Mat73(wp.types.matrix(shape=(7, 3), dtype=wp.float64)):
    """A vector for each joint."""


@wp.func
def rotation_from_vector(vec: wp.vec3d) -> wp.mat33d:
    """Rotation by an axis-angle vector, radians (Rodrigues' formula)."""
    x, y, z = vec[0], vec[1], vec[2]
    one = Number(1.0)
    angle = wp.sqrt(x * x + y * y + z * z)
    a, b = one, Number(0.5)
    if angle >= Number(1e-7):
        half = wp.sin(Number(0.5) * angle) / angle
        a = wp.sin(angle) / angle
        b = Number(2.0) * half * half
    return wp.mat33d(
        one - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y,
        b * x * y + a * z, one - b * (x * x + z * z), b * y * z - a * x,
        b * x * z - a * y, b * y * z + a * x, one - b * (x * x + y * y),
    )  # fmt: skip


@wp.func
def rotation_from_quat(quat: wp.vec4d) -> wp.mat33d:
    """Rotation of a wxyz quaternion of any non-zero norm."""
    w, x, y, z = quat[0], quat[1], quat[2], quat[3]
    one = Number(1.0)
    scale = Number(2.0) / (w * w + x * x + y * y + z * z)
    sx, sy, sz = scale * x, scale * y, scale * z
    return wp.mat33d(
        one - (sy * y + sz * z), sx * y - sz * w, sx * z + sy * w,
        sx * y + sz * w, one - (sx * x + sz * z), sy * z - sx * w,
        sx * z - sy * w, sy * z + sx * w, one - (sx * x + sy * y),
    )  # fmt: skip


@wp.func
def quat_from_rotation(rot: wp.mat33d) -> wp.vec4d:
    """Unit wxyz quaternion, w >= 0, of a rotation (Shepperd's method, see `envs.mujoco.kinematics`)."""
    one, two = Number(1.0), Number(2.0)
    trace = rot[0, 0] + rot[1, 1] + rot[2, 2]
    a, b, c = rot[2, 1] - rot[1, 2], rot[0, 2] - rot[2, 0], rot[1, 0] - rot[0, 1]
    d, e, f = rot[1, 0] + rot[0, 1], rot[0, 2] + rot[2, 0], rot[2, 1] + rot[1, 2]
    best = wp.max(wp.max(trace, rot[0, 0]), wp.max(rot[1, 1], rot[2, 2]))
    quat = wp.vec4d(one + trace, a, b, c)
    if best != trace:
        if best == rot[0, 0]:
            quat = wp.vec4d(a, one + two * rot[0, 0] - trace, d, e)
        elif best == rot[1, 1]:
            quat = wp.vec4d(b, d, one + two * rot[1, 1] - trace, f)
        else:
            quat = wp.vec4d(c, e, f, one + two * rot[2, 2] - trace)
    norm = wp.sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3])
    if quat[0] < Number(0.0):
        norm = -norm
    return wp.vec4d(quat[0] / norm, quat[1] / norm, quat[2] / norm, quat[3] / norm)


@wp.func
def vector_from_rotation(rot: wp.mat33d) -> wp.vec3d:
    """Axis-angle vector, norm in [0, pi], of a rotation."""
    x, y, z = rot[2, 1] - rot[1, 2], rot[0, 2] - rot[2, 0], rot[1, 0] - rot[0, 1]
    # The skew part is 2 sin(angle) times the axis, the trace 1 + 2 cos(angle).
    sin2 = wp.sqrt(x * x + y * y + z * z)
    cos2 = rot[0, 0] + rot[1, 1] + rot[2, 2] - Number(1.0)
    scale = Number(0.5)
    if sin2 >= Number(1e-12):
        scale = wp.atan2(sin2, cos2) / sin2
    if cos2 < Number(-1.9):
        # Towards half a turn the skew part loses the axis; there the quaternion is well conditioned.
        quat = quat_from_rotation(rot)
        x, y, z = quat[1], quat[2], quat[3]
        sin_half = wp.sqrt(x * x + y * y + z * z)
        scale = Number(2.0) * wp.atan2(sin_half, quat[0]) / sin_half
    if wp.isnan(sin2):  # the comparisons above are all false of a slot that is not finite
        scale = sin2
    return wp.vec3d(scale * x, scale * y, scale * z)


@wp.func
def compose(a: wp.mat33d, b: wp.mat33d) -> wp.mat33d:
    """Rotation a b, its sums in the order in which they are written."""
    out = wp.mat33d()
    for r in range(3):
        for c in range(3):
            out[r, c] = a[r, 0] * b[0, c] + a[r, 1] * b[1, c] + a[r, 2] * b[2, c]
    return out


@wp.func
def quat_product(a: wp.vec4d, b: wp.vec4d) -> wp.vec4d:
    """Hamilton product of wxyz quaternions."""
    return wp.vec4d(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@wp.struct
class ArmModel:
    """One arm's constants; `envs.mujoco.panda` and `envs.mujoco.ik` say what they are."""

    first: int
    """Column of its first joint in the state."""
    action: int
    """Column of its first number in the action."""
    servo: int
    """Column of its first servo."""
    base: wp.mat33d
    """Rotation of its base in the slot's frame."""
    base_pos: wp.vec3d
    dh: wp.array2d[wp.float64]
    """(7, 3): a, d and twist in quarter turns."""
    limits: wp.array2d[wp.float64]
    """(7, 3): lower, upper, rest posture."""
    tool: wp.vec3d
    """Cosine and sine of the hand's yaw, and the grasp point's way along z."""
    rest_gain: wp.float64
    damping: wp.float64
    most: wp.float64
    """Largest joint step of a control step, radians."""
    max_finger: wp.float64
    position_scale: wp.float64
    rotation_scale: wp.float64
    absolute: int
    """Whether an action is a pose (ik_abs), or a change of pose (ik_rel)."""


@wp.struct
class ArmPose:
    """Kinematics of one arm, as `envs.mujoco.kinematics.ArmPose`."""

    rot: wp.mat33d
    pos: wp.vec3d
    axes: Mat73
    origins: Mat73


@wp.func
def forward(arm: ArmModel, state: wp.array2d[float], slot: int) -> ArmPose:
    """Kinematics at the joint positions of one slot."""
    x = wp.vec3d(arm.base[0, 0], arm.base[1, 0], arm.base[2, 0])
    y = wp.vec3d(arm.base[0, 1], arm.base[1, 1], arm.base[2, 1])
    z = wp.vec3d(arm.base[0, 2], arm.base[1, 2], arm.base[2, 2])
    p = wp.vec3d(arm.base_pos[0], arm.base_pos[1], arm.base_pos[2])
    out = ArmPose()
    for joint in range(7):
        p = p + arm.dh[joint, 0] * x
        # A quarter turn about x maps (y, z) to (z, -y) or (-z, y).
        turned = y
        if arm.dh[joint, 2] > Number(0.0):
            y = z
            z = -turned
        elif arm.dh[joint, 2] < Number(0.0):
            y = -z
            z = turned
        p = p + arm.dh[joint, 1] * z
        for k in range(3):
            out.axes[joint, k] = z[k]
            out.origins[joint, k] = p[k]
        q = Number(state[slot, arm.first + joint])
        c, s = wp.cos(q), wp.sin(q)
        turned = c * x + s * y
        y = c * y - s * x
        x = turned
    for k in range(3):
        out.rot[k, 0] = arm.tool[0] * x[k] + arm.tool[1] * y[k]
        out.rot[k, 1] = arm.tool[0] * y[k] - arm.tool[1] * x[k]
        out.rot[k, 2] = z[k]
    out.pos = p + arm.tool[2] * z
    return out
