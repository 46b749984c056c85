"""Shards become the dataset that one recorder would have written, whoever staged what, and how often."""

import threading

import pytest
from same_files import different_files
from small_episodes import CAMERAS, FEATURES, episode_of

from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders.hdf5 import Hdf5Recorder
from mimicpipe.recorders.lerobot import LeRobotRecorder
from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.recorders.shared_staging import SharedStaging
from mimicpipe.recorders.staging_area import count_staged, staging_path

pytestmark = pytest.mark.timeout(180)  # the first test waits for imports
ATTEMPTS = [0, 1, 4, 5, 6, 9, 10, 11]
"""Attempts that succeeded."""


def episodes(attempts, features):
    return [episode_of(attempt, 3 + attempt % 3, f"task {attempt % 2}", features) for attempt in attempts]


def whole(root, features, kind=ShardedRecorder, attempts=ATTEMPTS):
    recorder = kind(root, "local/test", 20, features)
    for episode in episodes(attempts, features):
        recorder.commit(episode)
    return recorder.finalize()


def stage(staging, attempts, features, kind=ShardedRecorder, **arguments):
    """Stage episodes as a worker does; returns the attempts that it was told are durable."""
    shard = staging.shard(max(1, arguments.get("workers", 0)))
    shard.report()
    shard.check_answer()
    recorder = kind(shard.folder.parent / "elsewhere", "local/test", 20, features, shard=shard, **arguments)
    durable = []
    recorder.on_durable = lambda episode, index: durable.append(index)
    for episode in episodes(attempts, features):
        recorder.commit(episode)
    assert recorder.finalize() is None
    return durable


@pytest.mark.parametrize("features", [FEATURES, FEATURES | CAMERAS], ids=["numbers", "cameras"])
def test_shards_make_the_dataset_of_one_recorder(tmp_path, features):
    expected = whole(tmp_path / "whole", features)
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    odd = [attempt for attempt in ATTEMPTS if attempt % 2]
    assert stage(staging, odd, features) == odd
    stage(staging, [0, 4], features)  # lost after the second,
    stage(staging, [4, 6, 10, 12, 14], features)  # and its successor makes one again, and goes beyond the end
    assert staging.publish(attempts=12, expected=len(ATTEMPTS)) == tmp_path / "set"
    assert different_files(expected, tmp_path / "set") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "whole"]


def test_a_shard_with_processes_that_write(tmp_path):
    expected = whole(tmp_path / "whole", FEATURES)
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    assert sorted(stage(staging, ATTEMPTS[:5], FEATURES, workers=2)) == ATTEMPTS[:5]
    stage(staging, ATTEMPTS[5:], FEATURES)
    staging.publish(attempts=12, expected=len(ATTEMPTS))
    assert different_files(expected, tmp_path / "set") == []


def test_shards_of_recorder_hdf5(tmp_path):
    expected = whole(tmp_path / "whole", FEATURES, Hdf5Recorder)
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    stage(staging, ATTEMPTS[1::2], FEATURES, Hdf5Recorder)
    stage(staging, ATTEMPTS[::2], FEATURES, Hdf5Recorder)
    staging.publish(attempts=12, expected=len(ATTEMPTS))
    assert different_files(expected, tmp_path / "set") == []


def test_two_shards_at_once(tmp_path):
    expected = whole(tmp_path / "whole", FEATURES)
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    threads = [threading.Thread(target=stage, args=(staging, ATTEMPTS[half::2], FEATURES)) for half in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    staging.publish(attempts=12, expected=len(ATTEMPTS))
    assert different_files(expected, tmp_path / "set") == []


def test_what_is_gone_on_with_comes_first(tmp_path):
    expected = whole(tmp_path / "whole", FEATURES)
    first = SharedStaging(tmp_path / "set", overwrite=False)
    stage(first, ATTEMPTS[:3], FEATURES)
    first.publish(attempts=5, expected=3)
    going_on = SharedStaging(tmp_path / "set", overwrite=False, kept=3)
    stage(going_on, ATTEMPTS[3:5], FEATURES)
    going_on.leave()  # killed
    last = SharedStaging(tmp_path / "set", overwrite=False, kept=5)
    stage(last, ATTEMPTS[5:], FEATURES)
    last.publish(attempts=12, expected=len(ATTEMPTS))
    assert different_files(expected, tmp_path / "set") == []


def test_missing_episodes_are_not_passed_over(tmp_path):
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    stage(staging, [0, 1], FEATURES)
    with pytest.raises(RecorderError, match=r"of 3 durable episodes, 1 are gone.*tools\.recover"):
        staging.publish(attempts=12, expected=3)
    assert count_staged(staging_path(tmp_path / "set")) == 2
    staging.leave()


def test_nothing_is_left_where_nothing_was_staged(tmp_path):
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    assert staging.publish(attempts=5, expected=0) is None
    staging.leave()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_shared_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("mimicpipe.recorders.shard._SEEN_WITHIN_S", 0.05)
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    shard = staging.shard(1)
    with pytest.raises(ConfigError, match=r"what a worker writes into .* does not arrive here; choose a folder"):
        shard.check_answer()  # the worker has written to a folder of its own machine
    (shard.folder / "token").write_text("of another folder")
    with pytest.raises(ConfigError, match="is not seen by this worker; choose a folder that all machines share"):
        shard.report()
    staging.leave()


def test_recorder_sync_has_no_shards(tmp_path):
    staging = SharedStaging(tmp_path / "set", overwrite=False)
    with pytest.raises(ConfigError, match="recorder=sync stages nothing"):
        LeRobotRecorder(tmp_path / "set", "local/test", 20, FEATURES, shard=staging.shard(1))
    staging.leave()
