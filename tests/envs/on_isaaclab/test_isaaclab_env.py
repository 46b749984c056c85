"""One environment, mimicpipe's own pick task on Newton, held to the contract of `MimicEnv`."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from isaaclab_marks import MARKS, PICK, require
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.envs.isaaclab.env import IsaacLabEnv
from mimicpipe.errors import ConfigError
from mimicpipe.pools.scripted import load_scripted

require()
pytestmark = list(MARKS)

SLOTS = 4


@pytest.fixture(scope="module")
def env():
    env = IsaacLabEnv(PICK, SLOTS)
    yield env
    env.close()


def seeds(*attempts: int) -> rng.Seeds:
    return rng.attempt_seeds(0, np.array(attempts))


def ids(*slots: int) -> Tensor:
    return torch.tensor(slots)


def fresh(env: IsaacLabEnv, *attempts: int) -> None:
    env.reset(env.all_ids(), seeds(*(attempts or range(SLOTS))))


def push(env: IsaacLabEnv, steps: int, slots: Tensor | None = None, size: float = 0.02) -> None:
    """Drive every slot, or some, by its own fixed offsets."""
    for step in range(steps):
        still = {eef: env.get_robot_eef_pose(eef) for eef in env.eef_names}
        shift = size * torch.sin(torch.arange(SLOTS * 6.0).reshape(SLOTS, 6) + step)
        closed = {eef: -torch.ones(SLOTS, 1) for eef in env.eef_names}
        env.step(env.target_eef_pose_to_action(still, closed, dict.fromkeys(env.eef_names, shift)), slots)


def shown(env: IsaacLabEnv) -> dict[str, Tensor]:
    return {
        **env.observe(),
        "state": env.get_state(),
        **{f"object {name}": pose for name, pose in env.get_object_poses().items()},
        **{f"eef {eef}": env.get_robot_eef_pose(eef) for eef in env.eef_names},
    }


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_what_the_env_is_comes_from_its_configuration(env):
    assert (env.fps, env.eef_names, env.object_names) == (20, ("panda",), ("cube",))
    assert (env.action_dim, env.noise_dim, env.gripper_dim, env.layout) == (7, 6, 1, "ik_rel")
    assert env.action_feature.names == (*(f"arm_action_{i}" for i in range(6)), "gripper_action")
    state = env.observation_features["observation.state"]
    assert (state.dtype, state.shape) == ("float32", (23,))
    assert state.names is not None
    assert state.names[9:12] == ("eef_pos_0", "eef_pos_1", "eef_pos_2")
    assert env.observation_features["observation.subtask_terms"].names == ("grasp", "reach")
    assert env.task_settings is not None
    first, second = env.task_settings.subtasks["panda"]
    assert (first.object_ref, first.subtask_term_signal, first.subtask_term_offset_range) == ("cube", "grasp", (5, 10))
    assert (second.subtask_term_signal, second.action_noise) == (None, 0.0015)
    assert env.task_settings.datagen.generation_interpolate_from_last_target_pose


def test_observations_are_of_the_present_state_and_quaternions_are_converted(env):
    fresh(env)
    for change in (lambda: None, lambda: push(env, 3), lambda: env.set_state(env.get_state() + 0.0)):
        change()
        state = env.observe()["observation.state"]
        names = env.observation_features["observation.state"].names
        columns = {
            stem: [names.index(f"{stem}_{i}") for i in range(n)] for stem, n in (("eef_pos", 3), ("eef_quat", 4))
        }
        pose = env.get_robot_eef_pose("panda")
        assert torch.equal(pose[:, :3, 3], state[:, columns["eef_pos"]])
        xyzw = state[:, columns["eef_quat"]]
        assert torch.allclose(poses.matrix_from_quat(xyzw[:, [3, 0, 1, 2]]), pose[:, :3, :3], atol=1e-6)
        assert (pose[:, 2, 2] < -0.9).all()  # the gripper looks down, which another order of the numbers would not say
        hand = env.env.scene["robot"].data
        index = hand.body_names.index("panda_hand")
        there = hand.body_link_pos_w.torch[:, index] - env.env.scene.env_origins
        assert torch.allclose(there, pose[:, :3, 3] - 0.1034 * pose[:, :3, 2], atol=1e-5)


def test_an_attempts_scene_is_a_function_of_its_seed(env):
    fresh(env, 7, 8, 9, 10)
    first = shown(env)
    push(env, 2)
    before = shown(env)
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    expected = torch.rand(3), np.random.random(3), random.random()
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    env.reset(ids(2, 0), seeds(7, 9))
    after = shown(env)
    assert torch.equal(torch.rand(3), expected[0])  # the global generators are as they were
    assert (np.random.random(3) == expected[1]).all()
    assert random.random() == expected[2]
    for name in ("observation.state", "object cube", "eef panda"):
        assert torch.equal(after[name][2], first[name][0])
        assert torch.equal(after[name][0], first[name][2])
        assert torch.equal(after[name][[1, 3]], before[name][[1, 3]])
        assert not torch.equal(after[name][0], after[name][2])


def test_a_state_is_exact(env):
    fresh(env)
    push(env, 5)
    start = env.get_state()
    before = shown(env)
    push(env, 12)
    first = shown(env)
    env.set_state(start)
    assert same(before, shown(env))
    push(env, 12)
    assert same(first, shown(env))
    env.set_state(start[[1]], ids(3))  # of another slot
    assert torch.equal(env.observe(ids(3))["observation.state"], before["observation.state"][[1]])


def test_slots_that_do_not_act_keep_their_state(env):
    fresh(env)
    push(env, 4)
    start = env.get_state()
    before = shown(env)
    push(env, 3, ids(1, 2))
    after = shown(env)
    for name in before:
        assert torch.equal(after[name][[0, 3]], before[name][[0, 3]])
    assert not torch.equal(after["state"][1], before["state"][1])
    env.set_state(start)
    push(env, 3)
    assert torch.equal(shown(env)["state"][[1, 2]], after["state"][[1, 2]])


def test_actions_lead_to_their_poses_and_back(env):
    fresh(env)
    current = env.get_robot_eef_pose("panda")
    turn = poses.matrix_from_axis_angle(torch.tensor([[0.1, -0.2, 0.3]]).repeat(SLOTS, 1))
    target = poses.make_pose(current[:, :3, 3] + 0.03, poses.compose_rotations(turn, current[:, :3, :3]))
    gripper = torch.linspace(-1, 1, SLOTS)[:, None]
    actions = env.target_eef_pose_to_action({"panda": target}, {"panda": gripper})
    assert torch.allclose(env.action_to_target_eef_pose(actions)["panda"], target, atol=1e-5)
    assert torch.equal(env.actions_to_gripper_actions(actions)["panda"], gripper)
    one = env.target_eef_pose_to_action({"panda": target[[2]]}, {"panda": gripper[[2]]}, env_ids=ids(2))
    assert torch.equal(one, actions[[2]])
    own = env.env.target_eef_pose_to_action({"panda": target[2]}, {"panda": gripper[2]}, env_id=2)
    assert torch.allclose(own, actions[2], atol=1e-5)
    shift = {"panda": torch.full((SLOTS, 6), 0.01)}
    noisy = env.target_eef_pose_to_action({"panda": target}, {"panda": gripper}, shift)
    assert torch.allclose(noisy[:, :6] - actions[:, :6], torch.tensor(0.01), atol=1e-6)


def test_a_bad_action_is_refused(env):
    with pytest.raises(ValueError, match=r"actions must be \(4, 7\)"):
        env.step(torch.zeros(SLOTS, 8))
    with pytest.raises(ValueError, match="not finite"):
        env.step(torch.full((SLOTS, 7), torch.nan))


def test_a_slot_that_has_diverged_disturbs_no_other_and_is_well_after_a_reset(env):
    fresh(env)
    start = env.get_state()
    push(env, 3)
    expected = shown(env)
    env.set_state(start)
    broken = start[[1]].clone()
    broken[:, :20] = torch.nan
    env.set_state(broken, ids(1))
    assert env.finite().tolist() == [True, False, True, True]
    push(env, 3)
    seen = shown(env)
    assert env.finite().tolist() == [True, False, True, True]
    others = [0, 2, 3]
    assert all(torch.equal(seen[name][others], expected[name][others]) for name in seen)
    env.reset(ids(1), seeds(1))
    assert torch.equal(env.get_state(ids(1)), start[[1]])


@pytest.mark.slow
def test_physics_is_replayed_and_that_changes_no_bit(env):
    assert env.replays_physics
    fresh(env)
    start = env.get_state()
    push(env, 30)
    replayed = shown(env)
    env._graph.enabled = False
    try:
        env.set_state(start)
        push(env, 30)
        assert same(replayed, shown(env))
    finally:
        env._graph.enabled = True


def test_the_scripted_expert_picks_the_cube(env):
    (demo,) = load_scripted(env, 1, seed=0)
    signals: Any = demo.info.subtask_term_signals["grasp"]
    assert demo.success
    assert not signals[0]
    assert signals[-1]
    assert demo.info.object_poses["cube"][-1, 2, 3] > 0.11


def test_a_wrong_name_is_answered_with_the_valid_ones(env):
    with pytest.raises(ConfigError, match=r"no such gym id; did you mean Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0\? valid"):
        IsaacLabEnv(PICK.replace("Panda", "Pand"), 1)
    with pytest.raises(ConfigError, match=r"env\.overrides\.sim\.dtt: no field dtt; valid: .*dt,"):
        IsaacLabEnv(PICK, 1, overrides={"sim.dtt": 0.1})
