"""An eef may wait for its arm before the gripper changes."""

from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.datagen.constraints import SubTaskConstraintConfig, SubTaskConstraintType
from mimicpipe.datagen.planner import SubtaskPlanner
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.settling import gripper_changes
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.datagen.waypoint import subtask_trajectory
from mimicpipe.errors import ConfigError
from mimicpipe.rng import attempt_seeds


def test_a_change_is_where_the_middle_of_the_range_is_crossed() -> None:
    gripper = torch.tensor([0.9, 1.0, 0.8, 0.1, 0.0, 0.2, 1.0])[:, None]
    assert gripper_changes(gripper).tolist() == [False, False, False, True, False, False, True]
    assert not gripper_changes(torch.ones(4, 2)).any()
    assert gripper_changes(torch.tensor([[1.0, 0.0], [1.0, 1.0]])).tolist() == [False, True]


def planned(num_envs: int, settle: int, noise: float = 0.0, **options: Any) -> tuple[Any, ...]:
    env = ArmEnv(num_envs, gripper_dim=2)
    subtasks = [
        SubTaskConfig("cube", "grasp", num_interpolation_steps=2, num_settle_steps=settle, action_noise=noise),
        SubTaskConfig("cube", num_interpolation_steps=3, num_settle_steps=0, action_noise=noise),
    ]
    pool = DataGenInfoPool(env, {"arm": subtasks})
    pool.add_demos([random_demo(env, seed, {"grasp": 9}, 20) for seed in range(3)])
    env.reset(torch.arange(num_envs), attempt_seeds(0, np.arange(num_envs)))
    return env, pool, SubtaskPlanner(env, pool, DataGenConfig(**options))


@settings(deadline=None, derandomize=True, max_examples=15)
@given(st.integers(1, 4), st.integers(0, 2**62))
def test_waiting_is_that_of_the_readable_form_and_without_noise(settle: int, seed: int) -> None:
    env, pool, planner = planned(2, settle, noise=0.1)
    request, quick = planner.request(seed, 3), planned(2, 0, noise=0.1)[2].request(seed, 3)
    batch = planner.plan_batch(torch.tensor([1]), [request])
    plain = quick.planner.plan_batch(torch.tensor([1]), [quick])
    (_, _, demo) = request.chosen[0]
    expected = subtask_trajectory(
        pool.datagen_infos[demo], "arm", (0, 10), pool.subtask_configs["arm"][0],
        object_pose=env.get_object_poses()["cube"][1], start_pose=env.get_robot_eef_pose("arm")[1],
        from_measured_pose=True,
    )  # fmt: skip
    assert int(batch.steps[0]) == len(expected)
    found = batch.eefs["arm"].waypoints[0, : len(expected)]
    torch.testing.assert_close(found[:, :16].view(-1, 4, 4), expected.poses(), rtol=0, atol=1e-5)
    assert torch.equal(found[:, 16:18], expected.gripper_actions())
    changes = int(gripper_changes(pool.datagen_infos[demo].gripper_action["arm"])[1:10].sum())
    assert len(expected) == int(plain.steps[0]) + settle * changes
    quiet = torch.tensor([waypoint.noise == 0.0 for waypoint in expected])
    assert torch.equal(found[:, 18:].abs().amax(dim=1) == 0, quiet)
    # What is not waiting has the noise that it would have had.
    same = plain.eefs["arm"].waypoints[0, : int(plain.steps[0])]
    waits = torch.zeros(len(expected), dtype=torch.bool)
    waits[:-1] = (found[1:, :16] == found[:-1, :16]).all(dim=1)
    assert torch.equal(found[~waits], same)


def test_the_bits_are_the_same_in_every_batch() -> None:
    seeds = attempt_seeds(3, np.arange(6)).tolist()
    env, _, planner = planned(6, 3)
    env.eefs[:], env.objects[:] = env.eefs[:, :1].clone(), env.objects[:, :1].clone()
    together = planner.plan_batch(torch.arange(6), [planner.request(seed, 3) for seed in seeds])
    for row, seed in enumerate(seeds):
        alone = planner.plan_batch(torch.tensor([4]), [planner.request(seed, 3)])
        length = int(alone.eefs["arm"].lengths[0])
        assert int(together.steps[row]) == int(alone.steps[0])
        assert torch.equal(together.eefs["arm"].waypoints[row, :length], alone.eefs["arm"].waypoints[0, :length])


def test_subtasks_that_keep_time_with_others_do_not_wait() -> None:
    env = ArmEnv(1, ("left", "right"))
    subtasks = {"left": [SubTaskConfig("cube", num_settle_steps=2)], "right": [SubTaskConfig("cube")]}
    pool = DataGenInfoPool(env, subtasks)
    both = SubTaskConstraintConfig((("left", 0), ("right", 0)), SubTaskConstraintType.COORDINATION)
    with pytest.raises(ConfigError, match=r"task\.subtasks\.left\[0\]\.num_settle_steps: must be 0"):
        SubtaskPlanner(env, pool, DataGenConfig(), [both])
