"""The batched MuJoCo env: the contract of `MimicEnv`, equal bits in every batch, failures that stay alone, grasps."""

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.base import ObjectSpec, Task
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import ConfigError
from mimicpipe.rng import attempt_seeds

CONTROLS = ["ik_rel", "ik_abs"]
OPEN, CLOSE = 1.0, -1.0
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module", params=CONTROLS)
def env(request: pytest.FixtureRequest) -> Iterator[MujocoEnv]:
    made = MujocoEnv(StackTask(), 3, control=request.param)
    yield made
    made.close()


def random_actions(steps: int, slots: int, seed: int = 0) -> Tensor:
    """(steps, slots, 7) ik_rel actions that wander, go down and work the gripper."""
    generator = torch.Generator().manual_seed(seed)
    actions = torch.rand(steps, slots, 7, generator=generator) * 2 - 1
    actions[..., :6] *= 0.4
    actions[..., 2] -= 0.1
    return actions


def play(env: MujocoEnv, slots: Tensor, actions: Tensor) -> Tensor:
    """(steps, K, S) states of `slots` after each step; other slots are not stepped."""
    states = []
    for step in actions:
        padded = torch.zeros(env.num_envs, env.action_dim)
        padded[slots] = step
        env.step(padded, None if len(slots) == env.num_envs else slots)
        states.append(env.get_state(slots))
    return torch.stack(states)


# -- construction and layout


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"num_envs": 0}, "env.num_envs=0"),
        ({"cameras": ["front", "side"]}, r"env.cameras=.*side.*front, wrist"),
        ({"control": "joint"}, r"env.control='joint'.*ik_rel, ik_abs"),
        ({"image_size": (8, 128)}, "env.image_size"),
        ({"threads": 0}, "env.threads=0"),
        ({"device": "quantum"}, "env.device=quantum"),
    ],
)
def test_a_bad_argument_is_one_line_with_the_choices(arguments: dict[str, Any], key: str) -> None:
    arguments = {"num_envs": 1, **arguments}
    with pytest.raises(ConfigError, match=key) as error:
        MujocoEnv(PickTask(), **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_cuda_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"env.device=cuda:0.*cpu"):
        MujocoEnv(PickTask(), 1, device="cuda:0")


def test_observations_are_what_the_features_say(env: MujocoEnv) -> None:
    observed = env.observe()
    assert set(observed) == set(env.observation_features)
    for name, feature in env.observation_features.items():
        assert observed[name].shape == (3, *feature.shape)
        assert str(observed[name].dtype) == f"torch.{feature.dtype}"
        assert feature.names is not None
        assert len(feature.names) == feature.shape[0]
    names = env.observation_features["observation.environment_state"].names
    assert names is not None
    assert names[7] == "cubeB_x"
    torch.testing.assert_close(env.observe(torch.tensor([2]))["observation.state"], observed["observation.state"][2:])


