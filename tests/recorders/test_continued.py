"""A dataset that was published early is gone on with: to the bytes of one that was written in one go."""

import os
import shutil

import pytest
from same_files import different_files
from small_episodes import CAMERAS

from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.continued import ContinuedRun
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.joining import recover
from mimicpipe.recorders.lerobot import LeRobotRecorder
from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.recorders.staging_area import StagingArea, put_back, staging_path

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def episodes(make_episode, camera_features):
    return [make_episode(k, 1 + 2 * (k % 3), f"task {k % 2}", camera_features) for k in range(9)]


def record(root, episodes, features, finish=True, **arguments):
    recorder = ShardedRecorder(root, "local/test", 20, features, **arguments)
    for episode in episodes:
        recorder.commit(episode)
    if finish:
        assert recorder.finalize() == root
    else:  # what is left when the process is killed
        recorder._leave()
        recorder._end()
    return root


def attempts(root):
    return [row["attempt"] for row in read_episode_metadata(root)]


@pytest.mark.parametrize("use_videos", [False, True])
def test_it_is_the_dataset_of_a_run_in_one_go(tmp_path, camera_features, episodes, use_videos):
    whole = record(tmp_path / "whole", episodes, camera_features, use_videos=use_videos)
    root = record(tmp_path / "set", episodes[:4], camera_features, use_videos=use_videos)
    assert not staging_path(root).exists()
    record(root, episodes[4:7], camera_features, use_videos=use_videos, resume=4, workers=1)
    assert attempts(root) == list(range(7))
    # This time it is killed, and the dataset at the root stays as it was, until the next one is complete.
    record(root, episodes[7:8], camera_features, use_videos=use_videos, resume=7, finish=False)
    assert attempts(root) == list(range(7))
    assert [meta["attempt"] for meta in ContinuedRun(root).metas] == list(range(8))
    record(root, episodes[8:], camera_features, use_videos=use_videos, resume=8)
    assert different_files(root, whole) == []
    assert sorted(os.listdir(tmp_path)) == ["set", "whole"]


def test_with_nothing_to_add_it_stays_as_it_is(tmp_path, camera_features, episodes):
    root = record(tmp_path / "set", episodes[:3], camera_features)
    before = (root / "meta" / "info.json").stat().st_mtime_ns
    record(root, [], camera_features, resume=3)
    assert (root / "meta" / "info.json").stat().st_mtime_ns == before
    assert os.listdir(tmp_path) == ["set"]


def test_a_run_that_was_killed_while_going_on_can_be_recovered(tmp_path, camera_features, episodes):
    whole = record(tmp_path / "whole", episodes[:7], camera_features)
    root = record(tmp_path / "set", episodes[:4], camera_features)
    record(root, episodes[4:7], camera_features, resume=4, finish=False)
    found = recover(root)
    assert found is not None
    assert found.attempts == list(range(7))
    assert [episode["slot"] for episode in found.episodes] == [None] * 4 + [k % 4 for k in range(4, 7)]
    assert different_files(root, whole) == []
    assert not staging_path(root).exists()


@pytest.mark.parametrize("step", ["assembled", "set aside", "moved", "half removed"])
def test_publishing_may_be_cut_off_at_any_step(tmp_path, camera_features, episodes, step):
    whole = record(tmp_path / "whole", episodes[:6], camera_features)
    root = record(tmp_path / "set", episodes[:4], camera_features)
    record(root, episodes[4:6], camera_features, resume=4, finish=False)
    staging = staging_path(root)
    shutil.copytree(whole, staging / "dataset")
    (staging / "assembled").touch()
    if step != "assembled":
        root.rename(staging / "replaced")
    if step in ("moved", "half removed"):
        (staging / "dataset").rename(root)
    if step == "half removed":
        shutil.rmtree(staging / "replaced")
        (staging / "base").unlink()
    found = recover(root)
    assert found is not None
    assert found.attempts == list(range(6))
    assert different_files(root, whole) == []
    assert sorted(os.listdir(tmp_path)) == ["set", "whole"]


def test_what_was_set_aside_is_put_back(tmp_path, camera_features, episodes):
    root = record(tmp_path / "set", episodes[:2], camera_features)
    area = StagingArea(root, clear=False)
    put_back(root)
    assert attempts(root) == [0, 1]
    root.rename(area.folder / "replaced")
    put_back(root)
    assert attempts(root) == [0, 1]
    area.discard()


def test_the_mark_goes_last_so_that_no_rest_is_taken_for_a_run(tmp_path, camera_features, episodes, monkeypatch):
    root = record(tmp_path / "set", episodes[:4], camera_features, finish=False)
    seen = []
    unlink = os.unlink

    def watching(path, *args, **kwargs):
        seen.append(os.path.basename(path))
        unlink(path, *args, **kwargs)

    monkeypatch.setattr(os, "unlink", watching)
    recover(root)
    names = [name for name in seen if name in ("assembled", "base") or name.endswith(".log")]
    assert names[-1] == "assembled"
    assert "episodes-000.log" in names


def test_other_features_are_refused_and_nothing_is_lost(tmp_path, camera_features, features, episodes, make_episode):
    root = record(tmp_path / "set", episodes[:2], camera_features)
    recorder = ShardedRecorder(root, "local/test", 20, features, resume=2)
    recorder.commit(make_episode(2))
    with pytest.raises(RecorderError, match=r"features is not that of the logs in \.set\.staging"):
        recorder.finalize()
    assert attempts(root) == [0, 1]


def test_other_video_settings_are_refused(tmp_path, camera_features, episodes):
    root = record(tmp_path / "set", episodes[:2], camera_features)
    recorder = ShardedRecorder(root, "local/test", 20, camera_features, resume=2, video_gop=7)
    recorder.commit(episodes[2])
    with pytest.raises(RecorderError, match=r"video is not that of the logs"):
        recorder.finalize()
    assert attempts(root) == [0, 1]


@pytest.mark.parametrize("codec", ["h264", "libaom-av1"])  # x265 does not give the same bytes each time
def test_every_codec_is_known_again(tmp_path, features, make_episode, codec):
    settings = {"video_codec": codec, "video_crf": 28.5}
    features |= {"observation.images.front": CAMERAS["observation.images.front"]}
    episodes = [make_episode(k, 3, features=features) for k in range(3)]
    whole = record(tmp_path / "whole", episodes, features, **settings)
    root = record(tmp_path / "set", episodes[:2], features, **settings)
    record(root, episodes[2:], features, resume=2, **settings)
    assert different_files(root, whole) == []


def test_the_sync_recorder_cannot_go_on(tmp_path, features, make_episode):
    root = record(tmp_path / "set", [make_episode(0)], features)
    with pytest.raises(ConfigError, match="recorder=sync cannot go on with a dataset; take recorder=async"):
        LeRobotRecorder(root, "local/test", 20, features, resume=1)
    AsyncLeRobotRecorder(root, "local/test", 20, features, resume=1).finalize()
    assert attempts(root) == [0]
