import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.errors import ConfigError
from mimicpipe.report.look_back import play
from mimicpipe.report.preview import (
    FAILURE,
    FEWEST_FRAMES,
    MOST_FRAMES,
    PLAY_MS,
    REST_MS,
    SUCCESS,
    TILE,
    as_clip,
    as_still,
    film,
    write_gif,
)  # fmt: skip
from mimicpipe.report.sample import Take


def episodes(env, lengths, failures=()):
    takes = []
    for number, length in enumerate(lengths):
        env.reset(torch.tensor([0]), np.array([number]))
        actions = torch.zeros(length, env.action_dim)
        actions[:, 2] = -0.5
        success = number not in failures
        takes.append(Take(number, success, "success" if success else "timeout", env.get_state()[0].clone(), actions))
    return play(env, takes, 60.0)


def test_a_grid_whose_borders_tell_the_outcome(tmp_path):
    env = KinematicEnv(PickTask(variant="D0"), 2)
    clips, why = film(env, episodes(env, [40, 9, 3, 20, 5], failures=[1]), 30.0)
    assert why == "this env does not render"
    assert [len(clip.frames) for clip in clips] == [MOST_FRAMES, 10, 4, 21, 6]
    write_gif(tmp_path / "preview.gif", clips)
    assert [path.name for path in tmp_path.iterdir()] == ["preview.gif"]
    with Image.open(tmp_path / "preview.gif") as picture:
        assert (getattr(picture, "n_frames", 1), picture.width // 4 >= TILE) == (MOST_FRAMES, True)
        first = np.asarray(picture.convert("RGB")).astype(int)
        picture.seek(MOST_FRAMES - 1)
        last = np.asarray(picture.convert("RGB")).astype(int)
    tile = first.shape[1] // 4
    for number, colour in enumerate((SUCCESS, FAILURE, SUCCESS, SUCCESS)):
        assert np.abs(first[1, number * tile + 1] - colour).max() < 40
    assert np.abs(first[:, :tile] - last[:, :tile]).max() > 50  # something has moved


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_few_frames_play_as_long_as_many(tmp_path, seconds):
    env = KinematicEnv(PickTask(variant="D0"), 1)
    clips, _ = film(env, episodes(env, [100]), seconds)
    write_gif(tmp_path / "preview.gif", clips)
    with Image.open(tmp_path / "preview.gif") as picture:
        durations = []
        for frame in range(getattr(picture, "n_frames", 1)):
            picture.seek(frame)
            durations.append(picture.info["duration"])
    assert len(durations) == len(clips[0].frames) == (MOST_FRAMES if seconds else FEWEST_FRAMES)
    assert PLAY_MS - 300 <= sum(durations[:-1]) <= PLAY_MS  # whole hundredths of a second each
    assert durations[-1] == REST_MS


def test_a_small_object_keeps_its_colour(tmp_path):
    env = KinematicEnv(PickTask(variant="D0"), 1)
    (clip, *_), _ = film(env, episodes(env, [8]), 30.0)
    shades = np.linspace(90, 200, TILE).astype(np.uint8)
    clip.frames = [np.stack([np.broadcast_to(shades[:, None] - n, (TILE, TILE)) for n in (0, 20, 60)], axis=-1).copy()]
    clip.frames[0][70:77, 70:77] = (220, 30, 30)
    write_gif(tmp_path / "preview.gif", [clip])
    with Image.open(tmp_path / "preview.gif") as picture:
        found = np.asarray(picture.convert("RGB")).astype(int)[76, 76]
    assert np.abs(found - (220, 30, 30)).max() < 40


def test_little_time_is_few_frames_but_always_the_end():
    env = KinematicEnv(PickTask(variant="D0"), 1)
    played = episodes(env, [100])
    (clip,), _ = film(env, played, 0.0)
    assert len(clip.frames) == FEWEST_FRAMES
    (longer,), _ = film(env, played, 30.0)
    assert np.array_equal(clip.frames[-1], longer.frames[-1])
    assert film(env, [], 1.0) == ([], None)


def test_clips_are_pictures():
    env = KinematicEnv(PickTask(variant="D0"), 1)
    (clip,), _ = film(env, episodes(env, [12]), 30.0)
    for address, count in ((as_clip(clip), 13), (as_still(clip), 1)):
        head, _, data = address.partition(",")
        assert head == "data:image/webp;base64"
        with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            assert picture.size == (TILE, TILE)
            assert getattr(picture, "n_frames", 1) == count


def test_a_state_that_is_not_finite_is_drawn_without_what_it_lacks():
    env = KinematicEnv(PickTask(variant="D0"), 1)
    (episode,) = episodes(env, [4])
    for poses in (*episode.objects.values(), *episode.eefs.values()):
        poses[2] = poses[2] * np.nan
    (clip,), _ = film(env, [episode], 30.0)
    assert len(clip.frames) == 5


def test_mujoco_renders_its_own_states():
    env = MujocoEnv(PickTask(variant="D0"), 2, image_size=(32, 48))
    try:
        renderer = env.frame_renderer((64, 64))
    except ConfigError as error:
        env.close()
        pytest.skip(f"no OpenGL: {error}")
    states = env.get_state().numpy()
    frames = renderer.render(states)
    renderer.close()
    assert frames.shape == (2, 64, 64, 3)
    assert frames.std() > 10
    played = episodes(env, [3])
    clips, why = film(env, played, 30.0)
    assert why is None
    assert len(clips[0].frames) == 4
    env.close()


def test_without_opengl_there_are_drawings_and_a_reason(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "nonsense")
    env = MujocoEnv(PickTask(variant="D0"), 1)
    clips, why = film(env, episodes(env, [3]), 30.0)
    env.close()
    assert len(clips[0].frames) == 4
    assert why is not None
    assert why.startswith("no OpenGL (")
    assert "nonsense" in why