def test_poses_are_those_of_the_simulator_and_of_the_observations(env: MujocoEnv) -> None:
    env.reset(env.all_ids(), attempt_seeds(3, np.arange(3)))
    data = mujoco.MjData(env.model)
    observed = env.observe()
    eef, objects = env.get_robot_eef_pose("panda"), env.get_object_poses()
    for slot, state in enumerate(env.get_state().numpy()):
        mujoco.mj_setState(env.model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        mujoco.mj_kinematics(env.model, data)
        site = data.site("panda_grasp")
        np.testing.assert_allclose(eef[slot, :3, 3], site.xpos, atol=1e-6)
        np.testing.assert_allclose(eef[slot, :3, :3], site.xmat.reshape(3, 3), atol=1e-6)
        for name, pose in objects.items():
            np.testing.assert_allclose(pose[slot, :3, 3], data.body(name).xpos, atol=1e-6)
            np.testing.assert_allclose(pose[slot, :3, :3], data.body(name).xmat.reshape(3, 3), atol=1e-6)
        assert observed["observation.state"][slot, 7] == pytest.approx(0.08, abs=1e-6)
    pose = observed["observation.eef_pose"]
    torch.testing.assert_close(poses.pose_from_pos_quat(pose[:, :3], pose[:, 3:]), eef, atol=1e-6, rtol=0)
    cubes = observed["observation.environment_state"].reshape(3, 2, 7)
    assert (cubes[..., 3] >= 0).all()
    torch.testing.assert_close(
        poses.pose_from_pos_quat(cubes[:, 1, :3], cubes[:, 1, 3:]), objects["cubeB"], atol=1e-6, rtol=0
    )
    with pytest.raises(KeyError, match="panda"):
        env.get_robot_eef_pose("left")


def test_what_is_handed_out_is_the_callers_own(env: MujocoEnv) -> None:
    """Writing into a returned tensor must not reach the env's state or caches."""
    before = env.get_state()
    for tensor in (env.get_state(), env.get_robot_eef_pose("panda"), *env.get_object_poses().values()):
        tensor.zero_()
    for tensor in env.observe().values():
        tensor.zero_()
    torch.testing.assert_close(env.get_state(), before, atol=0, rtol=0)
    assert env.get_robot_eef_pose("panda")[0, 3, 3] == 1.0
    assert env.get_object_poses()["cubeA"][0, 3, 3] == 1.0


# -- actions


@settings(deadline=None, max_examples=25)
@given(seed=SEEDS)
def test_pose_and_action_are_inverses_within_the_range(env: MujocoEnv, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    motion = (torch.rand(3, 6, generator=generator) * 2 - 1) * 0.99
    current = env.get_robot_eef_pose("panda")
    turn = poses.matrix_from_axis_angle(motion[:, 3:] * 0.5)
    target = poses.make_pose(
        current[:, :3, 3] + motion[:, :3] * 0.05, poses.compose_rotations(turn, current[:, :3, :3])
    )
    gripper = torch.where(motion[:, :1] < 0, -1.0, 1.0)
    actions = env.target_eef_pose_to_action({"panda": target}, {"panda": gripper})
    assert actions.dtype == torch.float32
    torch.testing.assert_close(env.actions_to_gripper_actions(actions)["panda"], gripper)
    torch.testing.assert_close(env.action_to_target_eef_pose(actions)["panda"], target, atol=2e-6, rtol=0)
    rows = torch.tensor([2, 0])
    again = env.target_eef_pose_to_action({"panda": target[rows]}, {"panda": gripper[rows]}, env_ids=rows)
    assert torch.equal(again, actions[rows])
    torch.testing.assert_close(env.action_to_target_eef_pose(again, rows)["panda"], target[rows], atol=2e-6, rtol=0)


def test_noise_is_in_units_of_the_relative_action(env: MujocoEnv) -> None:
    current = env.get_robot_eef_pose("panda")
    noise = torch.tensor([[0.1, -0.2, 0.3, 0.1, 0.0, -0.1]]).repeat(3, 1)
    actions = env.target_eef_pose_to_action({"panda": current}, {"panda": torch.ones(3, 1)}, {"panda": noise})
    moved = env.action_to_target_eef_pose(actions)["panda"]
    torch.testing.assert_close((moved - current)[:, :3, 3], noise[:, :3] * 0.05, atol=2e-6, rtol=0)
    turn = poses.compose_rotations(moved[:, :3, :3], current[:, :3, :3].transpose(1, 2))
    torch.testing.assert_close(poses.axis_angle_from_matrix(turn), noise[:, 3:] * 0.5, atol=2e-6, rtol=0)


def test_a_far_target_is_approached_on_the_straight_way() -> None:
    env = MujocoEnv(PickTask(), 1)
    target = env.get_robot_eef_pose("panda")
    target[:, :3, 3] += torch.tensor([0.2, 0.1, -0.05])
    action = env.target_eef_pose_to_action({"panda": target}, {"panda": torch.ones(1, 1)})
    env.close()
    torch.testing.assert_close(action[0, :3], torch.tensor([1.0, 0.5, -0.25]), atol=1e-5, rtol=0)


def test_the_sign_of_the_gripper_action_opens_and_closes() -> None:
    env = MujocoEnv(PickTask(), 2)
    actions = torch.zeros(2, 7)
    actions[:, 6] = torch.tensor([0.3, -0.01])
    for _ in range(20):
        env.step(actions)
    width = env.observe()["observation.state"][:, 7]
    env.close()
    assert width[0] == pytest.approx(0.08, abs=1e-3)
    assert width[1] == pytest.approx(0.0, abs=1e-3)


# -- bits


def test_an_episode_is_the_same_bits_in_any_slot_batch_and_thread_count() -> None:
    seeds, actions = attempt_seeds(0, np.arange(5)), random_actions(25, 5)
    first = MujocoEnv(StackTask(), 5, threads=1)
    first.reset(first.all_ids(), seeds)
    start, expected = first.get_state(), play(first, first.all_ids(), actions)
    assert (expected[-1] - start).abs().amax() > 0.05
    layouts = [(5, 2, [4, 2, 0, 1, 3]), (16, 2, [3, 15, 7, 0, 9]), (1, 1, [0]), (7, 3, [2, 3, 4, 5, 6])]
    for num_envs, threads, slots in layouts:
        other = MujocoEnv(StackTask(), num_envs, threads=threads)
        ids = torch.tensor(sorted(slots))
        episodes = torch.tensor(slots).argsort()  # slot ids[i] plays episode episodes[i]
        other.reset(ids, seeds[episodes.numpy()])
        assert torch.equal(other.get_state(ids), start[episodes])
        assert torch.equal(play(other, ids, actions[:, episodes]), expected[:, episodes])
        # Replay from the recorded state instead of from the seed.
        other.set_state(start[episodes], ids)
        assert torch.equal(play(other, ids, actions[:, episodes]), expected[:, episodes])
        other.close()
    first.close()


def test_a_state_in_the_middle_is_complete() -> None:
    """No hidden state: the future after `set_state` is that after the original step, with observations as well."""
    env = MujocoEnv(StackTask(), 2)
    env.reset(env.all_ids(), attempt_seeds(1, np.arange(2)))
    actions = random_actions(30, 2, seed=4)
    play(env, env.all_ids(), actions[:20])
    middle, expected = env.get_state(), play(env, env.all_ids(), actions[20:])
    observed = env.observe()
    play(env, env.all_ids(), random_actions(10, 2, seed=5))
    env.set_state(middle)
    assert torch.equal(env.get_state(), middle)
    assert torch.equal(play(env, env.all_ids(), actions[20:]), expected)
    for name, value in env.observe().items():
        assert torch.equal(value, observed[name])
    env.close()


def test_slots_outside_env_ids_keep_their_state(env: MujocoEnv) -> None:
    env.reset(env.all_ids(), attempt_seeds(2, np.arange(3)))
    before = env.get_state()
    target = {"panda": env.get_robot_eef_pose("panda")}
    target["panda"][:, 2, 3] -= 0.03
    actions = env.target_eef_pose_to_action(target, {"panda": torch.ones(3, 1)})
    holed = actions.clone()
    holed[1] = torch.nan  # not executed
    env.step(holed, torch.tensor([0, 2]))
    assert torch.equal(env.get_state()[1], before[1])
    alone = env.get_state(torch.tensor([2]))
    env.set_state(before)
    env.step(actions)
    assert torch.equal(env.get_state()[2:], alone)
    env.step(actions, torch.zeros(0, dtype=torch.int64))
    assert torch.equal(env.get_state()[2:], alone)


def test_a_step_in_another_thread_is_the_same_step() -> None:
    env = MujocoEnv(PickTask(), 4)
    actions = random_actions(1, 4)[0]
    start = env.get_state()
    env.step(actions)
    expected = env.get_state()
    env.set_state(start)
    thread = threading.Thread(target=env.step, args=(actions,))
    thread.start()
    thread.join()
    assert torch.equal(env.get_state(), expected)
    env.close()


@settings(deadline=None, max_examples=10)
@given(seed=SEEDS, slots=st.permutations([0, 1, 2]))
def test_reset_depends_on_the_seed_alone(env: MujocoEnv, seed: int, slots: list[int]) -> None:
    seeds = attempt_seeds(seed, np.arange(3))
    env.reset(env.all_ids(), seeds)
    expected = env.get_state()
    env.step(_hold(env))
    for slot, episode in enumerate(slots):
        env.reset(torch.tensor([slot]), seeds[episode : episode + 1])
    assert torch.equal(env.get_state(), expected[slots])
    assert (expected[0] != expected[1]).any()


def _hold(env: MujocoEnv) -> Tensor:
    """Actions that ask for the current poses."""
    gripper = torch.ones(env.num_envs, 1)
    return env.target_eef_pose_to_action({"panda": env.get_robot_eef_pose("panda")}, {"panda": gripper})


# -- failures


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 1e12])
def test_a_diverged_slot_is_reported_and_stays_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: float
) -> None:
    monkeypatch.chdir(tmp_path)
    env = MujocoEnv(PickTask(), 3)
    actions = random_actions(6, 3)
    start = env.get_state()
    expected = play(env, env.all_ids(), actions)
    state = start.clone()
    state[1, -20:-15] = broken
    env.set_state(state)
    for step in actions:
        # What the loop does every step must not raise or warn.
        target = {"panda": env.get_robot_eef_pose("panda")}
        asked = env.target_eef_pose_to_action(target, {"panda": torch.ones(3, 1)})
        asked[[0, 2]] = step[[0, 2]]
        env.step(asked)
        env.observe()
        env.success()
    assert env.finite().tolist() == [True, False, True]
    assert torch.equal(env.get_state()[[0, 2]], expected[-1][[0, 2]])
    assert list(tmp_path.iterdir()) == []
    env.reset(torch.tensor([1]), attempt_seeds(0, np.arange(1)))
    assert env.finite().all()
    env.close()


