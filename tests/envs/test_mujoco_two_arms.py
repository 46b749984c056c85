"""Two arms in one slot: each with its base, its part of state and action, and its own hand."""

import math
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco.panda import ARM_JOINTS
from mimicpipe.envs.tasks.base import ArmBase
from mimicpipe.envs.tasks.bimanual_lift import BimanualLiftTask
from mimicpipe.errors import ConfigError
from mimicpipe.rng import attempt_seeds
from mimicpipe.tools.make_source_demos import record

ARMS = ("left", "right")
OPEN = dict.fromkeys(ARMS, torch.ones(2, 1))


class FacingTask(BimanualLiftTask):
    """The arms stand at two ends of the table and look at each other."""

    bases = (ArmBase((0.0, 0.1, 0.0), 0.2), ArmBase((1.1, 0.0, 0.05), math.pi))


@pytest.fixture(params=["ik_rel", "ik_abs"])
def env(request: pytest.FixtureRequest) -> Iterator[MujocoEnv]:
    env = MujocoEnv(BimanualLiftTask(), 2, control=request.param, threads=1)
    env.reset(env.all_ids(), attempt_seeds(0, np.arange(2)))
    yield env
    env.close()


def follow(env: MujocoEnv, targets: dict[str, Tensor], steps: int) -> None:
    for _ in range(steps):
        env.step(env.target_eef_pose_to_action(targets, OPEN))


@pytest.mark.parametrize("task", [BimanualLiftTask, FacingTask])
def test_each_hand_is_where_mujoco_has_it(task: type[BimanualLiftTask]) -> None:
    env = MujocoEnv(task(), 2, threads=1)
    env.reset(env.all_ids(), attempt_seeds(5, np.arange(2)))
    data = mujoco.MjData(env.model)
    for slot, state in enumerate(env.get_state().numpy()):
        data.qpos[:] = state[1 : 1 + env.model.nq]
        mujoco.mj_kinematics(env.model, data)
        for eef in ARMS:
            pose = env.get_robot_eef_pose(eef)[slot].numpy()
            site = data.site(f"{eef}_panda_grasp")
            np.testing.assert_allclose(pose[:3, 3], site.xpos, rtol=0, atol=1e-6)
            np.testing.assert_allclose(pose[:3, :3], site.xmat.reshape(3, 3), rtol=0, atol=1e-6)
    env.close()


@pytest.mark.parametrize("task", [BimanualLiftTask, FacingTask])
def test_both_hands_reach_their_targets_wherever_their_arms_stand(task: type[BimanualLiftTask]) -> None:
    env = MujocoEnv(task(), 2, threads=1)
    env.reset(env.all_ids(), attempt_seeds(0, np.arange(2)))
    targets = {}
    for eef, shift in (("left", [0.05, 0.04, -0.03]), ("right", [-0.04, -0.03, 0.05])):
        targets[eef] = env.get_robot_eef_pose(eef)
        targets[eef][:, :3, 3] += torch.tensor(shift)
    follow(env, targets, 60)
    for eef, target in targets.items():
        assert poses.vector_norm((env.get_robot_eef_pose(eef) - target)[:, :3, 3]).max() < 0.004, eef
    env.close()


def test_an_arm_moves_by_its_own_part_of_the_action(env: MujocoEnv) -> None:
    start = {eef: env.get_robot_eef_pose(eef) for eef in ARMS}
    targets = {eef: pose.clone() for eef, pose in start.items()}
    targets["right"][:, 2, 3] -= 0.08
    follow(env, targets, 30)
    moved = {eef: poses.vector_norm((env.get_robot_eef_pose(eef) - start[eef])[:, :3, 3]).max() for eef in ARMS}
    assert moved["right"] > 0.07
    assert moved["left"] < 0.002


def test_grippers_close_one_by_one(env: MujocoEnv) -> None:
    targets = {eef: env.get_robot_eef_pose(eef) for eef in ARMS}
    for _ in range(20):
        env.step(env.target_eef_pose_to_action(targets, OPEN | {"left": -torch.ones(2, 1)}))
    widths = env.observe()["observation.state"][:, [7, 15]]
    assert (widths[:, 0] < 0.002).all()
    assert (widths[:, 1] > 0.078).all()


def test_targets_come_back_from_actions(env: MujocoEnv) -> None:
    turn = poses.matrix_from_axis_angle(torch.tensor([[0.1, -0.2, 0.15]])).expand(2, 3, 3)
    targets = {}
    for eef, shift in (("left", [0.01, 0.02, -0.01]), ("right", [-0.02, 0.0, 0.01])):
        pose = env.get_robot_eef_pose(eef)
        position = pose[:, :3, 3] + torch.tensor(shift)
        targets[eef] = poses.make_pose(position, poses.compose_rotations(turn, pose[:, :3, :3]))
    grippers = {"left": torch.ones(2, 1), "right": -torch.ones(2, 1)}
    actions = env.target_eef_pose_to_action(targets, grippers)
    assert actions.shape == (2, env.action_dim)
    for eef, target in env.action_to_target_eef_pose(actions).items():
        torch.testing.assert_close(target, targets[eef], atol=2e-6, rtol=0)
        assert torch.equal(env.actions_to_gripper_actions(actions)[eef], grippers[eef])
    one = torch.tensor([1])
    row = env.target_eef_pose_to_action(
        {eef: target[one] for eef, target in targets.items()}, {e: g[one] for e, g in grippers.items()}, env_ids=one
    )
    assert torch.equal(row, actions[one])


