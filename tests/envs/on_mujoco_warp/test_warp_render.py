"""Frames of env=mujoco_warp: what MuJoCo's renderer shows, the same in every batch, of the slots asked for."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mimicpipe.envs.tasks.coffee import CoffeeTask
from mimicpipe.rng import attempt_seeds

pytest.importorskip("mujoco_warp")

from mimicpipe.envs.mujoco.render import CameraRenderer
from mimicpipe.envs.mujoco_warp.env import MujocoWarpEnv
from mimicpipe.errors import ConfigError

pytestmark = [pytest.mark.warp, pytest.mark.timeout(600)]

CAMERAS = ("front", "wrist")
SIZE = (48, 64)


@pytest.fixture(scope="module")
def env() -> MujocoWarpEnv:
    made = MujocoWarpEnv(CoffeeTask("D1"), 3, "cpu", cameras=CAMERAS, image_size=SIZE)
    made.reset(made.all_ids(), attempt_seeds(2, range(3)))
    return made


def frames(env: MujocoWarpEnv, env_ids: Tensor | None = None) -> dict[str, Tensor]:
    observations = env.observe(env_ids)
    return {name: observations[f"observation.images.{name}"] for name in CAMERAS}


def test_frames_show_what_mujoco_shows(env: MujocoWarpEnv) -> None:
    try:
        renderer = CameraRenderer(env.model, CAMERAS, SIZE)
    except ConfigError as error:
        pytest.skip(str(error))
    state = env.get_state().numpy()
    split = 1 + env.model.nq
    expected = renderer.render(state[:, 1:split], state[:, split + env.model.nv :])
    renderer.close()
    for name, shown in frames(env).items():
        assert shown.dtype == torch.uint8
        assert tuple(shown.shape) == (3, *SIZE, 3) == tuple(expected[name].shape)
        apart = np.abs(shown.numpy().astype(int) - expected[name].astype(int))
        other = np.abs(shown.roll(1, 0).numpy().astype(int) - expected[name].astype(int))
        assert apart.mean() < 12  # light differs a little, and edges are not smoothed
        assert apart.mean() < 0.7 * other.mean() or name == "wrist"  # another slot's frame is another


def test_a_slots_frame_does_not_depend_on_the_others(env: MujocoWarpEnv) -> None:
    together = frames(env)
    some = frames(env, torch.tensor([2, 0]))
    alone = MujocoWarpEnv(CoffeeTask("D1"), 1, "cpu", cameras=CAMERAS, image_size=SIZE)
    alone.set_state(env.get_state()[[1]])
    for name in CAMERAS:
        assert not torch.equal(together[name][0], together[name][1])
        assert torch.equal(some[name], together[name][[2, 0]])
        assert torch.equal(frames(alone)[name][0], together[name][1])


def test_drawing_disturbs_no_step(env: MujocoWarpEnv) -> None:
    state = env.get_state()
    actions = torch.zeros(3, env.action_dim)
    before = frames(env)
    end = env.start_step(actions)
    during = frames(env)
    end()
    after = env.get_state()
    assert all(torch.equal(during[name], before[name]) for name in CAMERAS)
    env.set_state(state)
    env.step(actions)
    assert torch.equal(env.get_state(), after)