def test_impossible_actions_are_refused(env: MujocoEnv) -> None:
    with pytest.raises(ValueError, match=r"actions must be \(3, "):
        env.step(torch.zeros(2, env.action_dim))
    actions = _hold(env)
    actions[1, 0] = torch.nan
    before = env.get_state()
    with pytest.raises(ValueError, match="slot 1 asks for no finite motion"):
        env.step(actions)
    assert torch.equal(env.get_state(), before)


def test_a_quaternion_of_zeros_is_refused() -> None:
    env = MujocoEnv(PickTask(), 2, control="ik_abs")
    actions = env.target_eef_pose_to_action({"panda": env.get_robot_eef_pose("panda")}, {"panda": torch.ones(2, 1)})
    actions[0, 3:7] = 0.0
    with pytest.raises(ValueError, match="slot 0 asks for no finite motion"):
        env.step(actions)
    env.close()


def test_close_ends_the_threads_and_is_final() -> None:
    before = _native_threads()
    env = MujocoEnv(PickTask(), 4, threads=2)
    made = _native_threads() - before
    assert len(made) == 5, "two of MuJoCo's, one that waits for them, and two of stretches"
    env.close()
    env.close()
    assert not made & _native_threads()
    with pytest.raises(RuntimeError, match="after close"):
        env.step(torch.zeros(4, 7))