def test_noise_is_added_to_its_arm(env: MujocoEnv) -> None:
    targets = {eef: env.get_robot_eef_pose(eef) for eef in ARMS}
    noise = {
        "left": torch.zeros(2, 6),
        "right": torch.tensor([[0.2, 0.0, 0.0, 0.0, 0.0, 0.0]]).expand(2, 6).contiguous(),
    }
    asked = env.action_to_target_eef_pose(env.target_eef_pose_to_action(targets, OPEN, noise))
    moved = {eef: (asked[eef] - targets[eef])[:, 0, 3] for eef in ARMS}
    torch.testing.assert_close(moved["right"], torch.full((2,), 0.01), atol=2e-6, rtol=0)
    torch.testing.assert_close(moved["left"], torch.zeros(2), atol=2e-6, rtol=0)


def test_features_have_the_arms_one_behind_the_other(env: MujocoEnv) -> None:
    joints = (*ARM_JOINTS, "panda_gripper_width")
    names = {name: feature.names or () for name, feature in env.observation_features.items()}
    assert names["observation.state"] == tuple(f"{eef}_{joint}" for eef in ARMS for joint in joints)
    assert names["observation.eef_pose"][7:9] == ("right_x", "right_y")
    half = env.action_dim // 2
    assert env.action_feature.names is not None
    assert [name.removeprefix("left_") for name in env.action_feature.names[:half]] == [
        name.removeprefix("right_") for name in env.action_feature.names[half:]
    ]
    assert env.action_feature.shape == (env.action_dim,)
    observed, state = env.observe(), env.get_state()
    for index, eef in enumerate(ARMS):
        pose = observed["observation.eef_pose"][:, 7 * index : 7 * index + 7]
        position = env.get_robot_eef_pose(eef)[:, :3, 3]
        assert torch.equal(pose[:, :3], position)
        shown = observed["observation.state"][:, 8 * index : 8 * index + 8]
        assert torch.equal(shown[:, :7], state[:, 1 + 9 * index : 8 + 9 * index].float())
    for name, value in observed.items():
        assert value.shape[1:] == env.observation_features[name].shape


def test_each_arm_has_its_own_start_noise(env: MujocoEnv) -> None:
    left, right = env.get_state()[:, 1:8], env.get_state()[:, 10:17]
    assert ((left - right).abs() > 1e-5).any(dim=1).all()
    assert (left[0] != left[1]).any()


def test_hands_meet_and_do_not_pass_through_each_other(env: MujocoEnv) -> None:
    middle = {eef: env.get_robot_eef_pose(eef) for eef in ARMS}
    for pose in middle.values():
        pose[:, :3, 3] = torch.tensor([0.5, 0.0, 0.3])
    follow(env, middle, 60)
    apart = (env.get_robot_eef_pose("left") - env.get_robot_eef_pose("right"))[:, :3, 3]
    # Both point down with the fingers' axis from hand to hand: 0.1 m from a hand's middle to its side.
    assert (apart[:, 1] > 0.15).all()
    assert env.finite().all()


def test_an_action_that_is_not_finite_is_refused_for_either_arm(env: MujocoEnv) -> None:
    half = env.action_dim // 2
    still = env.target_eef_pose_to_action({eef: env.get_robot_eef_pose(eef) for eef in ARMS}, OPEN)
    for column in (0, half - 1, half, env.action_dim - 1):
        action = still.clone()
        action[1, column] = torch.nan
        with pytest.raises(ValueError, match="slot 1 asks for no finite motion"):
            env.step(action)


class ThreeArms(BimanualLiftTask):
    eef_names = ("left", "middle", "right")


class OneBase(BimanualLiftTask):
    bases = (ArmBase(),)


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"takes 1 to 2 arms"):
        MujocoEnv(ThreeArms(), 1)
    with pytest.raises(ConfigError, match=r"2 eef_names but 1 bases"):
        MujocoEnv(OneBase(), 1)
    with pytest.raises(ConfigError, match=r"no camera wrist; choose from front, left_wrist, right_wrist"):
        MujocoEnv(BimanualLiftTask(), 1, cameras=["wrist"])


def test_an_expert_of_two_arms_does_the_same_at_every_num_envs() -> None:
    one, four = (record(BimanualLiftTask(), 2, 11, num_envs) for num_envs in (1, 4))
    assert one.seeds == four.seeds
    for a, b in zip(one.demos, four.demos, strict=True):
        assert torch.equal(a.actions, b.actions)
        for eef in ARMS:
            assert torch.equal(a.info.eef_pose[eef], b.info.eef_pose[eef])
        assert all(torch.equal(a.observations[name], b.observations[name]) for name in a.observations)
