"""mimicpipe.poses: right to rounding, and the same bits for a pose in every batch."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mimicpipe import poses

F32 = torch.finfo(torch.float32).eps
GEOMETRY = settings(deadline=None, max_examples=150)


# --- strategies -------------------------------------------------------------------------------------------------------


def vectors(limit: float) -> st.SearchStrategy[Tensor]:
    return st.lists(st.floats(-limit, limit), min_size=3, max_size=3).map(
        lambda v: torch.tensor(v, dtype=torch.float64)
    )


@st.composite
def unit_quats(draw) -> Tensor:
    """Unit wxyz quaternions, float64: anywhere, near the identity, and near half a turn."""
    angle = draw(
        st.floats(0, math.pi)
        | st.floats(0, 1e-3)
        | st.floats(0, 1e-7)
        | st.floats(0, 1e-3).map(lambda a: math.pi - a)
        | st.sampled_from([0.0, math.pi / 2, 2 * math.pi / 3, math.pi])
    )
    axis = draw(vectors(1.0).filter(lambda v: float(v.norm()) > 1e-3))
    axis = draw(st.sampled_from([axis / axis.norm(), *torch.eye(3, dtype=torch.float64)]))
    return torch.cat((torch.tensor([math.cos(angle / 2)], dtype=torch.float64), axis * math.sin(angle / 2)))


def any_pose() -> st.SearchStrategy[Tensor]:
    return st.builds(poses.pose_from_pos_quat, vectors(10.0), unit_quats())


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    return float((a - b).abs().max()) <= tolerance


def same_rotation(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Quaternions of one rotation: equal up to sign."""
    return close(a, b, tolerance) or close(a, -b, tolerance)


# --- values -----------------------------------------------------------------------------------------------------------


@GEOMETRY
@given(any_pose(), any_pose(), any_pose())
def test_compose_is_the_matrix_product(a, b, c):
    assert close(poses.compose(a, b), a @ b, 1e-14 * 10)
    assert close(poses.compose(a.float(), b.float()).double(), a @ b, 100 * F32)
    left, right = poses.compose(poses.compose(a, b), c), poses.compose(a, poses.compose(b, c))
    assert close(left, right, 1e-13)


def test_compose_broadcasts():
    g = torch.Generator().manual_seed(0)
    a = poses.pose_from_pos_quat(torch.randn(5, 1, 3, generator=g), torch.randn(5, 1, 4, generator=g))
    b = poses.pose_from_pos_quat(torch.randn(1, 7, 3, generator=g), torch.randn(1, 7, 4, generator=g))
    product = poses.compose(a, b)
    assert product.shape == (5, 7, 4, 4)
    assert torch.equal(product[3, 2], poses.compose(a[3, 0], b[0, 2]))
    assert torch.equal(poses.compose(a[0, 0], b[0])[4], poses.compose(a[0, 0], b[0, 4]))


@GEOMETRY
@given(any_pose(), vectors(10.0))
def test_invert_undoes_and_rotate_agrees(pose, vec):
    eye = torch.eye(4, dtype=torch.float64)
    assert close(poses.compose(pose, poses.invert(pose)), eye, 1e-13)
    assert close(poses.compose(poses.invert(pose), pose), eye, 1e-13)
    assert close(poses.invert(pose), torch.linalg.inv(pose), 1e-12)
    rot = pose[:3, :3]
    assert close(poses.rotate(rot, vec), rot @ vec, 1e-13)
    assert close(poses.compose_rotations(rot, rot), rot @ rot, 1e-14)


@GEOMETRY
@given(unit_quats(), unit_quats())
def test_quaternion_product_is_the_matrix_product(a, b):
    product = poses.matrix_from_quat(poses.quat_multiply(a, b))
    assert close(product, poses.matrix_from_quat(a) @ poses.matrix_from_quat(b), 1e-14)
    assert close(poses.quat_multiply(a, poses.quat_conjugate(a)), torch.tensor([1.0, 0, 0, 0]).double(), 1e-15)


