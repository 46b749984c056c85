import numpy as np
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


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 70), st.data())
def test_a_row_has_the_same_bits_in_every_batch(seed: int, count: int, data: st.DataObject) -> None:
    x, y = (rigid.from_tensor(random_poses(seed + i, count)) for i in (0, 1))
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    some = slice(first, last)
    for function in (rigid.compose, lambda a, _: rigid.invert(a)):
        assert np.array_equal(function(x, y)[..., some], function(x[..., some].copy(), y[..., some].copy()))
