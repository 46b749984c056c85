"""Camera frames: fresh, of the asked slots, without a trace in the physics; and one clear line where there is no GL."""

import numpy as np
import pytest
import torch

from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco.render import CameraRenderer
from mimicpipe.envs.mujoco.scene import build_model
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.errors import ConfigError
from mimicpipe.rng import attempt_seeds

CAMERAS = ("front", "wrist")
KEYS = [f"observation.images.{name}" for name in CAMERAS]


@pytest.fixture(scope="module")
def gl() -> None:
    """Skip where this machine has no GL; the error itself is tested below."""
    try:
        CameraRenderer(build_model(PickTask(), (16, 16)), CAMERAS, (16, 16)).close()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def env(gl: None):
    made = MujocoEnv(PickTask(), 3, cameras=CAMERAS, image_size=(48, 64))
    made.reset(made.all_ids(), attempt_seeds(0, np.arange(3)))
    yield made
    made.close()


def test_frames_are_what_the_features_say(env: MujocoEnv) -> None:
    observed = env.observe()
    assert set(observed) == set(env.observation_features)
    for key in KEYS:
        feature = env.observation_features[key]
        assert (feature.dtype, feature.shape) == ("video", (48, 64, 3))
        assert observed[key].shape == (3, 48, 64, 3)
        assert observed[key].dtype == torch.uint8
        assert observed[key].float().std() > 5  # a picture, not a blank
    # The red cube stands out in the front view, upright: the sky above, the table below.
    front = observed[KEYS[0]].int()
    assert (front[..., 0] - front[..., 1] > 80).flatten(1).any(dim=1).all()
    assert (front[:, 0, :, 2] > front[:, 0, :, 0]).float().mean() > 0.5
    assert (front[:, -1, :, 0] > front[:, -1, :, 2]).float().mean() > 0.5


def test_only_asked_slots_are_rendered_and_alike(env: MujocoEnv) -> None:
    whole, part = env.observe(), env.observe(torch.tensor([2, 0]))
    for key in KEYS:
        assert torch.equal(part[key], whole[key][[2, 0]])
        assert not torch.equal(whole[key][0], whole[key][1])


def test_frames_are_never_stale(env: MujocoEnv) -> None:
    seen = env.observe()
    env.reset(torch.tensor([1]), attempt_seeds(5, np.arange(1)))
    after_reset = env.observe()
    action = torch.tensor([[0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0]]).repeat(3, 1)
    env.step(action)
    env.step(action)
    after_step = env.observe()
    for key in KEYS:
        assert torch.equal(after_reset[key][0], seen[key][0])
        assert not torch.equal(after_reset[key][1], seen[key][1])
        for slot in range(3):
            assert not torch.equal(after_step[key][slot], after_reset[key][slot])


def test_cameras_leave_the_physics_alone(env: MujocoEnv) -> None:
    plain = MujocoEnv(PickTask(), 3)
    env.set_state(plain.get_state())
    for seed in range(5):
        actions = torch.rand(3, 7, generator=torch.Generator().manual_seed(seed)) - 0.5
        env.step(actions)
        plain.step(actions)
        env.observe()
        plain.observe()
    assert torch.equal(env.get_state(), plain.get_state())
    plain.close()


def test_close_is_final(gl: None) -> None:
    env = MujocoEnv(PickTask(), 1, cameras=["front"], image_size=(16, 16))
    env.close()
    env.close()
    with pytest.raises(RuntimeError, match="after close"):
        env.observe()


def test_without_gl_one_line_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "no_such_library")
    with pytest.raises(ConfigError, match=r"env.cameras=\['front'\].*libegl1 libegl-mesa0 libgl1-mesa-dri") as error:
        MujocoEnv(PickTask(), 1, cameras=["front"])
    assert "\n" not in str(error.value)
    MujocoEnv(PickTask(), 1).close()  # without cameras no GL is needed