@GEOMETRY
@given(unit_quats(), st.floats(0.01, 100))
def test_quaternion_to_matrix_and_back(quat, scale):
    rot = poses.matrix_from_quat(quat)
    assert float(poses.rotation_defect(poses.make_pose(torch.zeros(3).double(), rot))) < 1e-14
    assert close(poses.matrix_from_quat(quat * scale), rot, 1e-14)
    back = poses.quat_from_matrix(rot)
    assert float(back[0]) >= 0
    assert abs(float(back.norm()) - 1) < 1e-15 * 4
    assert same_rotation(back, quat, 1e-14)
    assert same_rotation(poses.quat_from_matrix(rot.float()).double(), quat, 4 * F32)


@GEOMETRY
@given(unit_quats())
def test_axis_angle_and_back(quat):
    vec = poses.axis_angle_from_quat(quat)
    angle = 2 * math.atan2(float(quat[1:].norm()), abs(float(quat[0])))
    assert abs(float(vec.norm()) - angle) < 1e-14
    assert float(vec.norm()) <= math.pi * (1 + 1e-15)
    assert same_rotation(poses.quat_from_axis_angle(vec), quat, 1e-14)
    single = poses.axis_angle_from_quat(quat.float())
    assert same_rotation(poses.quat_from_axis_angle(single).double(), quat, 4 * F32)
    rot = poses.matrix_from_quat(quat)
    assert close(poses.matrix_from_axis_angle(poses.axis_angle_from_matrix(rot)), rot, 1e-13)


@GEOMETRY
@given(vectors(1.0), st.floats(1e-12, 3.1))
def test_axis_angle_keeps_small_and_large_angles(axis, angle):
    if float(axis.norm()) < 1e-3:
        return
    vec = axis / axis.norm() * angle
    back = poses.axis_angle_from_quat(poses.quat_from_axis_angle(vec))
    # Near half a turn cos(a/2) loses digits as its distance to pi shrinks.
    assert float((back - vec).norm()) <= 1e-13 * angle
    single = poses.axis_angle_from_quat(poses.quat_from_axis_angle(vec.float())).double()
    assert float((single - vec).norm()) <= 16 * F32 * angle


def test_the_zero_rotation_has_no_nan():
    for dtype in (torch.float32, torch.float64):
        zero, identity = torch.zeros(3, dtype=dtype), torch.tensor([1.0, 0, 0, 0], dtype=dtype)
        assert torch.equal(poses.quat_from_axis_angle(zero), identity)
        assert torch.equal(poses.axis_angle_from_quat(identity), zero)
        assert torch.equal(poses.axis_angle_from_quat(-identity), zero)
        assert torch.equal(poses.slerp(identity, identity, torch.tensor(0.3, dtype=dtype)), identity)
        assert bool(torch.isfinite(poses.quat_from_axis_angle(torch.full((3,), 1e-30, dtype=dtype))).all())


@GEOMETRY
@given(unit_quats(), unit_quats(), st.floats(0, 1))
def test_slerp_turns_at_constant_speed_along_the_shorter_arc(a, b, fraction):
    def turned(p, q):
        return float(poses.vector_norm(poses.axis_angle_from_quat(poses.quat_multiply(poses.quat_conjugate(p), q))))

    at = poses.slerp(a, b, torch.tensor(fraction, dtype=torch.float64))
    assert abs(float(at.norm()) - 1) < 1e-14
    arc = turned(a, b)
    assert abs(turned(a, at) - fraction * arc) < 1e-7
    assert abs(turned(at, b) - (1 - fraction) * arc) < 1e-7
    assert torch.equal(poses.slerp(a, b, torch.tensor(0.0, dtype=torch.float64)), a)
    assert same_rotation(poses.slerp(a, b, torch.tensor(1.0, dtype=torch.float64)), b, 1e-14)
    assert same_rotation(poses.slerp(a, -b, torch.tensor(fraction, dtype=torch.float64)), at, 1e-7) or arc > 3.14


@GEOMETRY
@given(any_pose(), any_pose(), st.floats(0, 1))
def test_interpolate_goes_from_one_pose_to_the_other(a, b, fraction):
    def at(f):
        return poses.interpolate(a, b, torch.tensor(f, dtype=torch.float64))

    assert close(at(0.0), a, 1e-13)
    assert close(at(1.0), b, 1e-13)
    middle = at(fraction)
    assert float(poses.rotation_defect(middle)) < 1e-13
    assert close(middle[:3, 3], a[:3, 3] * (1 - fraction) + b[:3, 3] * fraction, 1e-13)


