"""Component-first rotations: they agree with mimicpipe.poses, and their bits do not depend on the batch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs import rows


def _random_rotations(count: int, seed: int = 0) -> Tensor:
    quat = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return poses.matrix_from_quat(quat)


def _rows(rot: Tensor) -> Tensor:
    return rot.permute(1, 2, 0).contiguous()


def _matrices(rot_rows: Tensor) -> Tensor:
    return rot_rows.permute(2, 0, 1)


def test_products_agree_with_matmul() -> None:
    a, b = _random_rotations(50, 1), _random_rotations(50, 2)
    torch.testing.assert_close(_matrices(rows.compose(_rows(a), _rows(b))), a @ b, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        _matrices(rows.compose_inverse(_rows(a), _rows(b))), a @ b.transpose(1, 2), atol=1e-6, rtol=0
    )


def test_quaternions_agree_with_poses() -> None:
    rot = _random_rotations(500)
    quat = rows.quat_from_matrix(_rows(rot))
    assert (quat[0] >= 0).all()
    torch.testing.assert_close(poses.matrix_from_quat(quat.t()), rot, atol=2e-6, rtol=0)
    torch.testing.assert_close(_matrices(rows.matrix_from_quat(-3.0 * quat)), rot, atol=2e-6, rtol=0)


@settings(deadline=None, max_examples=100)
@given(
    st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda axis: math.hypot(*axis) > 0.1),
    st.one_of(st.floats(0.0, math.pi), st.floats(math.pi - 1e-3, math.pi), st.floats(0.0, 1e-5)),
)
def test_axis_angle_round_trip_up_to_half_a_turn(axis: tuple[float, float, float], angle: float) -> None:
    unit = torch.tensor(axis, dtype=torch.float64)
    vec = (unit / unit.norm() * angle).float()[:, None]
    rot = rows.matrix_from_axis_angle(vec)
    back = rows.axis_angle_from_matrix(rot)
    assert torch.isfinite(back).all()
    assert rows.norm(back).item() <= math.pi + 1e-6
    # Near half a turn v and -v are neighbours: compare what they do, and their length.
    torch.testing.assert_close(rows.matrix_from_axis_angle(back), rot, atol=2e-6, rtol=0)
    assert abs(rows.norm(back).item() - angle) < 1e-3 * max(angle, 1e-3)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_exact_half_turn_and_identity(axis: int) -> None:
    diagonal = -torch.ones(3)
    diagonal[axis] = 1.0
    vec = rows.axis_angle_from_matrix(torch.diag(diagonal)[:, :, None])
    expected = torch.zeros(3, 1)
    expected[axis] = math.pi
    torch.testing.assert_close(vec.abs(), expected)
    assert torch.equal(rows.axis_angle_from_matrix(torch.eye(3)[:, :, None]), torch.zeros(3, 1))
    assert torch.equal(rows.matrix_from_axis_angle(torch.zeros(3, 1)), torch.eye(3)[:, :, None])


def test_pose_rows_round_trip() -> None:
    pose = poses.make_pose(torch.randn(7, 3), _random_rotations(7))
    assert torch.equal(rows.to_poses(*rows.from_poses(pose)), pose)


def _everything(vec: Tensor, rot: Tensor) -> Tensor:
    """All formulas chained, (C, N)."""
    turned = rows.compose(rows.matrix_from_axis_angle(vec), rot)
    error = rows.compose_inverse(turned, rot)
    quat = rows.quat_from_matrix(turned)
    parts = (turned.flatten(0, 1), rows.axis_angle_from_matrix(error), quat, rows.axis_angle_from_quat(quat))
    return torch.cat((*parts, rows.matrix_from_quat(quat).flatten(0, 1)))


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 17, 64])
def test_bits_do_not_depend_on_the_batch(batch: int) -> None:
    vec = torch.randn(3, 448, generator=torch.Generator().manual_seed(4))
    rot = _rows(_random_rotations(448, 5))
    whole = _everything(vec, rot)
    for start in range(0, 448 - batch + 1, batch):
        part = _everything(vec[:, start : start + batch].contiguous(), rot[..., start : start + batch].contiguous())
        assert torch.equal(part, whole[:, start : start + batch])
