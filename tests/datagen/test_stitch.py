"""The geometry of a plan's rows; whole plans are compared with a reference in test_planner."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rigid import random_poses

from mimicpipe import poses
from mimicpipe.datagen import stitch


def top_rows(pose: torch.Tensor) -> stitch.Floats:
    return np.ascontiguousarray(pose[:3].numpy())


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 7))
def test_interpolation_is_that_of_the_tensor_geometry(seed: int, between: int) -> None:
    start, goal = random_poses(seed, 1), random_poses(seed + 1, 1)
    out = np.zeros((between + 2, 16), dtype=np.float32)
    stitch._interpolate(top_rows(start[0]), top_rows(goal[0]), between, out)
    for step in range(between):
        fraction = torch.tensor([(step + 1) / (between + 1)], dtype=torch.float64)
        expected = poses.interpolate(start, goal, fraction)[0, :3].flatten()
        np.testing.assert_allclose(out[step, :12], expected, rtol=0, atol=1e-6)
    assert not out[between:].any()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32))
def test_composition_is_that_of_the_tensor_geometry(seed: int) -> None:
    a, b = random_poses(seed, 1), random_poses(seed + 1, 1)
    out = np.empty((3, 4))
    stitch._compose(top_rows(a[0]), top_rows(b[0]), out)
    np.testing.assert_allclose(out, poses.compose(a, b)[0, :3], rtol=0, atol=1e-12)
    stitch._compose_inverse(top_rows(a[0]), top_rows(b[0]), out)
    np.testing.assert_allclose(out, poses.compose(a, poses.invert(b))[0, :3], rtol=0, atol=1e-12)


@pytest.mark.parametrize("axis", [(0.6, -0.48, 0.64), (1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0)])
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 1.0, np.pi - 1e-4, np.pi - 1e-9, np.pi])
def test_a_turn_is_exact_near_no_and_half_a_turn(angle: float, axis: tuple[float, float, float]) -> None:
    start = poses.matrix_from_axis_angle(torch.tensor([[0.3, 0.2, -1.0]], dtype=torch.float64))[0]
    turn = poses.matrix_from_axis_angle(torch.tensor([axis], dtype=torch.float64) * angle)[0]
    found_axis = np.empty(3)
    found = stitch._relative_turn(start.numpy(), (start @ turn).numpy(), found_axis)
    assert found == pytest.approx(angle, abs=1e-8)
    again = poses.matrix_from_axis_angle(torch.from_numpy(found_axis * found)[None])[0]
    torch.testing.assert_close(again, turn, rtol=0, atol=1e-8)
