"""`recorder=async`, against the real LeRobot: the queue's promises."""

import asyncio
import filecmp
import os
import threading

import numpy as np
import pytest
import torch
from rollout_env import RolloutEnv

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.lerobot import LeRobotRecorder

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)

STATS = {"queue_size", "queue_maxsize", "queue_peak", "backpressure_events", "backpressure_s"}


@pytest.fixture
def root(tmp_path):
    return tmp_path / "set"


@pytest.fixture
def make_recorder(root, features):
    made = []

    def make(**arguments):
        made.append(AsyncLeRobotRecorder(root, "local/test", 20, features, **arguments))
        return made[-1]

    yield make
    for recorder in made:
        recorder.abort()
    assert [thread.name for thread in threading.enumerate() if thread.name == "mimicpipe-recorder"] == []


def attempts(root):
    return [row["attempt"] for row in read_episode_metadata(root)]


def files_below(folder):
    return sorted(
        os.path.relpath(os.path.join(base, name), folder) for base, _, names in os.walk(folder) for name in names
    )


@pytest.mark.parametrize("value", [-1, True, False, 1.0, "4", None])
def test_the_queue_size_is_a_count(make_recorder, value):
    with pytest.raises(ValueError, match=r"async_queue_maxsize=.*: an integer of at least 0"):
        make_recorder(async_queue_maxsize=value)


@pytest.mark.parametrize("value", [-1, True, 1e9, "1GB"])
def test_the_byte_limit_is_a_count(make_recorder, value):
    with pytest.raises(ConfigError, match=r"max_queue_bytes=.*: an integer of at least 0"):
        make_recorder(max_queue_bytes=value)


def test_kinematics_on_the_worker_are_refused(tmp_path, features):
    features |= {"observation.eef_pose": Feature("float32", (2,))}
    with pytest.raises(ValueError, match="record_eef_observation: the worker thread may not use the simulator"):
        AsyncLeRobotRecorder(tmp_path / "set", "local/test", 20, features, record_eef_observation=True)
    assert os.listdir(tmp_path) == []


def test_it_takes_the_arguments_of_the_sync_recorder():
    from mimicpipe.build import parameters_of

    own, sync = (parameters_of(kind) for kind in (AsyncLeRobotRecorder, LeRobotRecorder))
    assert set(sync[0]) - set(own[0]) == {"eef_pose_fn"}
    assert (own[1], sync[1]) == (False, False)  # neither takes just any name


@pytest.mark.parametrize("cameras", [False, True])
def test_the_dataset_is_the_same_bytes_as_the_sync_recorders(
    tmp_path, features, camera_features, make_episode, cameras
):
    roots = {}
    columns = camera_features if cameras else features
    for name, kind in (("sync", LeRobotRecorder), ("async", AsyncLeRobotRecorder)):
        roots[name] = tmp_path / name
        recorder = kind(roots[name], "local/test", 20, columns, use_videos=False, run_info={"a": 1})
        for k in range(5):
            recorder.commit(make_episode(k, 1 + k, task=f"task {k % 2}", features=columns))
        assert recorder.finalize() == roots[name]
    names = files_below(roots["sync"])
    assert names == files_below(roots["async"])
    # Only the cameras' quantiles are others: the async recorder's are exact.
    differ = ["meta/mimicpipe.json", "meta/stats.json"]
    _, different, _ = filecmp.cmpfiles(roots["sync"], roots["async"], names, shallow=False)
    assert sorted(different) == (differ if cameras else [])


def test_commit_returns_before_the_write_and_order_is_kept(make_recorder, hold_worker, root, make_episode):
    recorder = make_recorder()
    told = []
    recorder.on_durable = lambda episode, index: told.append((episode.outcome.attempt, index))
    release = hold_worker(recorder)
    for k in range(2, 8):
        recorder.commit(make_episode(k))
    stats = recorder.async_stats
    assert set(stats) == STATS
    assert (stats["queue_size"], stats["queue_maxsize"], stats["queue_peak"]) == (6, 0, 6)
    assert stats["backpressure_events"] == stats["backpressure_s"] == 0
    assert recorder.stats()["queue_bytes"] == 6 * make_episode(2).nbytes
    assert set(recorder.stats()) == STATS | {"queue_bytes", "queue_wait_s", "mb_per_s"}
    release()
    assert recorder.finalize() == root
    assert attempts(root) == list(range(8))
    assert told == [(k, k) for k in range(8)]
    assert recorder.async_stats["queue_size"] == 0
    assert recorder.finalize() == root
    assert len(told) == 8
    with pytest.raises(RuntimeError, match="AsyncLeRobotRecorder is already finalized"):
        recorder.commit(make_episode(9))
    with pytest.raises(RuntimeError, match="AsyncLeRobotRecorder is already finalized"):
        recorder.try_commit(make_episode(9))


