"""KinematicEnv: motion, gripping, falling, bits that do not depend on the batch, exact state."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.kinematic import HOME_POSITION, MAX_WIDTH, KinematicEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import ConfigError

EEF = "panda"


def _seeds(count: int, run_seed: int = 0) -> rng.Seeds:
    return rng.attempt_seeds(run_seed, np.arange(count))


def _env(task: Task | None = None, num_envs: int = 4, **kwargs: Any) -> KinematicEnv:
    env = KinematicEnv(task or PickTask(), num_envs, **kwargs)
    env.reset(env.all_ids(), _seeds(num_envs))
    return env


def _go(env: KinematicEnv, pose: Tensor, gripper: float, steps: int = 1, env_ids: Tensor | None = None) -> None:
    """Command a target pose (K, 4, 4) for a number of steps."""
    for _ in range(steps):
        target = {EEF: pose}
        action = env.target_eef_pose_to_action(target, {EEF: torch.full((pose.shape[0], 1), gripper)}, env_ids=env_ids)
        if env_ids is None:
            env.step(action)
        else:
            full = torch.full((env.num_envs, env.action_dim), float("nan"))
            full[env_ids] = action
            env.step(full, env_ids)


def _down(position: Tensor) -> Tensor:
    """Poses (N, 4, 4) at positions (N, 3), approach axis down."""
    return poses.make_pose(position, torch.diag(torch.tensor([1.0, -1.0, -1.0])).expand(len(position), 3, 3))


def _grasp(env: KinematicEnv, name: str) -> Tensor:
    """Close the gripper on an object; the grasp poses (N, 4, 4)."""
    pose = _down(env.get_object_poses()[name][:, :3, 3])
    _go(env, pose, GRIPPER_OPEN, 15)
    _go(env, pose, GRIPPER_CLOSE, 5)
    return pose


def _raised(pose: Tensor, height: float) -> Tensor:
    pose = pose.clone()
    pose[:, 2, 3] += height
    return pose


def _width(env: KinematicEnv) -> Tensor:
    return env.observe()["observation.state"][:, 6]


# -- motion


def test_reset_is_home_with_an_open_gripper_and_sampled_objects() -> None:
    env = _env(StackTask("D1"), 6)
    pose = env.get_robot_eef_pose(EEF)
    torch.testing.assert_close(pose, _down(torch.tensor(HOME_POSITION).expand(6, 3)))
    assert torch.equal(_width(env), torch.full((6,), MAX_WIDTH))
    sampled = env.task.sample_object_poses(_seeds(6))
    for name, object_pose in env.get_object_poses().items():
        assert torch.equal(object_pose, sampled[name].float())


@pytest.mark.parametrize("control", ["ik_rel", "ik_abs"])
def test_eef_goes_where_it_is_told(control: str) -> None:
    env = _env(control=control)
    target = env.get_robot_eef_pose(EEF)
    target[:, :3, 3] += 0.03
    turn = poses.matrix_from_axis_angle(torch.tensor([[0.1, -0.2, 0.3]]))
    target[:, :3, :3] = poses.compose_rotations(turn, target[:, :3, :3])
    _go(env, target, GRIPPER_OPEN)
    torch.testing.assert_close(env.get_robot_eef_pose(EEF), target, atol=1e-6, rtol=0)


@pytest.mark.parametrize("control", ["ik_rel", "ik_abs"])
@pytest.mark.parametrize("lag", [0.5, 0.8])
def test_lag_is_the_part_of_the_way_left(control: str, lag: float) -> None:
    env = _env(control=control, lag=lag)
    start = env.get_robot_eef_pose(EEF)
    target = start.clone()
    target[:, 0, 3] += 0.04
    target[:, :3, :3] = poses.compose_rotations(
        poses.matrix_from_axis_angle(torch.tensor([[0.0, 0.0, 0.4]])), start[:, :3, :3]
    )
    _go(env, target, GRIPPER_OPEN)
    expected = poses.interpolate(start, target, torch.full((4,), 1.0 - lag))
    torch.testing.assert_close(env.get_robot_eef_pose(EEF), expected, atol=1e-6, rtol=0)


def test_actions_beyond_the_range_move_one_unit() -> None:
    env = _env(num_envs=1)
    env.step(torch.tensor([[9.0, -9.0, 0.0, 0.0, 0.0, 5.0, 1.0]]))
    moved = env.get_robot_eef_pose(EEF)[0, :3, 3] - torch.tensor(HOME_POSITION)
    torch.testing.assert_close(moved, torch.tensor([0.05, -0.05, 0.0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(env.observe()["observation.state"][0, 3:6], torch.tensor([0.0, 0.0, 0.5]))


@pytest.mark.parametrize("control", ["ik_rel", "ik_abs"])
def test_target_of_an_action_is_where_the_eef_goes(control: str) -> None:
    env = _env(num_envs=3, control=control)
    actions = torch.rand(3, env.action_dim, generator=torch.Generator().manual_seed(1)) * 2 - 1
    target = env.action_to_target_eef_pose(actions)[EEF]
    env.step(actions)
    torch.testing.assert_close(env.get_robot_eef_pose(EEF), target, atol=1e-6, rtol=0)


def test_noise_moves_the_target() -> None:
    env = _env(num_envs=1)
    home = {EEF: env.get_robot_eef_pose(EEF)}
    noise = torch.tensor([[0.2, 0.0, 0.0, 0.0, 0.0, 0.1]])
    env.step(env.target_eef_pose_to_action(home, {EEF: torch.ones(1, 1)}, {EEF: noise}))
    state = env.observe()["observation.state"][0]
    assert state[0].item() == pytest.approx(HOME_POSITION[0] + 0.01, abs=1e-6)
    assert state[5].item() == pytest.approx(0.05, abs=1e-6)


def test_rotations_stay_rotations_over_a_long_episode() -> None:
    env = _env(StackTask(), 8)
    generator = torch.Generator().manual_seed(3)
    for _ in range(5000):
        env.step(torch.rand(8, 7, generator=generator) * 2 - 1)
    assert poses.rotation_defect(env.get_robot_eef_pose(EEF)).max().item() < 1e-4


# -- gripping and falling


def test_closing_gripper_carries_the_box_rigidly() -> None:
    env = _env(PickTask("D1"), 8)
    pose = _grasp(env, "cube")
    torch.testing.assert_close(_width(env), torch.full((8,), 0.04))
    grasp = poses.compose(poses.invert(env.get_robot_eef_pose(EEF)), env.get_object_poses()["cube"])
    _go(env, _raised(pose, 0.15), GRIPPER_CLOSE, 6)
    turned = _raised(pose, 0.15)
    turned[:, :3, :3] = poses.compose_rotations(
        poses.matrix_from_axis_angle(torch.tensor([[0.3, 0.2, 0.8]])), turned[:, :3, :3]
    )
    _go(env, turned, GRIPPER_CLOSE, 6)
    now = poses.compose(poses.invert(env.get_robot_eef_pose(EEF)), env.get_object_poses()["cube"])
    torch.testing.assert_close(now, grasp, atol=3e-6, rtol=0)
    assert env.success().all()
    assert all(signal.all() for signal in env.get_subtask_term_signals().values())


def test_released_box_drops_to_the_table_and_comes_to_rest() -> None:
    env = _env()
    pose = _grasp(env, "cube")
    _go(env, _raised(pose, 0.15), GRIPPER_CLOSE, 5)
    before = env.get_object_poses()["cube"][:, :3, 3]
    _go(env, _raised(pose, 0.15), GRIPPER_OPEN, 2)
    after = env.get_object_poses()["cube"][:, :3, 3]
    torch.testing.assert_close(after[:, :2], before[:, :2])
    torch.testing.assert_close(after[:, 2], torch.full((4,), 0.02))
    assert not env.success().any()


@pytest.mark.parametrize(("gap", "taken"), [(0.0, True), (0.022, True), (0.028, False)])
def test_only_a_box_at_the_grasp_point_is_taken(gap: float, taken: bool) -> None:
    env = _env(num_envs=3)
    cube = env.get_object_poses()["cube"]
    pose = _down(cube[:, :3, 3] + gap * cube[:, :3, 0])  # along the cube's own x axis
    _go(env, pose, GRIPPER_OPEN, 15)
    _go(env, pose, GRIPPER_CLOSE, 5)
    _go(env, _raised(pose, 0.1), GRIPPER_CLOSE, 5)
    lifted = env.get_object_poses()["cube"][:, 2, 3] > 0.1
    assert lifted.tolist() == [taken] * 3
    torch.testing.assert_close(_width(env), torch.full((3,), 0.04 if taken else 0.0), atol=2e-3, rtol=0)


def test_a_closed_gripper_takes_nothing() -> None:
    env = _env()
    pose = _down(env.get_object_poses()["cube"][:, :3, 3])
    _go(env, _raised(pose, 0.2), GRIPPER_CLOSE, 15)
    _go(env, pose, GRIPPER_CLOSE, 5)
    _go(env, _raised(pose, 0.1), GRIPPER_CLOSE, 5)
    assert (env.get_object_poses()["cube"][:, 2, 3] < 0.021).all()


def _stack(env: KinematicEnv, lowered_to: float) -> None:
    pose = _grasp(env, "cubeA")
    _go(env, _raised(pose, 0.15), GRIPPER_CLOSE, 5)
    above = _down(env.get_object_poses()["cubeB"][:, :3, 3])
    above[:, 2, 3] = 0.17
    _go(env, above, GRIPPER_CLOSE, 15)
    above[:, 2, 3] = lowered_to
    _go(env, above, GRIPPER_CLOSE, 4)
    assert not env.success().any()
    _go(env, above, GRIPPER_OPEN, 8)


@pytest.mark.parametrize("lowered_to", [0.065, 0.075, 0.10])
def test_released_on_another_box_it_stays_there(lowered_to: float) -> None:
    env = _env(StackTask("D1"), 6)
    _stack(env, lowered_to)
    heights = env.get_object_poses()["cubeA"][:, 2, 3]
    torch.testing.assert_close(heights, torch.full((6,), 0.07))
    assert env.success().all()


def test_released_beside_another_box_it_falls_to_the_table() -> None:
    env = _env(StackTask(), 3)
    pose = _grasp(env, "cubeA")
    _go(env, _raised(pose, 0.15), GRIPPER_CLOSE, 5)
    beside = _down(env.get_object_poses()["cubeB"][:, :3, 3] + torch.tensor([0.05, 0.0, 0.0]))
    beside[:, 2, 3] = 0.17
    _go(env, beside, GRIPPER_CLOSE, 15)
    _go(env, beside, GRIPPER_OPEN, 3)
    torch.testing.assert_close(env.get_object_poses()["cubeA"][:, 2, 3], torch.full((3,), 0.02))


# -- determinism and state


def _rollout(env: KinematicEnv, actions: Tensor) -> Tensor:
    """Every observation, success and signal of a rollout, (N, T, C); actions (T, N, A)."""
    frames = []
    for action in actions:
        env.step(action)
        signals = torch.stack([env.success(), *env.get_subtask_term_signals().values()], dim=1)
        frames.append(torch.cat((*env.observe().values(), signals), dim=1))
    return torch.stack(frames, dim=1)


@pytest.mark.parametrize("control", ["ik_rel", "ik_abs"])
@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_bits_do_not_depend_on_the_batch(control: str, batch: int) -> None:
    """Same seeds and actions at 64 slots and in batches of 1, 2, 7: the same bits, through grasps and drops."""
    total, steps = 64, 12
    seeds = _seeds(total)
    generator = torch.Generator().manual_seed(0)
    whole = KinematicEnv(StackTask("D1"), total, control=control, lag=0.2)
    whole.reset(whole.all_ids(), seeds)
    actions = torch.rand(steps, total, whole.action_dim, generator=generator) * 2 - 1
    # Half of the steps reach for cube A, closing in the end, so that grasps and releases happen.
    state = whole.get_state()
    reach = []
    for step in range(2 * steps):
        gripper = torch.full((total, 1), GRIPPER_CLOSE if 14 <= step < 20 else GRIPPER_OPEN)
        target = _down(whole.get_object_poses()["cubeA"][:, :3, 3])
        reach.append(whole.target_eef_pose_to_action({EEF: target}, {EEF: gripper}))
        whole.step(reach[-1])
    actions = torch.cat((torch.stack(reach), actions))
    whole.set_state(state)
    expected = _rollout(whole, actions)
    for start in range(0, total - batch + 1, max(batch, 16)):
        part = slice(start, start + batch)
        env = KinematicEnv(StackTask("D1"), batch, control=control, lag=0.2)
        env.reset(env.all_ids(), seeds[part])
        assert torch.equal(_rollout(env, actions[:, part]), expected[part])


def test_actions_from_poses_do_not_depend_on_the_batch() -> None:
    env = _env(num_envs=64)
    pose = env.get_robot_eef_pose(EEF)
    turn = 0.2 * torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
    pose[:, :3, :3] = poses.compose_rotations(poses.matrix_from_axis_angle(turn), pose[:, :3, :3])
    gripper = torch.ones(64, 1)
    whole = env.target_eef_pose_to_action({EEF: pose}, {EEF: gripper})
    for ids in (torch.tensor([5]), torch.tensor([3, 63]), torch.arange(7, 31)):
        part = env.target_eef_pose_to_action({EEF: pose[ids]}, {EEF: gripper[ids]}, env_ids=ids)
        assert torch.equal(part, whole[ids])


def test_a_part_of_the_slots_is_stepped_and_the_rest_left_alone() -> None:
    env, reference = _env(StackTask(), 6), _env(StackTask(), 6)
    ids = torch.tensor([1, 4])
    actions = torch.rand(6, 7, generator=torch.Generator().manual_seed(2)) * 2 - 1
    untouched = env.get_state()
    poisoned = torch.full_like(actions, float("nan"))
    poisoned[ids] = actions[ids]
    env.step(poisoned, ids)
    reference.step(actions)
    expected = untouched.clone()
    expected[ids] = reference.get_state(ids)
    assert torch.equal(env.get_state(), expected)
    assert torch.equal(env.get_robot_eef_pose(EEF, ids), reference.get_robot_eef_pose(EEF)[ids])
    for name, values in env.observe(ids).items():
        assert torch.equal(values, env.observe()[name][ids])
    for name, signal in env.get_subtask_term_signals(ids).items():
        assert torch.equal(signal, env.get_subtask_term_signals()[name][ids])


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31), st.integers(1, 9))
def test_restored_state_has_the_same_future(seed: int, split: int) -> None:
    env = _env(StackTask(), 3, lag=0.1)
    actions = torch.rand(10, 3, 7, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    _rollout(env, actions[:split])
    state = env.get_state()
    assert state.dtype == torch.float64
    expected = _rollout(env, actions[split:])
    other = KinematicEnv(StackTask(), 3, lag=0.1)
    other.set_state(state)
    assert torch.equal(_rollout(other, actions[split:]), expected)
    other.set_state(state[1:2], torch.tensor([2]))
    assert torch.equal(other.get_state()[2], state[1])


def test_what_is_returned_does_not_change_with_the_next_step() -> None:
    env = _env()
    taken = [env.get_robot_eef_pose(EEF), env.get_object_poses()["cube"], *env.observe().values(), env.get_state()]
    copies = [tensor.clone() for tensor in taken]
    _grasp(env, "cube")
    assert all(torch.equal(a, b) for a, b in zip(taken, copies, strict=True))


def test_what_is_returned_may_be_written_to() -> None:
    env = _env()
    action = env.target_eef_pose_to_action({EEF: env.get_robot_eef_pose(EEF)}, {EEF: torch.ones(4, 1)})
    signals = env.get_subtask_term_signals()["grasp"]
    for tensor in (action, env.success(), signals, env.get_state(), *env.observe().values()):
        tensor.zero_()
    assert not env.success().any()


# -- what the dataset sees


def test_observations_match_their_features() -> None:
    env = _env(StackTask(), 5)
    _grasp(env, "cubeA")
    observation = env.observe()
    assert set(observation) == set(env.observation_features)
    for name, feature in env.observation_features.items():
        assert observation[name].shape == (5, *feature.shape)
        assert observation[name].dtype == torch.float32
        assert feature.names is not None
        assert len(feature.names) == feature.shape[0]
    eef = observation["observation.eef_pose"]
    torch.testing.assert_close(
        poses.pose_from_pos_quat(eef[:, :3], eef[:, 3:]), env.get_robot_eef_pose(EEF), atol=1e-6, rtol=0
    )
    boxes = observation["observation.environment_state"].reshape(5, 2, 7)
    for index, pose in enumerate(env.get_object_poses().values()):
        read = poses.pose_from_pos_quat(boxes[:, index, :3], boxes[:, index, 3:])
        torch.testing.assert_close(read, pose, atol=1e-6, rtol=0)


def test_eef_quaternion_keeps_its_sign_while_the_gripper_turns() -> None:
    env = _env(num_envs=1)
    last = env.observe()["observation.eef_pose"][0, 3:]
    for step in range(40):
        turn = 0.15 if step < 20 else -0.15
        env.step(torch.tensor([[0.0, 0.0, 0.0, 0.01 * (-1) ** step, 0.0, turn / 0.5, 1.0]]))
        quat = env.observe()["observation.eef_pose"][0, 3:]
        assert (quat * last).sum().item() > 0.9
        last = quat


def test_non_finite_slots_are_named() -> None:
    env = _env()
    actions = torch.zeros(4, 7)
    actions[2, 0] = math.nan
    env.step(actions)
    assert env.finite().tolist() == [True, True, False, True]


# -- refusals


class _TwoArms(PickTask):
    eef_names = ("left", "right")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_envs": 0}, r"env\.num_envs=0"),
        ({"lag": 1.0}, r"env\.lag=1\.0.*\[0, 1\)"),
        ({"control": "joint"}, r"env\.control='joint'.*ik_rel, ik_abs"),
        ({"cameras": ["front"]}, r"env\.cameras=\['front'\].*env=mujoco"),
        ({"task": _TwoArms()}, r"one eef.*left, right"),
    ],
)
def test_bad_arguments_are_one_line(kwargs: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"task": PickTask(), "num_envs": 2, **kwargs}
    with pytest.raises(ConfigError, match=message):
        KinematicEnv(**arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_without_cuda_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"env\.device=cuda:0.*cpu"):
        KinematicEnv(PickTask(), 1, device="cuda:0")


def test_actions_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 7\), got \(2, 7\)"):
        _env().step(torch.zeros(2, 7), torch.tensor([0, 1]))


def test_unknown_eef_lists_the_known() -> None:
    with pytest.raises(KeyError, match="panda"):
        _env().get_robot_eef_pose("panta")


@pytest.mark.gpu
def test_cuda_agrees_with_the_cpu() -> None:
    envs = [_env(StackTask(), 16), _env(StackTask(), 16, device="cuda:0")]
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        actions = torch.rand(16, 7, generator=generator) * 2 - 1
        for env in envs:
            env.step(actions.to(env.device))
    torch.testing.assert_close(envs[1].get_state().cpu(), envs[0].get_state(), atol=1e-4, rtol=0)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**31), st.sampled_from(["ik_rel", "ik_abs"]))
def test_the_compiled_step_is_the_one_by_tensor_operations(seed: int, control: str) -> None:
    """The same motion on a CPU as on a device without compiled loops, through grasps and drops."""
    compiled, by_ops = (KinematicEnv(StackTask("D1"), 6, control=control, lag=0.2) for _ in range(2))
    by_ops._compiled = False
    for env in (compiled, by_ops):
        env.reset(env.all_ids(), _seeds(6, seed))
    generator = torch.Generator().manual_seed(seed)
    for step in range(24):
        by_ops.set_state(compiled.get_state())  # so that rounding cannot add up to another grasp
        gripper = torch.full((6, 1), GRIPPER_CLOSE if 12 <= step < 20 else GRIPPER_OPEN)
        target = {EEF: _raised(_down(compiled.get_object_poses()["cubeA"][:, :3, 3]), 0.1 * (step >= 16))}
        noise = {EEF: 0.1 * torch.randn(6, 6, generator=generator)}
        actions = [env.target_eef_pose_to_action(target, {EEF: gripper}, noise) for env in (compiled, by_ops)]
        torch.testing.assert_close(*actions, atol=2e-6, rtol=1e-5)
        for env in (compiled, by_ops):
            env.step(actions[0])
        torch.testing.assert_close(compiled.get_state(), by_ops.get_state(), atol=2e-5, rtol=0)
