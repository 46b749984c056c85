import numpy as np
import pytest
import torch
from example_runs import assert_same_episodes, attempts, episodes

from examples.gantry_env import HOME, OPEN_WIDTH, GantryEnv
from mimicpipe import poses
from mimicpipe.envs.tasks.pick import PickTask

GANTRY = ["env=gantry", "pool=scripted", "recorder=npz"]


def test_it_runs_another_task(run):
    folder = run(*GANTRY, "task=stack", "num_demos=3", "env.num_envs=4")
    assert sum(row["success"] for row in attempts(folder)) == 3


def test_num_envs_changes_nothing(run):
    one, four = (run(*GANTRY, "task=place", "num_demos=4", f"env.num_envs={n}") for n in (1, 4))
    assert_same_episodes(one, four)
    assert episodes(one)[0]["action"].shape[1] == 6


def test_a_gripper_carries_what_it_closes_around_and_leaves_it_where_it_opens():
    env = GantryEnv(PickTask(), 2, speed=10.0)
    env.reset(env.all_ids(), np.arange(2))
    cube = env.get_object_poses()["cube"]
    slot = torch.tensor([0])

    def go(position: torch.Tensor, gripper: float) -> None:
        target = env.get_robot_eef_pose("panda").clone()
        target[:, :3, 3] = position
        grippers = {"panda": torch.full((2, 1), gripper)}
        env.step(env.target_eef_pose_to_action({"panda": target}, grippers), slot)

    go(cube[:, :3, 3], 1.0)
    go(cube[:, :3, 3], -1.0)
    lifted = cube[:, :3, 3] + torch.tensor([0.0, 0.1, 0.2])
    go(lifted, -1.0)
    assert env.success().tolist() == [True, False]
    assert torch.equal(env.get_robot_eef_pose("panda")[1, :3, 3], torch.tensor(HOME)), "slot 1 was not stepped"
    go(lifted, 1.0)
    go(cube[:, :3, 3], 1.0)
    assert torch.allclose(env.get_object_poses()["cube"][0, :3, 3], lifted[0], atol=1e-6)


def test_a_state_set_again_has_the_same_future():
    env = GantryEnv(PickTask(), 3)
    actions = torch.rand(20, 3, 6, generator=torch.Generator().manual_seed(0)) - 0.3
    state = env.get_state()
    futures = []
    for _ in range(2):
        env.set_state(state)
        for action in actions:
            env.step(action)
        futures.append(env.get_state())
    assert torch.equal(*futures)
    assert not torch.equal(state, futures[0])


def test_actions_and_targets_are_inverse():
    env = GantryEnv(PickTask(), 2)
    target = env.get_robot_eef_pose("panda")
    action = env.target_eef_pose_to_action({"panda": target}, {"panda": torch.tensor([[1.0], [-1.0]])})
    assert torch.allclose(env.action_to_target_eef_pose(action)["panda"], target, atol=1e-6)
    assert env.actions_to_gripper_actions(action)["panda"].tolist() == [[1.0], [-1.0]]
    assert float(poses.rotation_defect(target).max()) < 1e-6
    assert float(env.observe()["observation.state"][0, -1]) == pytest.approx(OPEN_WIDTH)
