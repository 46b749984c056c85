"""Isaac Lab's camera sensor on a CPU: what it shows is the present state, and becomes camera features."""

import warnings

import numpy as np
import pytest
import torch
from isaaclab_marks import PICK, SLOW, require

from mimicpipe import rng
from mimicpipe.envs.isaaclab.env import IsaacLabEnv

require()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Isaac Lab's own
    import isaaclab_camera

pytestmark = list(SLOW)

TABLE_MM = round(1000 * isaaclab_camera.ABOVE)
CUBE_MM = TABLE_MM - 40


@pytest.fixture(scope="module")
def env():
    env = IsaacLabEnv(PICK, 2, configure=isaaclab_camera.add_camera)
    yield env
    env.close()


def reset(env: IsaacLabEnv, *attempts: int) -> None:
    env.reset(torch.arange(len(attempts)), rng.attempt_seeds(0, np.array(attempts)))


def test_its_images_are_features_and_show_the_scene(env):
    shape = (isaaclab_camera.HEIGHT, isaaclab_camera.WIDTH)
    above, depth = (env.observation_features[f"observation.images.{name}"] for name in ("above", "depth"))
    assert (above.dtype, above.shape) == ("video", (*shape, 3))
    assert (depth.dtype, depth.shape) == ("depth", (*shape, 1))
    reset(env, 1, 2)
    seen = env.observe()
    assert seen["observation.images.above"].dtype == torch.uint8
    assert float(seen["observation.images.above"].float().std()) > 1
    millimetres = seen["observation.images.depth"].int()
    for slot in millimetres:
        assert int(((slot - TABLE_MM).abs() <= 3).sum()) > 100
        assert 0 < int(((slot - CUBE_MM).abs() <= 3).sum()) < 30
    assert not torch.equal(millimetres[0], millimetres[1])  # the cube lies elsewhere


def test_what_is_shown_is_the_present_state_of_each_slot(env):
    reset(env, 1, 2)
    first = env.observe()
    state = env.get_state()
    push = {"panda": torch.full((2, 6), 0.03)}
    for _ in range(3):
        still = {"panda": env.get_robot_eef_pose("panda")}
        env.step(env.target_eef_pose_to_action(still, {"panda": torch.ones(2, 1)}, push))
    moved = env.observe()
    reset(env, 2)  # slot 0
    mixed = env.observe()
    env.set_state(state)
    again = env.observe()
    for name in ("observation.images.above", "observation.images.depth"):
        assert not torch.equal(moved[name], first[name])
        assert torch.equal(mixed[name][0], first[name][1])
        assert torch.equal(mixed[name][1], moved[name][1])
        assert torch.equal(again[name], first[name])
