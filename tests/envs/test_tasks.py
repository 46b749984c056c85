"""Tasks apart from any simulator: reset distributions, success and signals on hand-made views."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mimicpipe.envs.tasks.base import TaskView
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import ConfigError
from mimicpipe.rng import attempt_seeds

HALF_RANGE = {"D0": 0.08, "D1": 0.20}
TASKS = [PickTask, StackTask]


def at(x: float, y: float, z: float) -> Tensor:
    """(1, 4, 4) upright pose."""
    pose = torch.eye(4)[None].clone()
    pose[0, :3, 3] = torch.tensor([x, y, z])
    return pose


def view(objects: dict[str, Tensor], eef: Tensor, width: float, speed: float = 0.0) -> TaskView:
    speeds = {name: torch.tensor([speed]) for name in objects}
    return TaskView(objects, speeds, {"panda": eef}, {"panda": torch.tensor([width])})


# -- reset distributions


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("variant", ["D0", "D1"])
def test_objects_stand_in_mimicgens_square(kind: type[PickTask | StackTask], variant: str) -> None:
    task = kind(variant)
    poses = task.sample_object_poses(attempt_seeds(0, np.arange(2000)))
    assert list(poses) == [box.name for box in task.objects]
    for box in task.objects:
        pose = poses[box.name]
        assert pose.dtype == torch.float64
        xy = pose[:, :2, 3] - torch.tensor(TABLE_CENTRE, dtype=torch.float64)
        assert xy.abs().max() <= HALF_RANGE[variant]
        # Uniform: near both ends, and the standard deviation of a uniform distribution.
        assert xy.amax() > 0.98 * HALF_RANGE[variant]
        assert xy.amin() < -0.98 * HALF_RANGE[variant]
        np.testing.assert_allclose(xy.std(dim=0), 2 * HALF_RANGE[variant] / math.sqrt(12), rtol=0.1)
        np.testing.assert_allclose(pose[:, 2, 3], box.half_size[2])
        yaw = torch.atan2(pose[:, 1, 0], pose[:, 0, 0])
        counts = torch.histc(yaw, bins=8, min=-math.pi, max=math.pi)
        assert (counts / 2000 - 1 / 8).abs().max() < 0.03
        gram = pose[:, :3, :3] @ pose[:, :3, :3].transpose(1, 2)
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), gram.shape), atol=1e-12)
        assert (torch.linalg.det(pose[:, :3, :3]) > 0).all()


@pytest.mark.parametrize("variant", ["D0", "D1"])
def test_cubes_do_not_overlap(variant: str) -> None:
    poses = StackTask(variant).sample_object_poses(attempt_seeds(1, np.arange(3000)))
    gap = torch.linalg.vector_norm((poses["cubeA"] - poses["cubeB"])[:, :2, 3], dim=1)
    assert gap.min() > math.hypot(0.02, 0.02) + math.hypot(0.025, 0.025)
    assert gap.min() < 0.066  # they may be as close as that


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**40), count=st.integers(1, 40), data=st.data())
def test_a_pose_depends_on_its_seed_alone(seed: int, count: int, data: st.DataObject) -> None:
    task = StackTask(data.draw(st.sampled_from(["D0", "D1"])))
    seeds = attempt_seeds(seed, np.arange(count))
    rows = data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))]
    whole, part = task.sample_object_poses(seeds), task.sample_object_poses(seeds[rows])
    for name, pose in whole.items():
        assert torch.equal(pose[rows], part[name])


@pytest.mark.parametrize("kind", TASKS)
def test_an_unknown_variant_lists_the_valid_ones(kind: type[PickTask | StackTask]) -> None:
    with pytest.raises(ConfigError, match=r"task.variant=D7.*D0, D1"):
        kind("D7")


# -- pick


@pytest.mark.parametrize(
    ("cube_z", "eef_z", "width", "success", "grasp"),
    [
        (0.121, 0.121, 0.04, True, True),
        (0.119, 0.119, 0.04, False, True),  # 9.9 cm of air
        (0.031, 0.031, 0.04, False, True),
        (0.029, 0.029, 0.04, False, False),  # gripped, not lifted
        (0.121, 0.160, 0.04, False, False),  # thrown up, not held
        (0.121, 0.121, 0.08, False, False),  # between open fingers
    ],
)
def test_pick_is_a_gripped_cube_in_the_air(
    cube_z: float, eef_z: float, width: float, success: bool, grasp: bool
) -> None:
    seen = view({"cube": at(0.5, 0.1, cube_z)}, at(0.5, 0.1, eef_z), width)
    assert PickTask().success(seen).tolist() == [success]
    assert PickTask().subtask_term_signals(seen)["grasp"].tolist() == [grasp]


def test_the_air_is_measured_under_the_lowest_corner() -> None:
    tilted = at(0.5, 0.0, 0.123)
    cos, sin = math.cos(0.6), math.sin(0.6)
    tilted[0, :3, :3] = torch.tensor([[1.0, 0.0, 0.0], [0.0, cos, -sin], [0.0, sin, cos]])
    assert not PickTask().success(view({"cube": tilted}, at(0.5, 0.0, 0.123), 0.04))
    assert PickTask().success(view({"cube": at(0.5, 0.0, 0.123)}, at(0.5, 0.0, 0.123), 0.04))


# -- stack

STACKED = view({"cubeA": at(0.5, 0.0, 0.07), "cubeB": at(0.5, 0.0, 0.025)}, at(0.5, 0.0, 0.07), 0.08)


def moved(cube: str, pose: Tensor) -> TaskView:
    return replace(STACKED, object_poses=STACKED.object_poses | {cube: pose})


def with_hand(eef: Tensor, width: float) -> TaskView:
    return replace(STACKED, eef_poses={"panda": eef}, gripper_widths={"panda": torch.tensor([width])})


@pytest.mark.parametrize(
    ("seen", "success"),
    [
        (STACKED, True),
        (moved("cubeA", at(0.52, 0.015, 0.0695)), True),
        (moved("cubeA", at(0.54, 0.0, 0.07)), False),  # beside
        (moved("cubeA", at(0.5, 0.0, 0.08)), False),  # above, in the air
        (moved("cubeA", at(0.5, 0.0, 0.02)), False),  # on the table
        (moved("cubeB", at(0.5, 0.0, 0.04)), False),  # B is off the table
        (with_hand(at(0.5, 0.0, 0.07), 0.04), False),  # still gripped
        (with_hand(at(0.5, 0.0, 0.07), 0.061), True),
        (with_hand(at(0.5, 0.0, 0.15), 0.0), True),  # away, fingers closed
        (replace(STACKED, object_speeds={"cubeA": torch.tensor([0.03]), "cubeB": torch.tensor([0.0])}), False),
        (replace(STACKED, object_speeds={"cubeA": torch.tensor([0.0]), "cubeB": torch.tensor([0.03])}), False),
    ],
)
def test_stack_is_a_on_b_released_and_still(seen: TaskView, success: bool) -> None:
    assert StackTask().success(seen).tolist() == [success]


def test_stack_grasp_is_cube_a_lifted_in_the_fingers() -> None:
    task = StackTask()
    held = view({"cubeA": at(0.4, 0.0, 0.04), "cubeB": at(0.5, 0.0, 0.025)}, at(0.4, 0.0, 0.04), 0.04)
    assert task.subtask_term_signals(held)["grasp"].all()
    wrong = view({"cubeA": at(0.4, 0.0, 0.02), "cubeB": at(0.5, 0.0, 0.05)}, at(0.5, 0.0, 0.05), 0.05)
    assert not task.subtask_term_signals(wrong)["grasp"].any()
    assert not task.subtask_term_signals(STACKED)["grasp"].any()


@pytest.mark.parametrize("kind", TASKS)
def test_nonsense_is_no_success(kind: type[PickTask | StackTask]) -> None:
    broken = {box.name: torch.full((1, 4, 4), torch.nan) for box in kind().objects}
    assert not kind().success(view(broken, at(0.5, 0.0, 0.1), 0.04)).any()