def test_interpolate_takes_a_batch_of_fractions():
    a = poses.pose_from_pos_quat(torch.zeros(3), torch.tensor([1.0, 0, 0, 0]))
    b = poses.pose_from_pos_quat(torch.ones(3), torch.tensor([0.0, 0, 0, 1]))
    path = poses.interpolate(a.expand(5, 4, 4), b.expand(5, 4, 4), torch.linspace(0, 1, 5))
    yaw = torch.atan2(path[:, 1, 0], path[:, 0, 0]).abs()
    assert close(yaw, torch.linspace(0, math.pi, 5), 1e-6)
    assert close(path[:, 0, 3], torch.linspace(0, 1, 5), 1e-7)


@GEOMETRY
@given(any_pose(), st.floats(1e-6, 0.5), st.integers(0, 3), st.integers(0, 3))
def test_rotation_defect_sees_every_entry_but_the_position(pose, error, row, column):
    assert float(poses.rotation_defect(pose)) < 1e-14
    changed = pose.clone()
    changed[row, column] += error
    defect = float(poses.rotation_defect(changed))
    if row < 3 and column == 3:
        assert defect < 1e-14
    else:
        assert 0.1 * error < defect < 4 * error + 4 * error**2


@GEOMETRY
@given(any_pose(), st.integers(0, 2))
def test_rotation_defect_sees_a_reflection(pose, axis):
    pose[:3, axis] *= -1
    assert abs(float(poses.rotation_defect(pose)) - 2 * float(pose[:3, 2].abs().max())) < 1e-12


# --- the same bits in every batch -------------------------------------------------------------------------------------


def _inputs(count: int) -> dict[str, Tensor]:
    """Float32 inputs; among them exact, tiny and half turns, and ties between the pivots of `quat_from_matrix`."""
    g = torch.Generator().manual_seed(0)
    quat = torch.randn(count, 4, generator=g)
    quat = quat / poses.vector_norm(quat)
    special = torch.tensor(
        [[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, -1], [0.5, 0.5, 0.5, 0.5], [1, 1e-6, 0, 0], [1e-6, 0, 1, 0]]
    )
    quat[3::11] = special.repeat(count, 1)[: quat[3::11].shape[0]]
    pos, scale = torch.randn(count, 3, generator=g), torch.logspace(-9, 0.5, count)[:, None]
    return {
        "quat": quat,
        "other": quat.roll(5, 0),
        "pos": pos,
        "vec": pos / poses.vector_norm(pos) * scale[torch.randperm(count, generator=g)],
        "pose": poses.pose_from_pos_quat(pos, quat),
        "pose2": poses.pose_from_pos_quat(pos.roll(3, 0), quat.roll(7, 0)),
        "rot": poses.matrix_from_quat(quat),
        "fraction": torch.rand(count, generator=g),
    }


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[str, ...]]] = {
    "make_pose": (poses.make_pose, ("pos", "rot")),
    "pose_from_pos_quat": (poses.pose_from_pos_quat, ("pos", "quat")),
    "compose": (poses.compose, ("pose", "pose2")),
    "rotate": (poses.rotate, ("rot", "pos")),
    "compose_rotations": (poses.compose_rotations, ("rot", "rot")),
    "invert": (poses.invert, ("pose",)),
    "quat_multiply": (poses.quat_multiply, ("quat", "other")),
    "quat_conjugate": (poses.quat_conjugate, ("quat",)),
    "matrix_from_quat": (poses.matrix_from_quat, ("quat",)),
    "quat_from_matrix": (poses.quat_from_matrix, ("rot",)),
    "vector_norm": (poses.vector_norm, ("vec",)),
    "axis_angle_from_quat": (poses.axis_angle_from_quat, ("quat",)),
    "quat_from_axis_angle": (poses.quat_from_axis_angle, ("vec",)),
    "axis_angle_from_matrix": (poses.axis_angle_from_matrix, ("rot",)),
    "matrix_from_axis_angle": (poses.matrix_from_axis_angle, ("vec",)),
    "slerp": (poses.slerp, ("quat", "other", "fraction")),
    "interpolate": (poses.interpolate, ("pose", "pose2", "fraction")),
    "rotation_defect": (poses.rotation_defect, ("pose",)),
}


