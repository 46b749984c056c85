"""Writes that fail for a real reason: a file where a folder should be, a removed folder, a file-size limit."""

import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
import torch
from full_disk import largest_file
from small_episodes import CAMERAS

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders import camera_encoder
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.episode_rows import episode_row, read_episode_metadata
from mimicpipe.recorders.lerobot import LeRobotRecorder
from mimicpipe.recorders.lerobot_storage import DatasetSpec, LeRobotStorage

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "set"


def failure_of(function, *args):
    with pytest.raises(RecorderError) as caught:
        function(*args)
    return str(caught.value)


def test_a_failed_write_is_raised_by_its_commit_by_later_ones_and_by_finalize(
    root, features, make_episode, staging_of, open_dataset, read_columns
):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    told = []
    recorder.on_durable = lambda episode, index: told.append((episode.outcome.attempt, index))
    for k in range(3):
        recorder.commit(make_episode(k))
    statistics = staging_of(root) / "meta" / "stats.json"
    statistics.unlink()
    statistics.mkdir()
    first = failure_of(recorder.commit, make_episode(7))
    assert "failed to write 1 committed episode(s): env 3 attempt 7: IsADirectoryError" in first
    assert failure_of(recorder.commit, make_episode(8)) == first
    statistics.rmdir()
    last = failure_of(recorder.finalize)
    assert last == f"{first}; the 3 episodes saved whole are in {root}"
    assert failure_of(recorder.finalize) == last
    # The failed episode's data rows and totals had been written by then; they are cut off again.
    dataset = open_dataset(root)
    assert (dataset.num_episodes, len(dataset), len(dataset.hf_dataset)) == (3, 15, 15)
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0, 1, 2]
    assert read_columns(root)["index"].tolist() == list(range(15))
    assert told == [(0, 0), (1, 1), (2, 2)]
    assert set(os.listdir(root.parent)) == {"set", "hf_cache"}


def test_a_failing_video_episode_is_cut_off(root, camera_features, make_episode, staging_of, open_dataset):
    recorder = LeRobotRecorder(root, "local/test", 20, camera_features)
    for k in range(2):
        recorder.commit(make_episode(k, 3, features=camera_features))
    # The second camera's video cannot be joined once the first one's has been.
    video = staging_of(root) / "videos" / "observation.images.wrist" / "chunk-000" / "file-000.mp4"
    whole = video.read_bytes()
    video.write_bytes(b"")
    assert "env 2 attempt 2" in failure_of(recorder.commit, make_episode(2, 3, features=camera_features))
    video.write_bytes(whole)
    assert "the 2 episodes saved whole" in failure_of(recorder.finalize)
    with pytest.raises(RecorderError) as raised:
        recorder.finalize()
    assert raised.value.published == root
    dataset = open_dataset(root)
    assert len(dataset) == 6
    assert dataset[5]["observation.images.wrist"].shape == (3, 24, 36)
    assert sorted(os.listdir(root)) == ["data", "meta", "videos"]


def test_a_camera_frame_that_does_not_reach_the_disk_fails_its_episode_only(
    root, camera_features, make_episode, staging_of, open_dataset
):
    storage = LeRobotStorage(DatasetSpec(root, "local/test", 20, camera_features, None, False, 2, False, None))
    episodes = [make_episode(k, 4, features=camera_features) for k in range(3)]
    storage.open(episodes[0].columns)
    assert storage.write(episodes[0], episode_row(episodes[0])) == 0
    # LeRobot logs that it cannot write this frame, and goes on.
    (staging_of(root) / "images/observation.images.front/episode-000001/frame-000002.png").mkdir(parents=True)
    with pytest.raises(RecorderError, match=r"observation.images.front: 3 of 4 camera frames reached the disk"):
        storage.write(episodes[1], episode_row(episodes[1]))
    assert storage.write(episodes[2], episode_row(episodes[2])) == 1
    assert storage.publish() == root
    dataset = open_dataset(root)
    assert len(dataset) == 8
    shown = (dataset[6]["observation.images.front"] * 255).round().to(torch.uint8).permute(1, 2, 0)
    assert torch.equal(shown, episodes[2].columns["observation.images.front"][2])


def test_a_dataset_that_cannot_be_completed_is_removed(root, features, make_episode, staging_of):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    shutil.rmtree(staging_of(root) / "meta")
    (staging_of(root) / "meta").write_text("")
    assert "env 1 attempt 1: FileExistsError" in failure_of(recorder.commit, make_episode(1))
    assert "storage: NotADirectoryError" in failure_of(recorder.finalize)
    assert os.listdir(root.parent) == []


def test_a_removed_folder_is_noticed_and_an_old_dataset_stays(root, features, make_episode, staging_of):
    old = LeRobotRecorder(root, "local/test", 20, features)
    old.commit(make_episode(5))
    old.finalize()
    recorder = LeRobotRecorder(root, "local/test", 20, features, overwrite=True)
    recorder.commit(make_episode(0))
    shutil.rmtree(staging_of(root).parent)
    message = failure_of(recorder.finalize)
    assert "storage: 5 frames were saved, but 5 of them are not in the data files" in message
    assert failure_of(recorder.finalize) == message
    assert os.listdir(root.parent) == ["set"]
    assert [row["attempt"] for row in read_episode_metadata(root)] == [5]


