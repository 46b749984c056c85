"""`recorder=sharded`: the same dataset from any number of writers, and none of their faults loses an episode."""

import contextlib
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from full_disk import largest_file

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders import remote_writer
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.joining import recover
from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.recorders.staging_area import count_staged, staging_path

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "set"


def record(root, episodes, features, **arguments):
    recorder = ShardedRecorder(root, "local/test", 20, features, **arguments)
    for episode in episodes:
        recorder.commit(episode)
    assert recorder.finalize() == root
    return root


def attempts(root):
    return [row["attempt"] for row in read_episode_metadata(root)]


def children():
    """Writer processes that this one has started, and that live."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return [pid for pid in found if "mimicpipe.recorders.writer_process" in command_of(pid)]


def command_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.parametrize("use_videos", [False, True])
def test_the_dataset_does_not_depend_on_the_writers(tmp_path, camera_features, make_episode, use_videos):
    episodes = [make_episode(k, 1 + 4 * k, f"task {k % 2}", camera_features) for k in range(6)]
    digests = set()
    for number, arguments in enumerate(
        [
            {},
            {"workers": 1, "async_queue_maxsize": 1},
            {"workers": 3, "max_queue_bytes": 1, "image_writer_threads": 2},
            {"data_files_size_in_mb": 1, "encoder_threads": 1},
        ]
    ):
        root = record(tmp_path / str(number), episodes, camera_features, use_videos=use_videos, **arguments)
        digests.add(digest(root))
        assert attempts(root) == list(range(6))
    assert len(digests) == 1
    assert sorted(os.listdir(tmp_path)) == list("0123")
    assert children() == []


def test_every_episode_is_written_and_reported_once_with_its_place(root, features, make_episode, wait_until):
    told = []
    recorder = ShardedRecorder(root, "local/test", 20, features, workers=2)
    recorder.on_durable = lambda episode, index: told.append((index, episode.outcome.attempt, episode.columns))
    for k in range(40):
        recorder.commit(make_episode(k + 3))
    wait_until(lambda: len(told) == 40)
    assert count_staged(staging_path(root)) == 40  # none is written twice
    recorder.finalize()
    assert sorted(told) == [(k, k + 3, {}) for k in range(40)]
    assert attempts(root) == [k + 3 for k in range(40)]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_writer_that_dies_or_hangs_is_replaced_and_loses_nothing(
    root, features, make_episode, wait_until, fault, tmp_path, monkeypatch
):
    recorder = ShardedRecorder(root, "local/test", 20, features, workers=1, worker_timeout_s=600.0)
    told = []
    recorder.on_durable = lambda episode, index: told.append(index)
    recorder.commit(make_episode(0))
    wait_until(lambda: told == [0])
    (first,) = children()
    # Ten minutes pass at once for the process that hangs; the next one has all its time, on however slow a machine.
    now = time.monotonic
    clock = SimpleNamespace(monotonic=lambda: now() * (10_000 if first in children() else 1))
    monkeypatch.setattr(remote_writer, "time", clock)
    os.kill(first, fault)
    for k in range(1, 6):
        recorder.commit(make_episode(k))
    wait_until(lambda: len(told) == 6 or recorder._failures)
    assert first not in children()
    assert recorder.finalize() == root
    assert told == list(range(6))
    expected = record(tmp_path / "expected", [make_episode(k) for k in range(6)], features)
    assert digest(root) == digest(expected)
    assert children() == []


def test_writers_that_keep_dying_are_an_error_and_what_was_durable_stays(root, features, make_episode, wait_until):
    recorder = ShardedRecorder(root, "local/test", 20, features, workers=1)
    told = []
    recorder.on_durable = lambda episode, index: told.append(index)
    recorder.commit(make_episode(0))
    wait_until(lambda: told == [0])
    stop = threading.Event()

    def killer():
        while not stop.is_set():
            for pid in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    killing = threading.Thread(target=killer, daemon=True)
    killing.start()
    time.sleep(0.05)
    recorder.commit(make_episode(1))
    wait_until(lambda: recorder._failures)
    stop.set()
    killing.join()
    with pytest.raises(
        RecorderError, match=r"env 1 attempt 1: .*a writer process has died \(SIGKILL\), and so did the one before it"
    ):
        recorder.finalize()
    assert attempts(root) == [0]
    assert os.listdir(root.parent) == ["set"]
    assert children() == []


@pytest.mark.parametrize("workers", [0, 1])
def test_an_encoder_that_fails_names_its_episode(root, camera_features, make_episode, workers):
    recorder = ShardedRecorder(
        root, "local/test", 20, camera_features, workers=workers, video_codec="h264", video_preset="nonsense"
    )
    recorder.commit(make_episode(5, features=camera_features))
    with pytest.raises(RecorderError, match=r"failed to write 1 committed episode\(s\): env 1 attempt 5: "):
        recorder.finalize()
    assert os.listdir(root.parent) == []
    assert children() == []


@pytest.mark.parametrize("workers", [0, 1])
def test_a_full_disk_stops_with_the_path_and_what_was_durable_can_be_recovered(
    root, features, make_episode, wait_until, workers
):
    recorder = ShardedRecorder(root, "local/test", 20, features, workers=workers)
    told = []
    recorder.on_durable = lambda episode, index: told.append(index)
    numbers = iter(range(1000))

    def commit_all():
        for number in numbers:
            recorder.commit(make_episode(number, 20))
            wait_until(lambda: recorder.async_stats["queue_size"] == 0)

    # The limit counts for the process that writes, too.
    with largest_file(60_000), pytest.raises(RecorderError, match=r"OSError: .*File too large: .*episodes-000\.log"):
        commit_all()
    assert told == list(range(len(told)))
    assert len(told) > 3
    with pytest.raises(RecorderError, match="episodes saved whole are in"):
        recorder.finalize()
    assert attempts(root) == told


def test_a_disk_too_full_for_the_dataset_leaves_what_is_durable(root, features, make_episode, wait_until):
    recorder = ShardedRecorder(root, "local/test", 20, features)
    for k in range(30):
        recorder.commit(make_episode(k, 20))
    wait_until(lambda: recorder._num_saved == 30)
    with largest_file(50_000), pytest.raises(RecorderError) as caught:
        recorder.finalize()
    assert f"what is durable is in {staging_path(root)}" in str(caught.value)
    assert f"python -m mimicpipe.tools.recover {root}" in str(caught.value)
    assert not root.exists()
    found = recover(root)
    assert found is not None
    assert found.attempts == list(range(30))
    assert os.listdir(root.parent) == ["set"]


@pytest.mark.parametrize("removed", ["before the last episode", "before finalize"])
def test_a_removed_folder_is_noticed(root, features, make_episode, wait_until, removed):
    recorder = ShardedRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    wait_until(lambda: recorder._num_saved == 1)
    shutil.rmtree(staging_path(root))
    if removed == "before the last episode":
        recorder.commit(make_episode(1))
        wait_until(lambda: recorder._failures)
        with pytest.raises(RecorderError, match=r"env 1 attempt 1: .*has been removed: .*episodes-000\.log"):
            recorder.commit(make_episode(2))
    with pytest.raises(RecorderError, match="of 1 durable episodes, 1 are gone: files were removed"):
        recorder.finalize()
    assert os.listdir(root.parent) == []


def test_episodes_of_one_and_of_many_frames(root, features, make_episode, read_columns):
    episodes = [make_episode(0, 1), make_episode(1, 10_000), make_episode(2, 1)]
    record(root, episodes, features, workers=1)
    columns = read_columns(root)
    assert columns["frame_index"].tolist() == [0, *range(10_000), 0]
    assert np.array_equal(columns["action"].astype(np.float32), torch.cat([e.columns["action"] for e in episodes]))
    assert attempts(root) == [0, 1, 2]


@pytest.mark.slow
def test_ten_thousand_short_episodes(root, make_episode, open_dataset):
    features = {"action": Feature("float32", (2,))}
    record(root, [make_episode(k, 10, features=features) for k in range(10_000)], features)
    dataset = open_dataset(root)
    assert (dataset.num_episodes, len(dataset)) == (10_000, 100_000)
    assert torch.equal(dataset[99_999]["action"], make_episode(9_999, 10, features=features).columns["action"][9])


def test_memory_in_the_queue_is_bounded_by_bytes(root, features, make_episode, wait_until):
    one = make_episode(0, 50).nbytes
    recorder = ShardedRecorder(root, "local/test", 20, features, max_queue_bytes=3 * one)
    go_on = threading.Event()

    def hold(episode, index):
        go_on.wait()

    recorder.on_durable = hold
    recorder.commit(make_episode(0, 50))
    wait_until(lambda: recorder._num_saved == 1)
    for k in range(1, 4):
        assert recorder.try_commit(make_episode(k, 50))
    assert not recorder.try_commit(make_episode(4, 50))
    assert recorder.stats()["queue_bytes"] == 3 * one
    go_on.set()
    recorder.finalize()


def test_a_picture_that_would_crash_the_encoder_is_refused(root, camera_features):
    with pytest.raises(ConfigError, match=r"video_codec=hevc: observation\.images\.wrist needs sides of 32 pixels"):
        ShardedRecorder(root, "local/test", 20, camera_features, video_codec="hevc")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": -1}, "workers=-1: an integer of at least 0"),
        ({"video_codec": "mpeg1"}, "video_codec=mpeg1: valid: libsvtav1, h264"),
        ({"data_files_size_in_mb": 0}, "data_files_size_in_mb=0: an integer of at least 1"),
        ({"video_files_size_in_mb": 1.5}, "video_files_size_in_mb=1.5"),
    ],
)
def test_bad_arguments_are_one_line(root, features, arguments, message):
    with pytest.raises(ConfigError, match=message):
        ShardedRecorder(root, "local/test", 20, features, **arguments)
    assert os.listdir(root.parent) == []