def test_every_function_is_listed():
    public = {
        n for n, f in vars(poses).items() if callable(f) and not n.startswith("_") and f.__module__ == poses.__name__
    }
    assert public == set(FUNCTIONS)


def _spread(x: Tensor) -> Tensor:
    """The same values, each in the middle of a wider row of a larger tensor."""
    wide = torch.full((x.shape[0] * 3, *(s + 2 for s in x.shape[1:])), torch.nan, dtype=x.dtype)
    inner = wide[1::3][(slice(None), *(slice(1, -1) for _ in x.shape[1:]))]
    inner.copy_(x)
    return inner


def _component_first(x: Tensor) -> Tensor:
    """The same values with the batch as the innermost axis in memory."""
    return x.movedim(0, -1).contiguous().movedim(-1, 0)


def bits(x: Tensor) -> Tensor:
    """Bit patterns, so that -0 differs from 0 and NaN equals itself."""
    return x.contiguous().view(torch.int32 if x.dtype == torch.float32 else torch.int64)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# In float64 only what needs more than sums, products and roots, which round correctly in every kernel.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in FUNCTIONS]
    + [(name, torch.float64) for name in ("axis_angle_from_quat", "quat_from_axis_angle", "interpolate")],
)
def test_bits_do_not_depend_on_the_batch(name, dtype, threads):
    function, keys = FUNCTIONS[name]
    inputs = _inputs(140)
    args = [inputs[k].to(dtype) for k in keys]
    threads(1)
    alone = bits(torch.stack([function(*(a[i] for a in args)) for i in range(140)]))
    one_row = bits(torch.cat([function(*(a[i : i + 1] for a in args)) for i in range(140)]))
    assert torch.equal(alone, one_row)
    for count in (1, 2):
        threads(count)
        for size in range(1, 71):
            for start in (0, size % 7, 140 - size):
                part = [a[start : start + size] for a in args]
                for layout in (lambda x: x, torch.clone, _spread, _component_first):
                    got = bits(function(*(layout(p) for p in part)))
                    assert torch.equal(got, alone[start : start + size]), f"{size=} {start=} threads={count}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_do_not_depend_on_threads_or_leading_axes(name, threads):
    """Large enough to be split among threads (torch's grain is 32768 elements)."""
    function, keys = FUNCTIONS[name]
    count = 36_000
    inputs = _inputs(count)
    args = [inputs[k] for k in keys]
    threads(1)
    whole = bits(function(*args))
    for size in (1, 7, 64, 1000):
        assert torch.equal(bits(function(*(a[-size:] for a in args))), whole[-size:])
    threads(2)
    assert torch.equal(bits(function(*args)), whole)
    folded = bits(function(*(a.reshape(100, 360, *a.shape[1:]) for a in args)))
    assert torch.equal(folded.reshape(whole.shape), whole)
    swapped = function(*(a.reshape(100, 360, *a.shape[1:]).transpose(0, 1) for a in args))
    assert torch.equal(bits(swapped.transpose(0, 1)).reshape(whole.shape), whole)


@pytest.mark.parametrize("name", [name for name, (_, keys) in FUNCTIONS.items() if len(keys) > 1])
def test_bits_do_not_depend_on_broadcasting(name):
    """One argument without a batch axis, or expanded, gives what copies of it give."""
    function, keys = FUNCTIONS[name]
    inputs = _inputs(37)
    args = [inputs[k] for k in keys]
    for fixed in range(len(args)):
        copied = [a if i != fixed else a[:1].repeat(37, *[1] * (a.ndim - 1)) for i, a in enumerate(args)]
        expanded = [a if i != fixed else a[:1].expand_as(a) for i, a in enumerate(args)]
        assert torch.equal(bits(function(*expanded)), bits(function(*copied)))