def test_an_env_that_is_dropped_leaves_no_thread_behind() -> None:
    before = _native_threads()
    env = MujocoEnv(PickTask(), 4, threads=2)
    env.step(_hold(env))
    made = _native_threads() - before
    assert len(made) == 5
    del env
    while made & _native_threads():  # the test's own limit is that of the wait
        time.sleep(0.01)


def _native_threads() -> set[int]:
    """Numbers of this process's threads: others, of earlier tests, may be ending."""
    gc.collect()  # envs that earlier tests have dropped
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


# -- physics


class Hand:
    """Moves all eefs around the first object's place at the start, gripper down, along the cube's sides."""

    def __init__(self, task: Task, slots: int) -> None:
        self.env = MujocoEnv(task, slots)
        self.env.reset(self.env.all_ids(), attempt_seeds(11, np.arange(slots)))
        pose = self.env.get_object_poses()[task.objects[0].name]
        self.goal = pose[:, :3, 3].clone()
        yaw = torch.atan2(pose[:, 1, 0], pose[:, 0, 0])
        yaw = torch.remainder(yaw + torch.pi / 4, torch.pi / 2) - torch.pi / 4
        self.rot = torch.zeros(slots, 3, 3)
        self.rot[:, 0, 0], self.rot[:, 0, 1], self.rot[:, 1, 0], self.rot[:, 1, 1] = (
            yaw.cos(), yaw.sin(), yaw.sin(), -yaw.cos(),
        )  # fmt: skip
        self.rot[:, 2, 2] = -1.0

    def move(self, height: float, gripper: float, steps: int) -> None:
        """At most 3 cm a step towards `height` above the goal."""
        env = self.env
        for _ in range(steps):
            current = env.get_robot_eef_pose("panda")[:, :3, 3]
            way = self.goal + torch.tensor([0.0, 0.0, height]) - current
            target = poses.make_pose(current + way * torch.clamp(0.03 / poses.vector_norm(way), max=1.0), self.rot)
            closing = torch.full((env.num_envs, 1), gripper)
            env.step(env.target_eef_pose_to_action({"panda": target}, {"panda": closing}))

    def grasp(self) -> None:
        """Close the fingers around the object, which stays on the table."""
        self.move(0.12, OPEN, 30)
        self.move(0.0, OPEN, 20)
        self.move(0.0, CLOSE, 8)

    def holding(self) -> Tensor:
        """(N, 3) first object's position from the grasp point."""
        held = self.env.get_object_poses()[self.env.object_names[0]]
        return (held - self.env.get_robot_eef_pose("panda"))[:, :3, 3]


