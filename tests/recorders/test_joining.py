"""What a killed run leaves becomes a dataset; datasets become one; digests say whether two are the same."""

import filecmp
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.digest import digest, digest_parts
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.joining import find_staged, merge, recover
from mimicpipe.recorders.lerobot import LeRobotRecorder
from mimicpipe.recorders.staging_area import StagingArea, staging_path
from mimicpipe.tools import digest as digest_tool
from mimicpipe.tools import merge as merge_tool
from mimicpipe.tools import recover as recover_tool

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)

KILLED = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from small_episodes import FEATURES, episode_of

from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder

recorder = AsyncLeRobotRecorder(sys.argv[2], "local/test", 20, FEATURES, async_queue_maxsize=4)
recorder.on_durable = lambda episode, index: print(index, flush=True)
for attempt in range(100_000):
    recorder.commit(episode_of(attempt, 5, f"task {attempt % 3}", FEATURES))
"""


def record(root, episodes, features, kind=AsyncLeRobotRecorder, **arguments):
    recorder = kind(root, "local/test", 20, features, **arguments)
    for episode in episodes:
        recorder.commit(episode)
    assert recorder.finalize() == root
    return root


def same_files(first, second, but=()):
    names = sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(second)) for path in second.rglob("*") if path.is_file())
    return filecmp.cmpfiles(first, second, names, shallow=False) == ([n for n in names if n not in but], list(but), [])


@pytest.mark.parametrize("when", [0.01, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.0, 0.002, 0.05, 0.1))])
def test_every_episode_that_was_reported_survives_kill_9(tmp_path, features, make_episode, when):
    root = tmp_path / "set"
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        reported = [int(run.stdout.readline())]
        time.sleep(when)
        run.send_signal(signal.SIGKILL)
        reported += [int(line) for line in run.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    assert not root.exists()
    attempts = recovered(root).attempts
    assert attempts[: len(reported)] == reported == list(range(len(reported)))
    count = len(attempts)
    expected = [make_episode(k, 5, f"task {k % 3}") for k in range(count)]
    assert same_files(root, record(tmp_path / "again", expected, features))
    assert sorted(os.listdir(tmp_path)) == ["again", "set"]


def recovered(root, **options):
    found = recover(root, **options)
    assert found is not None, f"nothing durable for {root}"
    return found


def killed_run(tmp_path, episodes, features):
    """What is left of a run that made `episodes` durable and was killed."""
    root = tmp_path / "set"
    recorder = AsyncLeRobotRecorder(root, "local/test", 20, features)
    for episode in episodes:
        recorder.commit(episode)
    recorder._leave()
    recorder._end()
    return root


def test_recovering_may_be_interrupted_at_any_step(tmp_path, camera_features, make_episode, monkeypatch):
    episodes = [make_episode(k, 3, features=camera_features) for k in range(3)]
    expected = record(tmp_path / "expected", episodes, camera_features)
    root = killed_run(tmp_path, episodes, camera_features)
    staging = staging_path(root)
    (staging / "dataset" / "data").mkdir(parents=True)  # of an assembly that was cut off
    (staging / "dataset" / "data" / "rest").write_text("half")
    interrupted = StagingArea.publish

    def cut_off(area, overwrite):
        area._root = tmp_path / "nowhere" / "set"
        interrupted(area, overwrite)

    monkeypatch.setattr(StagingArea, "publish", cut_off)
    with pytest.raises(OSError, match="nowhere"):
        recover(root)
    monkeypatch.undo()
    assert (staging / "assembled").is_file()
    assert recovered(root).attempts == [0, 1, 2]
    assert same_files(root, expected)
    with pytest.raises(ConfigError, match=r"nothing to recover, \.set\.staging is not beside it"):
        recover(root)


def test_recovering_after_the_dataset_has_been_moved_only_cleans_up(tmp_path, features, make_episode):
    root = killed_run(tmp_path, [make_episode(0)], features)
    staging = staging_path(root)
    record(tmp_path / "made", [make_episode(0)], features).rename(root)
    (staging / "assembled").touch()
    assert recovered(root).attempts == [0]
    assert os.listdir(tmp_path) == ["set"]


def test_an_existing_dataset_is_replaced_only_where_that_is_asked_for(tmp_path, features, make_episode):
    old = record(tmp_path / "old", [make_episode(9)], features)
    root = killed_run(tmp_path, [make_episode(k) for k in range(2)], features)
    old.rename(root)
    with pytest.raises(ConfigError, match="exists; replace it with --overwrite"):
        recover(root)
    assert [row["attempt"] for row in read_episode_metadata(root)] == [9]
    assert recovered(root, overwrite=True).attempts == [0, 1]
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0, 1]
    assert os.listdir(tmp_path) == ["set"]


def test_with_nothing_durable_there_is_nothing_left(tmp_path):
    root = tmp_path / "set"
    StagingArea(root, clear=False).leave()
    assert recover(root) is None
    assert os.listdir(tmp_path) == []


def test_a_root_with_staged_episodes_is_refused_and_can_be_replaced(tmp_path, features, make_episode):
    root = killed_run(tmp_path, [make_episode(0)], features)
    for kind in (AsyncLeRobotRecorder, LeRobotRecorder):
        with pytest.raises(ConfigError, match=r"has left 1 episodes in \.set\.staging; make a dataset of them with"):
            kind(root, "local/test", 20, features)
    record(root, [make_episode(1)], features, overwrite=True)
    assert [row["attempt"] for row in read_episode_metadata(root)] == [1]
    assert os.listdir(tmp_path) == ["set"]


def test_two_runs_cannot_write_one_dataset(tmp_path, features, make_episode, wait_until):
    root = tmp_path / "set"
    first, second = (AsyncLeRobotRecorder(root, "local/test", 20, features) for _ in range(2))
    first.commit(make_episode(0))
    wait_until(lambda: first.stats()["mb_per_s"] > 0)
    second.commit(make_episode(1))
    with pytest.raises(RecorderError, match=rf"set\.staging: process {os.getpid()} is writing there"):
        second.finalize()
    with pytest.raises(ConfigError, match=rf"process {os.getpid()} is writing this dataset; choose another"):
        AsyncLeRobotRecorder(root, "local/test", 20, features, overwrite=True)
    assert first.finalize() == root
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0]


@pytest.mark.parametrize("use_videos", [False, True])
def test_merged_shards_are_the_dataset_of_one_run(tmp_path, camera_features, make_episode, use_videos):
    episodes = [make_episode(k, 1 + 3 * k, f"task {k % 2}", camera_features) for k in range(5)]
    whole = record(tmp_path / "whole", episodes, camera_features, use_videos=use_videos)
    shards = [
        record(tmp_path / f"shard{part.start}", episodes[part], camera_features, use_videos=use_videos)
        for part in (slice(0, 2), slice(2, 3), slice(3, 5))
    ]
    assert merge_tool.main([str(tmp_path / "merged"), *map(str, shards)]) == 0
    assert same_files(tmp_path / "merged", whole, but=["meta/mimicpipe.json"])
    assert digest(tmp_path / "merged") == digest(whole)
    notes = json.loads((tmp_path / "merged" / "meta" / "mimicpipe.json").read_text())
    assert notes["run"] == {"merged": [None] * 3}


def test_datasets_that_do_not_fit_are_refused(tmp_path, features, make_episode):
    one = record(tmp_path / "one", [make_episode(0)], features)
    fewer = {name: feature for name, feature in features.items() if name != "action"}
    two = record(tmp_path / "two", [make_episode(0, features=fewer)], fewer)
    with pytest.raises(ConfigError, match=r"two: features is not that of .*one"):
        merge(tmp_path / "out", [one, two])
    with pytest.raises(ConfigError, match="is one of the datasets to merge"):
        merge(one, [one], overwrite=True)
    with pytest.raises(ConfigError, match="no dataset of a mimicpipe recorder"):
        merge(tmp_path / "out", [tmp_path])
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("codebase_version", "v2.1", "meta/info.json says codebase_version v2.1, expected v3.0"),
        ("total_episodes", 3, "meta/info.json says total_episodes 3, meta/episodes has 2; copy the dataset again"),
        ("total_frames", 7, "meta/info.json says total_frames 7, meta/episodes has 8; copy the dataset again"),
        (None, None, "meta/info.json says total_frames 8, data has 5; copy the dataset again"),
    ],
)
def test_a_dataset_that_is_not_what_its_info_says_is_not_merged(
    tmp_path, features, make_episode, capsys, key, value, said
):
    import pyarrow.parquet as pq

    good = record(tmp_path / "good", [make_episode(0, 3)], features)
    bad = record(tmp_path / "bad", [make_episode(k, 4) for k in range(2)], features)
    if key is None:
        data = bad / "data" / "chunk-000" / "file-000.parquet"
        pq.write_table(pq.read_table(data).slice(0, 5), data)
    else:
        info = bad / "meta" / "info.json"
        info.write_text(json.dumps({**json.loads(info.read_text()), key: value}))
    assert merge_tool.main([str(tmp_path / "out"), str(good), str(bad)]) == 2
    assert capsys.readouterr().err == f"error: {bad}: {said}\n"
    assert sorted(os.listdir(tmp_path)) == ["bad", "good"]


def test_a_digest_sees_content_and_not_files(tmp_path, features, make_episode):
    episodes = [make_episode(k) for k in range(3)]
    roots = [
        record(tmp_path / kind.__name__, episodes, features, kind) for kind in (LeRobotRecorder, AsyncLeRobotRecorder)
    ]
    first = digest(roots[0])
    assert digest(roots[1]) == first
    import pyarrow.parquet as pq

    data = roots[1] / "data" / "chunk-000" / "file-000.parquet"
    pq.write_table(pq.read_table(data), data, compression="zstd", row_group_size=4)
    assert digest(roots[1]) == first
    episodes[1].columns["action"][2, 3] = torch.nextafter(episodes[1].columns["action"][2, 3], torch.tensor(9.0))
    changed = record(tmp_path / "changed", episodes, features)
    parts, others = digest_parts(roots[0]), digest_parts(changed)
    assert {name for name in parts if parts[name] != others[name]} == {"action"}
    with pytest.raises(ConfigError, match="no LeRobot v3 dataset"):
        digest(tmp_path)


def test_the_tools_say_what_they_did(tmp_path, features, make_episode, capsys):
    root = killed_run(tmp_path, [make_episode(k) for k in range(2)], features)
    assert find_staged(tmp_path) == [root]
    assert recover_tool.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{root}: 2 episodes\n"
    assert recover_tool.main([str(tmp_path)]) == 2
    assert "nothing to recover" in capsys.readouterr().err
    assert digest_tool.main([str(root)]) == 0
    assert capsys.readouterr().out == f"{digest(root)}  {root}\n"
    assert digest_tool.main(["--parts", str(root)]) == 0
    assert f"{root}: action\n" in capsys.readouterr().out
    assert digest_tool.main([str(tmp_path)]) == 2
    assert merge_tool.main([str(tmp_path / "out"), str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("error: ") == 2


def test_states_without_numbers_are_kept(tmp_path, make_episode):
    features = {"action": Feature("float32", (1,))}
    episode = make_episode(0, 3, features=features)
    object.__setattr__(episode, "initial_state", torch.zeros(0, dtype=torch.float64))
    root = record(tmp_path / "set", [episode], features)
    (row,) = read_episode_metadata(root)
    assert row["initial_state"].shape == (0,)
    merge(tmp_path / "out", [root])
    assert np.array_equal(read_episode_metadata(tmp_path / "out")[0]["initial_state"].numpy(), np.zeros(0))