def test_a_full_disk_names_the_episode(root, features, make_episode):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    with largest_file(4000):
        message = failure_of(recorder.commit, make_episode(1, length=500))
    assert "env 1 attempt 1: OSError" in message
    assert "File too large" in message
    assert message in failure_of(recorder.finalize)
    assert os.listdir(root.parent) == []


def test_a_dataset_that_lerobot_can_read_is_not_removed(root, features, make_episode, staging_of, open_dataset):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    (staging_of(root) / "meta" / "mimicpipe.json").mkdir()
    message = failure_of(recorder.finalize)
    assert message.startswith("storage: IsADirectoryError")
    assert message.endswith(f"; the dataset is in {staging_of(root)}")
    assert not root.exists()
    assert len(open_dataset(staging_of(root))) == 5


def test_what_appears_at_the_root_stays_and_the_new_dataset_is_not_lost(
    root, features, make_episode, staging_of, open_dataset
):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    complete = staging_of(root)
    root.mkdir()
    (root / "note").write_text("")
    assert failure_of(recorder.finalize) == (
        f"storage: {root} has appeared since the recorder was made; the dataset is in {complete}"
    )
    assert os.listdir(root) == ["note"]
    assert len(open_dataset(complete)) == 5


def test_a_listener_that_raises_is_a_failure_but_the_dataset_is_there(root, features, make_episode):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    recorder.on_durable = lambda episode, index: [].pop()
    assert failure_of(recorder.finalize) == (
        f"on_durable: IndexError: pop from empty list; the 1 episodes saved whole are in {root}"
    )
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0]


def test_the_async_recorder_raises_a_failed_write_at_the_next_commit(tmp_path, features, make_episode, wait_until):
    root = tmp_path / "parent" / "set"
    recorder = AsyncLeRobotRecorder(root, "local/test", 20, features)
    (tmp_path / "parent").write_text("a file where the folder should be")
    recorder.commit(make_episode(6))
    wait_until(lambda: recorder._failures)
    message = failure_of(recorder.commit, make_episode(7))
    assert "failed to write 1 committed episode(s): env 2 attempt 6: " in message
    assert failure_of(recorder.try_commit, make_episode(7)) == message
    assert failure_of(recorder.finalize) == message
    assert os.listdir(tmp_path) == ["parent"]


@pytest.fixture
def as_nobody(tmp_path):
    """A folder that may be read and not written, by this process as long as the test lasts: root may write anywhere."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    (folder / "parent").mkdir()
    folder.chmod(0o755)
    (folder / "parent").chmod(0o555)
    nobody, root = 65534, os.geteuid()
    if root == 0:
        os.chown(folder / "parent", nobody, nobody)
        os.seteuid(nobody)
    yield folder / "parent"
    if root == 0:
        os.seteuid(root)
    (folder / "parent").chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", [LeRobotRecorder, AsyncLeRobotRecorder])
def test_a_folder_that_may_not_be_written_is_refused(as_nobody, features, kind):
    with pytest.raises(ConfigError, match=rf"set: cannot be made in {as_nobody} \(Permission denied\); choose another"):
        kind(as_nobody / "set", "local/test", 20, features)


def test_a_folder_that_becomes_read_only_is_told_at_the_next_commit(as_nobody, features, make_episode, wait_until):
    as_nobody.chmod(0o755)
    recorder = AsyncLeRobotRecorder(as_nobody / "set", "local/test", 20, features)
    as_nobody.chmod(0o555)
    recorder.commit(make_episode(6))
    wait_until(lambda: recorder._failures)
    message = failure_of(recorder.commit, make_episode(7))
    assert "failed to write 1 committed episode(s): env 2 attempt 6: PermissionError: " in message
    assert f"{as_nobody}/.set.staging" in message
    assert failure_of(recorder.finalize) == message
    assert os.listdir(as_nobody) == []


def test_an_episode_that_cannot_be_encoded_is_named_and_the_others_keep_their_order(
    root, make_episode, monkeypatch, wait_until
):
    features = {"observation.images.front": CAMERAS["observation.images.front"], "action": Feature("float32", (7,))}
    encode = camera_encoder.encode_video

    def failing(frames, *arguments):
        frames = list(frames)
        if (frames[0] == 13).all():
            raise OSError("the encoder has failed")
        return encode(frames, *arguments)

    monkeypatch.setattr(camera_encoder, "encode_video", failing)
    episodes = [make_episode(k, 3, features=features) for k in range(5)]
    episodes[2].columns["observation.images.front"][0] = 13
    recorder = AsyncLeRobotRecorder(root, "local/test", 20, features)
    go_on, told = threading.Event(), []

    def on_durable(episode, index):
        told.append((episode.outcome.attempt, index))
        go_on.wait()

    recorder.on_durable = on_durable
    for episode in episodes:  # the first one holds the writer up until all are in the queue
        recorder.commit(episode)
        wait_until(lambda: told)
    go_on.set()
    with pytest.raises(RecorderError, match=r"env 2 attempt 2: OSError: the encoder has failed") as caught:
        recorder.finalize()
    assert caught.value.missing == {2: 3}
    assert told == [(k, k) for k in (0, 1, 3, 4)]
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0, 1, 3, 4]
