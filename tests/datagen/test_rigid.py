import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import poses
from mimicpipe.datagen import rigid


def random_poses(seed: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    vector = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    angle = torch.rand(count, 1, generator=generator, dtype=torch.float64) * torch.pi
    rotation = poses.matrix_from_axis_angle(vector / vector.norm(dim=1, keepdim=True) * angle)
    return poses.make_pose(torch.randn(count, 3, generator=generator, dtype=torch.float64), rotation)


def as_tensor(pose: rigid.Floats) -> torch.Tensor:
    return torch.from_numpy(pose).permute(2, 0, 1)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_agrees_with_the_tensor_geometry(seed: int, count: int) -> None:
    a, b = random_poses(seed, count), random_poses(seed + 1, count)
    x, y = rigid.from_tensor(a), rigid.from_tensor(b)
    torch.testing.assert_close(as_tensor(x), a[:, :3], rtol=0, atol=0)
    torch.testing.assert_close(as_tensor(rigid.compose(x, y)), poses.compose(a, b)[:, :3], rtol=0, atol=1e-12)
    torch.testing.assert_close(as_tensor(rigid.invert(x)), poses.invert(a)[:, :3], rtol=0, atol=1e-12)
    axis, angle = rigid.axis_and_angle(x[:, :3])
    vector = poses.axis_angle_from_matrix(a[:, :3, :3])
    torch.testing.assert_close(torch.from_numpy(axis * angle).T, vector, rtol=0, atol=1e-7)
    fraction = np.linspace(0.1, 0.9, 3)[:, None].repeat(count, axis=1)
    between = rigid.interpolate(x, y, fraction)
    for step in range(3):
        expected = poses.interpolate(a, b, torch.from_numpy(fraction[step]))[:, :3]
        torch.testing.assert_close(as_tensor(between[:, :, step].astype(np.float64)), expected, rtol=0, atol=1e-6)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 70), st.data())
def test_a_row_has_the_same_bits_in_every_batch(seed: int, count: int, data: st.DataObject) -> None:
    x, y = (rigid.from_tensor(random_poses(seed + i, count)) for i in (0, 1))
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    fraction = np.random.default_rng(seed).random((4, count))
    some = slice(first, last)
    for function in (rigid.compose, lambda a, _: rigid.invert(a), lambda a, _: rigid.axis_and_angle(a[:, :3])[0]):
        assert np.array_equal(function(x, y)[..., some], function(x[..., some].copy(), y[..., some].copy()))
    whole = rigid.interpolate(x, y, fraction)[..., some]
    assert np.array_equal(whole, rigid.interpolate(x[..., some].copy(), y[..., some].copy(), fraction[:, some].copy()))


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 1.0, np.pi - 1e-4, np.pi - 1e-9, np.pi])
def test_axis_and_angle_is_exact_near_no_and_half_a_turn(angle: float) -> None:
    axis = np.asarray([0.6, -0.48, 0.64])
    rotation = poses.matrix_from_axis_angle(torch.from_numpy(axis * angle)[None])
    found_axis, found = rigid.axis_and_angle(rotation.permute(1, 2, 0).numpy())
    assert found[0] == pytest.approx(angle, abs=1e-8)
    again = poses.matrix_from_axis_angle(torch.from_numpy((found_axis * found).T))
    torch.testing.assert_close(again, rotation, rtol=0, atol=1e-8)