def _deepest(env: MujocoEnv) -> float:
    """Largest penetration of any contact, metres."""
    data = mujoco.MjData(env.model)
    deepest = 0.0
    for state in env.get_state().numpy():
        mujoco.mj_setState(env.model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        mujoco.mj_kinematics(env.model, data)
        mujoco.mj_comPos(env.model, data)
        mujoco.mj_collision(env.model, data)
        deepest = max([deepest, *(-contact.dist for contact in data.contact)])
    return deepest


@pytest.mark.parametrize("variant", ["D0", "D1"])
def test_a_cube_is_picked_held_and_lost(variant: str) -> None:
    hand = Hand(PickTask(variant), 8)
    env = hand.env
    hand.grasp()
    assert not env.success().any()
    signal = [env.get_subtask_term_signals()["grasp"]]
    for _ in range(25):
        hand.move(0.13, CLOSE, 1)
        signal.append(env.get_subtask_term_signals()["grasp"])
    rises = torch.stack(signal).int().diff(dim=0)
    assert not signal[0].any()
    assert torch.equal(rises.sum(dim=0), torch.ones(8, dtype=torch.int64))
    assert (rises >= 0).all()
    assert env.success().all()
    held = hand.holding()
    hand.move(0.13, CLOSE, 40)
    assert env.success().all()
    assert _deepest(env) < 1e-3
    assert (hand.holding() - held).abs().max() < 1e-3
    hand.move(0.13, OPEN, 20)
    assert not env.success().any()
    assert not env.get_subtask_term_signals()["grasp"].any()
    env.close()


def test_stack_succeeds_once_the_cube_is_released_and_still() -> None:
    hand = Hand(StackTask(), 8)
    env = hand.env
    hand.grasp()
    hand.move(0.12, CLOSE, 25)
    assert env.get_subtask_term_signals()["grasp"].all()
    hand.goal[:, :2] = env.get_object_poses()["cubeB"][:, :2, 3]
    hand.move(0.12, CLOSE, 25)
    hand.move(0.052, CLOSE, 20)
    assert not env.success().any()
    hand.move(0.052, OPEN, 8)
    hand.move(0.15, OPEN, 20)
    assert env.success().all()
    hand.move(0.15, OPEN, 20)
    assert env.success().all()
    env.close()


def test_nothing_moves_when_nothing_acts() -> None:
    env = MujocoEnv(StackTask(), 2)
    start = env.observe()
    for _ in range(40):
        env.step(torch.tensor([[0, 0, 0, 0, 0, 0, 1.0]]).repeat(2, 1))
    end = env.observe()
    env.close()
    for name in ("observation.eef_pose", "observation.environment_state"):
        torch.testing.assert_close(end[name], start[name], atol=1e-3, rtol=0)


class DrawerTask(PickTask):
    """A pick task with a fixture that has a joint of its own, and an object besides the cube."""

    objects = (*PickTask.objects, ObjectSpec("block", (0.03, 0.02, 0.01), 0.05, (0.2, 0.2, 0.8, 1.0)))

    def add_fixtures(self, spec: mujoco.MjSpec) -> None:
        drawer = spec.worldbody.add_body(name="drawer", pos=[0.5, 0.5, 0.1])
        drawer.add_joint(name="drawer_slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0], damping=1.0)
        drawer.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.05, 0.05, 0.05], contype=0, conaffinity=0)


def test_fixtures_and_other_objects_find_their_place_in_the_state() -> None:
    env = MujocoEnv(DrawerTask(), 2)
    env.reset(env.all_ids(), attempt_seeds(0, np.arange(2)))
    plain = MujocoEnv(PickTask(), 2)
    plain.reset(plain.all_ids(), attempt_seeds(0, np.arange(2)))
    assert env.get_state().shape[1] == plain.get_state().shape[1] + 2 + 13
    cube = env.get_object_poses()["cube"]
    torch.testing.assert_close(cube, plain.get_object_poses()["cube"], atol=0, rtol=0)
    torch.testing.assert_close(env.get_object_poses()["block"][:, 2, 3], torch.full((2,), 0.01))
    for _ in range(5):
        env.step(_hold(env))
    torch.testing.assert_close(env.get_object_poses()["cube"], cube, atol=1e-3, rtol=0)
    assert env.observe()["observation.environment_state"].shape == (2, 14)
    env.close()
    plain.close()
