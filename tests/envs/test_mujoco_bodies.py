"""Objects of several primitives, fixtures and parts on joints: frames, state, reset, observation, contact."""

import mujoco
import numpy as np
import pytest
import torch
from bodies_task import LEVER, TRAY, BodiesTask
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.rng import attempt_seeds

SEEDS = attempt_seeds(2, np.arange(4))


def _env(num_envs: int = 4) -> MujocoEnv:
    env = MujocoEnv(BodiesTask(), num_envs)
    env.reset(env.all_ids(), SEEDS[:num_envs])
    return env


def _actions(env: MujocoEnv, step: int) -> Tensor:
    action = torch.tensor([0.4, 0.1 * (step % 3), -0.9, 0.0, 0.2, 0.0, 1.0])
    return action.repeat(env.num_envs, 1)


def test_frames_are_mujocos_own() -> None:
    """Every body where MuJoCo's kinematics has it, at random joint positions and fixture poses."""
    env = _env()
    state = env.get_state()
    generator = torch.Generator().manual_seed(0)
    columns = [1 + env.model.joint(f"{part.name}_joint").qposadr[0] for part in (LEVER, TRAY)]
    state[:, columns] = 0.1 * torch.rand(4, 2, generator=generator, dtype=torch.float64)
    state[:, -8:] = torch.nn.functional.normalize(torch.randn(4, 2, 4, generator=generator), dim=2).reshape(4, 8)
    env.set_state(state)
    found = env.get_object_poses()
    assert list(found) == ["mallet", "post", "desk", "lever", "tray"]
    data = mujoco.MjData(env.model)
    for slot, row in enumerate(state.numpy()):
        data.qpos[:] = row[1 : 1 + env.model.nq]
        data.mocap_pos[:], data.mocap_quat[:] = row[-14:-8].reshape(2, 3), row[-8:].reshape(2, 4)
        mujoco.mj_kinematics(env.model, data)
        for name, pose in found.items():
            body = data.body(name)
            np.testing.assert_allclose(pose[slot, :3, 3], body.xpos, atol=1e-6)
            np.testing.assert_allclose(pose[slot, :3, :3], body.xmat.reshape(3, 3), atol=1e-6)
    env.close()


def test_reset_places_fixtures_and_joints() -> None:
    env = _env()
    drawn = env.task.sample_object_poses(SEEDS)
    found = env.get_object_poses()
    for name, pose in drawn.items():
        torch.testing.assert_close(found[name], pose.float(), atol=1e-6, rtol=0)
    tray = poses.compose(poses.invert(found["desk"]), found["tray"])
    torch.testing.assert_close(tray[:, :3, 3], torch.tensor([0.0, -0.06, 0.03]).expand(4, 3), atol=1e-6, rtol=0)
    view = env._task_view()
    assert view.joint_positions["lever"].tolist() == [0.5] * 4
    assert not env.success().any()
    assert set(env.get_subtask_term_signals()) == {"down"}
    env.close()


def test_observation_has_every_frame_and_joint() -> None:
    env = _env()
    feature = env.observation_features["observation.environment_state"]
    assert feature.names is not None
    values = env.observe()["observation.environment_state"]
    assert values.shape[1:] == feature.shape == (5 * 7 + 2,)
    named = dict(zip(feature.names, values.unbind(1), strict=True))
    assert named["lever_joint"].tolist() == [0.5] * 4
    torch.testing.assert_close(named["tray_joint"], torch.full((4,), 0.04))
    for name, pose in env.get_object_poses().items():
        torch.testing.assert_close(named[f"{name}_y"], pose[:, 1, 3])
        quat = torch.stack([named[f"{name}_q{axis}"] for axis in "wxyz"], dim=1)
        torch.testing.assert_close(poses.matrix_from_quat(quat), pose[:, :3, :3], atol=1e-5, rtol=0)
    env.close()


def test_state_alone_determines_the_future() -> None:
    env = _env()
    other = _env()
    other.reset(other.all_ids(), SEEDS[::-1].copy())
    for step in range(5):
        env.step(_actions(env, step))
    other.set_state(env.get_state())
    for step in range(15):
        env.step(_actions(env, step))
        other.step(_actions(other, step))
    assert torch.equal(env.get_state(), other.get_state())
    for key, value in env.observe().items():
        assert torch.equal(value, other.observe()[key])
    env.close()
    other.close()


def test_a_slot_is_the_same_at_every_num_envs() -> None:
    four = _env()
    for step in range(25):
        four.step(_actions(four, step))
    for slot in range(4):
        one = MujocoEnv(BodiesTask(), 1)
        one.reset(one.all_ids(), SEEDS[slot : slot + 1])
        for step in range(25):
            one.step(_actions(one, step))
        assert torch.equal(one.get_state()[0], four.get_state()[slot])
        one.close()
    four.close()


def test_a_part_of_the_slots_can_be_stepped() -> None:
    env, whole = _env(), _env()
    for step in range(5):
        env.step(_actions(env, step), torch.tensor([1, 3]))
        whole.step(_actions(whole, step))
    assert torch.equal(env.get_state()[[1, 3]], whole.get_state()[[1, 3]])
    assert env.get_state()[0, 0].item() == 0.0
    env.close()
    whole.close()


def test_parts_move_within_their_limits_and_fixtures_bear() -> None:
    """The lever falls to its limit, the tray stays; a mallet dropped on the desk lies on it."""
    env = _env(1)
    state = env.get_state()
    desk = env.get_object_poses()["desk"][0, :3, 3].double()
    mallet = 1 + env.model.joint("mallet_joint").qposadr[0]
    state[0, mallet : mallet + 3] = desk + torch.tensor([-0.02, 0.0, 0.06])
    env.set_state(state)
    for _ in range(30):
        env.step(torch.tensor([[0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0]]))
    view = env._task_view()
    assert view.joint_positions["lever"].item() == pytest.approx(1.2, abs=0.05)
    assert view.joint_positions["tray"].item() == pytest.approx(0.04, abs=1e-3)
    assert view.object_poses["mallet"][0, 2, 3].item() > 0.025
    assert view.object_speeds["mallet"].item() < 0.01
    env.close()


def test_the_mass_of_a_compound_object_is_spread_by_volume() -> None:
    env = _env(1)
    model = env.model
    assert model.body("mallet").mass[0] == pytest.approx(0.1)
    box, cylinder = 8 * 0.04 * 0.01 * 0.01, np.pi * 0.015**2 * 0.06
    assert model.body("mallet").ipos[0] == pytest.approx(0.035 * cylinder / (box + cylinder), abs=1e-6)
    env.close()