@pytest.mark.parametrize("bound", ["items", "bytes"])
def test_a_full_queue_blocks_commit_and_drops_nothing(
    make_recorder, hold_worker, wait_until, root, make_episode, bound
):
    two = 2 if bound == "items" else 2 * make_episode(2).nbytes
    recorder = make_recorder(**{"async_queue_maxsize" if bound == "items" else "max_queue_bytes": two})
    release = hold_worker(recorder)
    assert recorder.try_commit(make_episode(2))
    assert recorder.try_commit(make_episode(3))
    assert not recorder.try_commit(make_episode(4))
    assert recorder.async_stats["backpressure_events"] == 0  # it did not wait
    blocked = threading.Thread(target=recorder.commit, args=(make_episode(4),), daemon=True)
    blocked.start()
    wait_until(lambda: recorder.async_stats["backpressure_events"] == 1)
    assert blocked.is_alive()
    assert recorder.async_stats["backpressure_s"] > 0
    assert recorder.async_stats["queue_size"] == recorder.async_stats["queue_peak"] == 2
    release()
    blocked.join()
    assert recorder.try_commit(make_episode(5, length=0))  # an empty episode needs no room
    assert recorder.finalize() == root
    assert attempts(root) == [0, 1, 2, 3, 4]
    assert recorder.async_stats["queue_peak"] == 2


def test_finalize_takes_a_commit_that_waits(make_recorder, hold_worker, wait_until, root, make_episode):
    recorder = make_recorder(async_queue_maxsize=1)
    release = hold_worker(recorder)
    recorder.commit(make_episode(2))
    blocked = threading.Thread(target=recorder.commit, args=(make_episode(3),), daemon=True)
    blocked.start()
    wait_until(lambda: recorder.async_stats["backpressure_events"] == 1)
    results = []
    finalizing = threading.Thread(target=lambda: results.append(recorder.finalize()), daemon=True)
    finalizing.start()
    wait_until(lambda: not recorder._accepting)
    release()
    for thread in (blocked, finalizing):
        thread.join()
    assert results == [root]
    assert attempts(root) == [0, 1, 2, 3]


def test_an_event_loop_goes_on_while_the_queue_is_full(make_recorder, hold_worker, root, make_episode):
    recorder = make_recorder(async_queue_maxsize=1)
    release = hold_worker(recorder)
    ticks = []

    async def tick():
        while recorder.async_stats["backpressure_events"] == 0 or len(ticks) < 5:
            ticks.append(None)
            await asyncio.sleep(0.001)
        release()

    async def produce():
        for k in range(2, 5):
            if not recorder.try_commit(make_episode(k)):
                await asyncio.to_thread(recorder.commit, make_episode(k))

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(tick())

    asyncio.run(main())
    assert recorder.finalize() == root
    assert attempts(root) == [0, 1, 2, 3, 4]
    assert recorder.async_stats["backpressure_events"] >= 1


def test_the_rollout_buffer_may_be_overwritten_at_once(root, read_columns):
    env = RolloutEnv()
    features = {
        "observation.state": Feature("float32", (2,)),
        "observation.scene.lamp": Feature("float64", (1,)),
        "action": Feature("float32", (2,)),
    }
    recorder = AsyncLeRobotRecorder(root, "local/test", 20, features)
    expected = torch.cat([env.rollout_buffer["obs"]["state"][i, :n] for i, n in ((0, 5), (1, 4), (2, 3))]).clone()
    recorder(env)
    env.overwrite_buffers()
    env.metadata[0]["layout"].append("changed")
    live = torch.arange(3)  # a rollout that goes on, and is never committed
    recorder(env, live[:0])
    assert recorder.finalize() == root
    columns = read_columns(root)
    assert np.array_equal(columns["observation.state"].astype(np.float32), expected.numpy())
    rows = read_episode_metadata(root)
    assert [(row["attempt"], row["metadata"]) for row in rows] == [(10 + i, {"layout": [i]}) for i in range(3)]
    with pytest.raises(RuntimeError, match="already finalized"):
        recorder(env)


def test_a_bad_episode_is_refused_in_the_callers_thread(make_recorder, root, make_episode):
    recorder = make_recorder()
    bad = make_episode(0)
    bad.columns["observation.state"][0, 0] = float("inf")
    with pytest.raises(ValueError, match=r"'observation\.state'"):
        recorder.commit(bad)
    with pytest.raises(ValueError, match=r"'observation\.state'"):
        recorder.try_commit(bad)
    recorder.commit(make_episode(1))
    assert recorder.finalize() == root
    assert attempts(root) == [1]


def test_without_episodes_there_is_no_thread_and_no_dataset(make_recorder, root, make_episode):
    recorder = make_recorder()
    recorder.commit(make_episode(0, length=0))
    assert threading.active_count() == 1 or "mimicpipe-recorder" not in {t.name for t in threading.enumerate()}
    assert recorder.finalize() is None
    assert not root.exists()


def test_aborting_drops_what_is_queued_and_removes_everything(make_recorder, hold_worker, root, make_episode):
    recorder = make_recorder()
    release = hold_worker(recorder)
    recorder.commit(make_episode(2))
    aborting = threading.Thread(target=recorder.abort, daemon=True)
    aborting.start()
    release()
    aborting.join()
    assert list(root.parent.glob("*set*")) == []
    with pytest.raises(RuntimeError, match="aborted, nothing was published"):
        recorder.finalize()
