"""From source segments to trajectories: the waypoints of M segments of any lengths.

A row's waypoints are

    t:  0 ... between-1 | between ... lead-1 | lead ... lead+n-1       | lead+n
        interpolation   | first pose, held   | the transformed segment | last pose, held (where asked for)

with lead = interpolation steps + fixed steps + 1 if the segment begins at the source eef's measured pose. Poses are the
top three rows (3, 4), component-major in tables. Sums are in float64, in a fixed order; a row depends on itself only.
"""

import math

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

START, LENGTH, BETWEEN, LEAD, QUIET, OBJECT, SLOT, MEASURED, FROM_LAST, HELD = range(10)
"""Columns of `rows` in `stitch`: time of the segment's first step, its steps, interpolation steps, `lead`, steps at the
start without noise, index of the object, slot, and three flags: the segment begins at the measured pose,
interpolation begins at the last target, the last pose is held for a step."""
COLUMNS = 10
UNMOVED, GIVEN = -1, -2
"""For the index of an object: the segment stays where it was recorded, or its motion stands in `object_now`."""

_TINY = 1e-9


@compiled
def _compose(a: Floats, b: Floats, out: Floats) -> None:
    """Pose a @ b; all (3, 4)."""
    for r in range(3):
        for c in range(4):
            out[r, c] = a[r, 0] * b[0, c] + a[r, 1] * b[1, c] + a[r, 2] * b[2, c]
        out[r, 3] += a[r, 3]


@compiled
def _compose_inverse(a: Floats, b: Floats, out: Floats) -> None:
    """Pose a @ inverse(b); all (3, 4)."""
    for r in range(3):
        for c in range(3):
            out[r, c] = a[r, 0] * b[c, 0] + a[r, 1] * b[c, 1] + a[r, 2] * b[c, 2]
        out[r, 3] = a[r, 3] - (out[r, 0] * b[0, 3] + out[r, 1] * b[1, 3] + out[r, 2] * b[2, 3])


@compiled
def _relative_turn(start: Floats, goal: Floats, axis: Floats) -> float:
    """Unit axis (3,) and angle in [0, pi] of the rotation start^T goal; the axis of no rotation is zero.

    Through the quaternion with the largest pivot (Shepperd, J. Guidance and Control 1(3), 1978), exact near 0 and pi.
    """
    r = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            r[i, j] = start[0, i] * goal[0, j] + start[1, i] * goal[1, j] + start[2, i] * goal[2, j]
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    x, y, z = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    real = 1.0 + trace
    largest = max(trace, r[0, 0], r[1, 1], r[2, 2])
    if largest != trace:
        a, b, c = r[0, 1] + r[1, 0], r[0, 2] + r[2, 0], r[1, 2] + r[2, 1]
        if largest == r[0, 0]:
            real, x, y, z = x, 1.0 + 2.0 * r[0, 0] - trace, a, b
        elif largest == r[1, 1]:
            real, x, y, z = y, a, 1.0 + 2.0 * r[1, 1] - trace, c
        else:
            real, x, y, z = z, b, c, 1.0 + 2.0 * r[2, 2] - trace
    if real < 0.0:
        real, x, y, z = -real, -x, -y, -z
    sine = math.sqrt(x * x + y * y + z * z)
    scale = 1.0 / max(sine, _TINY)
    axis[0], axis[1], axis[2] = scale * x, scale * y, scale * z
    # tan(angle / 4) = sin(angle / 2) / (1 + cos(angle / 2)), here with the quaternion's norm still in both.
    return 4.0 * math.atan(sine / (math.sqrt(sine * sine + real * real) + real))


@compiled
def _interpolate(start: Floats, goal: Floats, between: int, out: Singles) -> None:
    """Write poses on the way into out (T, W): linear in position, at constant speed about one axis.

    The rotation is start @ (I + sin(a) K + (1 - cos(a)) K^2) (Rodrigues), K the axis' cross-product matrix.
    """
    axis = np.empty(3)
    angle = _relative_turn(start, goal, axis)
    x, y, z = axis
    for r in range(3):
        a, b, c = start[r, 0], start[r, 1], start[r, 2]
        sine_x, sine_y, sine_z = b * z - c * y, c * x - a * z, a * y - b * x
        cosine_x = sine_y * z - sine_z * y
        cosine_y = sine_z * x - sine_x * z
        cosine_z = sine_x * y - sine_y * x
        for step in range(between):
            part = (step + 1) / (between + 1)
            s, d = math.sin(part * angle), 1.0 - math.cos(part * angle)
            out[step, 4 * r] = a + s * sine_x + d * cosine_x
            out[step, 4 * r + 1] = b + s * sine_y + d * cosine_y
            out[step, 4 * r + 2] = c + s * sine_z + d * cosine_z
            out[step, 4 * r + 3] = start[r, 3] + part * (goal[r, 3] - start[r, 3])


