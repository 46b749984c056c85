"""The action layout: poses and actions are inverses, what is clipped, what noise means."""

import math

import pytest
import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs import actions as act
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.errors import ConfigError


def _pose(position: tuple[float, float, float], turn: tuple[float, float, float]) -> Tensor:
    return poses.make_pose(torch.tensor([position]), poses.matrix_from_axis_angle(torch.tensor([turn])))


OPEN = torch.ones(1, 1)
CURRENT = _pose((0.4, 0.1, 0.2), (math.pi - 0.3, 0.2, 0.1))


def test_relative_action_is_scaled_base_frame_motion() -> None:
    turn = torch.tensor([[0.0, 0.0, 0.1]])
    change = poses.matrix_from_axis_angle(turn)
    target = poses.make_pose(CURRENT[:, :3, 3] + 0.01, poses.compose_rotations(change, CURRENT[:, :3, :3]))
    actions = act.poses_to_actions("ik_rel", CURRENT, target, OPEN)
    torch.testing.assert_close(actions, torch.tensor([[0.2, 0.2, 0.2, 0.0, 0.0, 0.2, 1.0]]), atol=1e-5, rtol=0)


def test_relative_action_is_clipped_with_its_noise() -> None:
    target = _pose((1.4, 0.1, -0.8), (math.pi - 0.3, 0.2, 0.1))
    noise = torch.tensor([[-0.5, 0.25, 0.0, 0.0, 0.0, 3.0]])
    actions = act.poses_to_actions("ik_rel", CURRENT, target, torch.full((1, 1), 4.0), noise)
    torch.testing.assert_close(actions, torch.tensor([[1.0, 0.25, -1.0, 0.0, 0.0, 1.0, 1.0]]), atol=2e-6, rtol=0)


@pytest.mark.parametrize("control", act.CONTROLS)
def test_actions_to_poses_is_the_inverse(control: str) -> None:
    target = _pose((0.42, 0.08, 0.23), (math.pi - 0.4, 0.1, 0.2))
    actions = act.poses_to_actions(control, CURRENT, target, OPEN)
    assert actions.shape == (1, act.action_dim(control))
    torch.testing.assert_close(act.actions_to_poses(control, CURRENT, actions), target, atol=2e-6, rtol=0)


def test_absolute_action_is_the_pose() -> None:
    target = _pose((0.5, -0.2, 0.1), (0.1, 0.2, 0.3))
    actions = act.poses_to_actions("ik_abs", CURRENT, target, -OPEN)
    torch.testing.assert_close(actions[:, :3], target[:, :3, 3])
    torch.testing.assert_close(actions[:, 3:7], poses.quat_from_matrix(target[:, :3, :3]))
    assert actions[0, 7] == -1.0


def test_noise_means_the_same_in_both_controls() -> None:
    noise = torch.tensor([[0.1, -0.2, 0.3, 0.05, -0.1, 0.2]])
    reached = [
        act.actions_to_poses(control, CURRENT, act.poses_to_actions(control, CURRENT, CURRENT, OPEN, noise))
        for control in act.CONTROLS
    ]
    torch.testing.assert_close(reached[0], reached[1], atol=2e-6, rtol=0)
    moved = (reached[0] - CURRENT)[0, :3, 3]
    torch.testing.assert_close(moved, act.POSITION_SCALE * noise[0, :3], atol=1e-6, rtol=0)


def test_gripper_part_is_the_last_number() -> None:
    actions = torch.arange(14.0).reshape(2, 7)
    assert act.gripper_part(actions).tolist() == [[6.0], [13.0]]


def test_names_match_the_dimension_and_unknown_control_lists_the_choices() -> None:
    for control in act.CONTROLS:
        feature = act.action_feature(control)
        assert feature.shape == (act.action_dim(control),)
        assert feature.names is not None
        assert len(feature.names) == act.action_dim(control)
    with pytest.raises(ConfigError, match=r"env.control='joint'.*ik_rel, ik_abs"):
        act.check_control("joint")


@pytest.mark.parametrize("control", act.CONTROLS)
def test_every_simulator_speaks_the_same_layout(control: str) -> None:
    """The same state and target give the same action without physics and on MuJoCo, noise and names included."""
    kinematic, physical = KinematicEnv(PickTask(), 1, control=control), MujocoEnv(PickTask(), 1, control=control)
    target = physical.get_robot_eef_pose("panda")
    target[:, :3, 3] += 0.02
    turn = poses.matrix_from_axis_angle(torch.tensor([[0.1, -0.2, 0.3]]))
    target[:, :3, :3] = poses.compose_rotations(turn, target[:, :3, :3])
    # Bring the kinematic eef to where MuJoCo's is, then ask both for the same pose.
    start = {"panda": physical.get_robot_eef_pose("panda")}
    for _ in range(10):
        kinematic.step(kinematic.target_eef_pose_to_action(start, {"panda": OPEN}))
    noise = {"panda": torch.tensor([[0.1, -0.1, 0.2, 0.05, 0.0, -0.1]])}
    wanted = [env.target_eef_pose_to_action({"panda": target}, {"panda": OPEN}, noise) for env in (kinematic, physical)]
    torch.testing.assert_close(wanted[0], wanted[1], atol=1e-5, rtol=0)
    asked = [env.action_to_target_eef_pose(wanted[1])["panda"] for env in (kinematic, physical)]
    torch.testing.assert_close(asked[0], asked[1], atol=1e-5, rtol=0)
    assert kinematic.action_feature == physical.action_feature
    assert (kinematic.noise_dim, kinematic.gripper_dim) == (physical.noise_dim, physical.gripper_dim)
    physical.close()
