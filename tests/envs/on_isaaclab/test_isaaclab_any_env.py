"""Environments that differ: poses as actions, slots apart, unknown actions, cameras, another physics' states."""

import logging
import warnings
from functools import partial

import numpy as np
import torch
from isaaclab_marks import PICK, PICK_ABS, SLOW, require

from mimicpipe import rng
from mimicpipe.envs.isaaclab.cpu_graph import CpuGraph
from mimicpipe.envs.isaaclab.env import IsaacLabEnv
from mimicpipe.envs.isaaclab.state import SceneStates
from mimicpipe.pools.scripted import load_scripted

require()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Isaac Lab's own
    import isaaclab_odd

pytestmark = list(SLOW)

ALIKE = rng.attempt_seeds(0, np.array([4, 4]))


def test_poses_as_actions_and_slots_apart():
    env = IsaacLabEnv(PICK_ABS, 2, env_spacing=2.5)
    try:
        assert (env.layout, env.action_dim, env.noise_dim) == ("ik_abs", 8, 7)
        assert float((env.env.scene.env_origins[0] - env.env.scene.env_origins[1]).norm()) == 2.5
        env.reset(env.all_ids(), ALIKE)
        pose, cube = env.get_robot_eef_pose("panda"), env.get_object_poses()["cube"]
        assert torch.allclose(pose[0], pose[1], atol=1e-5)  # in each slot's own frame
        assert torch.allclose(cube[0], cube[1], atol=1e-5)
        actions = env.target_eef_pose_to_action({"panda": pose}, {"panda": torch.ones(2, 1)})
        assert torch.allclose(actions[:, :3], pose[:, :3, 3])
        assert torch.allclose(env.action_to_target_eef_pose(actions)["panda"], pose, atol=1e-5)
        env.step(actions, torch.tensor([1]))  # the other slot is not asked for the zero quaternion of its row
        assert bool(env.finite().all())
        assert all(demo.success for demo in load_scripted(env, 2, seed=0))
    finally:
        env.close()


class Twice(CpuGraph):
    """A replay that is another motion."""

    def _replaying(self, name, simulate):
        def run() -> None:
            for _ in range(2 if self.enabled else 1):
                simulate()

        return staticmethod(run)


def test_a_replay_that_changes_bits_is_seen_and_not_used(monkeypatch, caplog):
    monkeypatch.setattr("mimicpipe.envs.isaaclab.env.CpuGraph", Twice)
    with caplog.at_level(logging.WARNING, logger="mimicpipe"):
        env = IsaacLabEnv(PICK, 1)
    try:
        assert [r.getMessage() for r in caplog.records if r.name == "mimicpipe"] == [
            "env.cpu_graph: the replayed physics differs from the launched one here, so it is not used"
        ]
        assert not env.replays_physics
        assert all(demo.success for demo in load_scripted(env, 1, seed=0))
    finally:
        env.close()


def test_an_env_of_another_package_with_actions_of_its_own(caplog):
    with caplog.at_level(logging.WARNING, logger="mimicpipe"):
        env = IsaacLabEnv(
            f"isaaclab_odd:{isaaclab_odd.ID}", 2,
            overrides={"episode_length_s": 12.5},
            configure=partial(isaaclab_odd.decimate, decimation=10),
        )  # fmt: skip
    try:
        noise, events, actions = [r.getMessage() for r in caplog.records if r.name == "mimicpipe"]
        assert "recorded without noise (enable_corruption of policy)" in noise
        assert "events outside of resets (push)" in events
        assert "called for one slot at a time" in actions
        assert (env.layout, env.fps, env.env.cfg.episode_length_s) == ("own", 10, 12.5)
        assert env.observation_features["observation.state"].shape == (23,)
        env.reset(env.all_ids(), ALIKE)
        seen = env.observe()["observation.state"]
        assert torch.equal(seen[0, :9], seen[1, :9])
        assert torch.allclose(seen[:, 16:19], env.get_object_poses()["cube"][:, :3, 3], atol=1e-5)
        _check_cameras(env)
        _check_noise(env)
        _check_scene_states(env)
        assert all(demo.success for demo in load_scripted(env, 2, seed=0))
    finally:
        env.close()


def _check_cameras(env: IsaacLabEnv) -> None:
    front, depth = (env.observation_features[f"observation.images.{name}"] for name in ("front", "depth"))
    assert (front.dtype, front.shape) == ("video", (isaaclab_odd.HEIGHT, isaaclab_odd.WIDTH, 3))
    assert (depth.dtype, depth.shape) == ("depth", (isaaclab_odd.HEIGHT, isaaclab_odd.WIDTH, 1))
    seen = env.observe(torch.tensor([1]))
    assert seen["observation.images.front"].dtype == torch.uint8
    assert (seen["observation.images.front"][0, :, :, 0] == int(100 * env.get_object_poses()["cube"][1, 0, 3])).all()
    height_mm = 1000 * env.get_robot_eef_pose("panda")[1, 2, 3]
    assert seen["observation.images.depth"].dtype == torch.uint16
    assert abs(int(seen["observation.images.depth"][0, 0, 0, 0]) - float(height_mm)) <= 1


def _check_noise(env: IsaacLabEnv) -> None:
    pose = env.get_robot_eef_pose("panda")
    target = pose.clone()
    target[:, 0, 3] += 0.05
    gripper, noise = torch.ones(2, 1), torch.arange(12.0).reshape(2, 6) / 100
    plain = env.target_eef_pose_to_action({"panda": target}, {"panda": gripper})
    assert torch.allclose(plain[:, 0], torch.tensor(0.1), atol=1e-5)
    noisy = env.target_eef_pose_to_action({"panda": target}, {"panda": gripper}, {"panda": noise})
    assert torch.allclose(noisy - plain, torch.cat((noise, torch.zeros(2, 1)), dim=1), atol=1e-6)
    assert torch.allclose(env.action_to_target_eef_pose(plain[[1]], torch.tensor([1]))["panda"], target[[1]], atol=1e-5)


def _check_scene_states(env: IsaacLabEnv) -> None:
    """What any physics offers: the same scene again, up to rounding."""
    states = SceneStates(env.env)
    env.reset(env.all_ids(), rng.attempt_seeds(0, np.array([5, 6])))
    before, pose = env.get_object_poses()["cube"], env.get_robot_eef_pose("panda")
    kept = states.read(None)
    env.reset(env.all_ids(), rng.attempt_seeds(0, np.array([7, 8])))
    other = env.get_object_poses()["cube"]
    states.write(kept[[1]], torch.tensor([1]))
    env._refresh()
    assert torch.allclose(env.get_object_poses()["cube"][1], before[1], atol=1e-5)
    assert torch.allclose(env.get_robot_eef_pose("panda")[1], pose[1], atol=1e-5)
    assert torch.equal(env.get_object_poses()["cube"][0], other[0])
    assert torch.allclose(states.read(None)[1], kept[1], atol=1e-4)