@compiled
def _read(table: Singles, time: int, first: int, stride: int, out: Floats) -> None:
    """Pose (3, 4) whose components are rows first, first + stride, ... of a table (W, T)."""
    for k in range(12):
        out[k // 4, k % 4] = table[first + k * stride, time]


@compiled
def stitch(
    rows: Ints, target: Singles, measured: Singles, objects: Singles, parts: int, object_now: Floats, eef_now: Floats,
    last_target: Floats, sigma: Singles, noise: Singles, to: Ints, out: Singles,
) -> None:  # fmt: skip
    """Fill in the waypoints of M segments; remembers each one's last target.

    Args:
        rows: (M, COLUMNS).
        target: (12 + G, T) target poses and gripper actions of all demos, end to end.
        measured: (>= 12, T) the source eef's poses.
        objects: (>= 12 * parts, T) for each component of a pose, its value for each of `parts` objects.
        parts: number of objects.
        object_now: (3, 4, M) pose of the row's object, or the motion itself; read where there is one.
        eef_now: (3, 4, M) pose of the eef; read where interpolation does not begin at the last target.
        last_target: (3, 4, N) of each slot, read and written.
        sigma: (M,) standard deviation of the action noise.
        noise: (M, S, P) standard normals for the steps from the first on; S is 0 where no row has noise.
        to: (M,) where in `out` each row goes.
        out: (N, L, 16 + G + P), L at least the steps of the longest row; what is behind a row's steps stays as it is.
    """
    motion, source, pose, start = np.zeros((3, 4)), np.empty((3, 4)), np.empty((3, 4)), np.empty((3, 4))
    grippers = target.shape[0] - 12
    for m in range(rows.shape[0]):
        into = out[to[m]]
        at, steps, between, lead = rows[m, START], rows[m, LENGTH], rows[m, BETWEEN], rows[m, LEAD]
        slot = rows[m, SLOT]
        if rows[m, OBJECT] >= 0:
            _read(objects, at, rows[m, OBJECT], parts, source)
            _compose_inverse(object_now[:, :, m], source, motion)
        elif rows[m, OBJECT] == GIVEN:
            for k in range(12):
                motion[k // 4, k % 4] = object_now[k // 4, k % 4, m]
        else:
            for k in range(12):
                motion[k // 4, k % 4] = 1.0 if k % 5 == 0 else 0.0
        for k in range(12):
            r, c = k // 4, k % 4
            start[r, c] = last_target[r, c, slot] if rows[m, FROM_LAST] else eef_now[r, c, m]
        _read(measured if rows[m, MEASURED] else target, at, 0, 1, source)
        _compose(motion, source, pose)
        _interpolate(start, pose, between, into)
        for step in range(between, lead):
            for k in range(12):
                into[step, k] = pose[k // 4, k % 4]
        for step in range(steps):
            _read(target, at + step, 0, 1, source)
            _compose(motion, source, pose)
            for k in range(12):
                into[lead + step, k] = pose[k // 4, k % 4]
        for k in range(12):
            last_target[k // 4, k % 4, slot] = pose[k // 4, k % 4]
        total = lead + steps
        if rows[m, HELD]:
            for k in range(12):
                into[total, k] = into[total - 1, k]
            total += 1
        for step in range(total):
            for k in range(12, 15):
                into[step, k] = 0.0
            into[step, 15] = 1.0
            time = at + min(max(step - lead, 0), steps - 1)
            for k in range(grippers):
                into[step, 16 + k] = target[12 + k, time]
            noisy = noise.shape[1] > 0 and rows[m, QUIET] <= step < lead + steps
            for k in range(noise.shape[2]):
                into[step, 16 + grippers + k] = sigma[m] * noise[m, step, k] if noisy else 0.0
