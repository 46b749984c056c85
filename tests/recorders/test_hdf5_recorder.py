"""`recorder=hdf5`: what stands in the file, that it survives a kill, and that it is source demos again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from full_disk import largest_file
from small_episodes import CAMERAS, FEATURES, episode_of

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.pools.hdf5_file import read_demos
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.hdf5 import Hdf5Recorder
from mimicpipe.recorders.hdf5_columns import path_of
from mimicpipe.recorders.joining import merge, recover
from mimicpipe.recorders.open_finished import open_finished
from mimicpipe.recorders.staging_area import staging_path

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]
DATAGEN = {
    "datagen_info.eef_pose.arm": (4, 4),
    "datagen_info.target_eef_pose.arm": (4, 4),
    "datagen_info.object_pose.red cube": (4, 4),
    "datagen_info.gripper_action.arm": (1,),
}
SIGNAL = "datagen_info.subtask_term_signals.grasp"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "runs" / "set"


def demo_of(attempt, length=6, task="pick", features=FEATURES, **metadata):
    """An episode with what a source demo needs."""
    episode = episode_of(attempt, length, task, features, **metadata)
    turns = torch.arange(length) * 0.1 + attempt
    for name, shape in DATAGEN.items():
        poses = torch.eye(4).repeat(length, 1, 1)
        poses[:, 0, 3] = turns
        episode.columns[name] = poses if shape == (4, 4) else turns[:, None].float()
    episode.columns[SIGNAL] = torch.arange(length) > length // 2
    return episode


def record(root, episodes, features=FEATURES, **arguments):
    recorder = Hdf5Recorder(root, "local/test", 20, features, **arguments)
    for episode in episodes:
        recorder.commit(episode)
    return recorder.finalize()


def read(root, **arguments):
    everything: dict[str, Any] = dict.fromkeys(("eef_names", "object_names", "signal_names", "gripper_from_actions"))
    return read_demos(root / "demos.hdf5", **everything, **arguments)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_file_holds_what_was_committed(root, workers):
    features = FEATURES | CAMERAS
    task = "put \"A\" on 'B'\nund größer — 漢字"
    episodes = [demo_of(k, k + 1, task, features, layout=[k, None, {"a": 0.5}]) for k in range(1, 4)]
    run_info = {"name": "stack", "seed": 3}
    assert record(root, episodes, features, workers=workers, robot_type="arm", run_info=run_info) == root
    assert os.listdir(root) == ["demos.hdf5"]
    assert os.listdir(root.parent) == ["set"]
    with h5py.File(root / "demos.hdf5") as file:
        data = file["data"]
        args = json.loads(data.attrs["env_args"])
        assert (args["env_name"], args["type"]) == ("mimicpipe-stack", 2)
        assert args["env_kwargs"] == {"fps": 20, "robot_type": "arm", "name": "stack", "seed": 3}
        assert data.attrs["total"] == 2 + 3 + 4
        assert list(data) == ["demo_0", "demo_1", "demo_2"]
        for group, episode in zip(data.values(), episodes, strict=True):
            outcome = episode.outcome
            assert group.attrs["num_samples"] == episode.length
            assert group.attrs["success"]
            assert (group.attrs["seed"], group.attrs["attempt"]) == (outcome.seed, outcome.attempt)
            assert group.attrs["task"].decode() == task
            assert json.loads(group.attrs["metadata"]) == episode.metadata
            assert json.loads(group.attrs["source_demos"]) == outcome.source_demos
            assert np.array_equal(group["initial_state/mimicpipe"], episode.initial_state)
            for name, column in episode.columns.items():
                stored = group[path_of(name)]
                assert stored.dtype == column.numpy().dtype, name
                assert np.array_equal(stored[()], column.numpy()), name
            frames = group["obs/front"]
            assert (frames.chunks, frames.compression, frames.dtype) == ((1, 32, 32, 3), "gzip", np.uint8)


def test_it_is_read_as_source_demos(root):
    episodes = [demo_of(k, features=FEATURES | CAMERAS) for k in range(2)]
    record(root, episodes, FEATURES | CAMERAS)
    demos = read(root, observations=True).demos
    assert [demo.name for demo in demos] == ["demo_0", "demo_1"]
    for demo, episode in zip(demos, episodes, strict=True):
        columns = episode.columns
        assert torch.equal(demo.actions, columns["action"])
        assert torch.equal(demo.info.eef_pose["arm"], columns["datagen_info.eef_pose.arm"])
        assert torch.equal(demo.info.target_eef_pose["arm"], columns["datagen_info.target_eef_pose.arm"])
        assert torch.equal(demo.info.object_poses["red cube"], columns["datagen_info.object_pose.red cube"])
        assert torch.equal(demo.info.gripper_action["arm"], columns["datagen_info.gripper_action.arm"])
        assert torch.equal(demo.info.subtask_term_signals["grasp"], columns[SIGNAL])
        assert demo.initial_state is not None
        assert torch.equal(demo.initial_state, episode.initial_state)
        assert torch.equal(demo.observations["front"], columns["observation.images.front"])
        assert torch.equal(demo.observations["state"], columns["observation.state"])


def test_the_same_episodes_are_the_same_bytes(root, tmp_path):
    for folder, workers in ((root, 0), (tmp_path / "again", 2)):
        record(folder, [demo_of(k) for k in range(5)], workers=workers)
    assert (root / "demos.hdf5").read_bytes() == (tmp_path / "again" / "demos.hdf5").read_bytes()
    assert digest(root) == digest(root / "demos.hdf5") == digest(tmp_path / "again")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["demo_0/actions"].write_direct(np.ones((6, 7), np.float32)),
        lambda data: data["demo_0"].attrs.__setitem__("task", "pick up"),
        lambda data: data.attrs.__setitem__("env_args", "{}"),
        lambda data: data.move("demo_0", "demo_9"),
        lambda data: data["demo_0"].move("obs/state", "obs/joints"),
        lambda data: data["demo_0"].create_dataset("rewards", data=np.zeros(6)),
    ],
)
def test_every_change_changes_the_digest(root, change):
    record(root, [demo_of(0), demo_of(1)])
    before = digest(root)
    with h5py.File(root / "demos.hdf5", "a") as file:
        change(file["data"])
    assert digest(root) != before


def test_an_episode_of_one_frame_long_notes_and_none(root):
    notes = "x" * 200_000
    record(root, [demo_of(0, 1, ""), demo_of(1, 2000, note=notes)])
    with h5py.File(root / "demos.hdf5") as file:
        assert json.loads(file["data/demo_1"].attrs["metadata"])["note"] == notes
        assert file["data/demo_0/actions"].shape == (1, 7)
        assert file["data/demo_0"].attrs["task"].decode() == ""
    assert record(root.with_name("none"), []) is None
    assert os.listdir(root.parent) == ["set"]


def test_failed_demos_are_told_from_others(root):
    episode = demo_of(0)
    episode.outcome.success, episode.outcome.reason = False, "timeout"
    record(root, [episode])
    with h5py.File(root / "demos.hdf5") as file:
        assert not file["data/demo_0"].attrs["success"]
        assert file["data/demo_0"].attrs["reason"] == b"timeout"
    assert not read(root, failed=True).demos[0].success


def test_overwriting_and_what_stays(root):
    record(root, [demo_of(0)])
    with pytest.raises(ConfigError, match=r"exists; .*dataset.overwrite=true"):
        Hdf5Recorder(root, "local/test", 20, FEATURES)
    record(root, [demo_of(0), demo_of(1)], overwrite=True)
    assert len(read(root).demos) == 2
    (root / "demos.hdf5").rename(root / "thesis.hdf5")
    with pytest.raises(ConfigError, match="nor one of recorder=hdf5, so it stays"):
        Hdf5Recorder(root, "local/test", 20, FEATURES, overwrite=True)


NUMBER = Feature("float32", (1,))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"observation.state": NUMBER}, "no 'action'"),
        ({"observation.a.b": NUMBER, "observation.a_b": NUMBER}, "give one of them"),
        ({"observation.front": NUMBER, "observation.images.front": Feature("video", (8, 8, 3))}, "stand at obs/front"),
        ({"annotation.a": NUMBER, "annotation": NUMBER}, "stand at annotation"),
        ({"observation.datagen_info": NUMBER}, "the layout's own key"),
        ({"initial_state.x": NUMBER}, "the layout's own key"),
        ({"obs.x": NUMBER}, "the layout's own key"),
        ({"../x": NUMBER}, "a name has letters"),
        ({"observation./x": NUMBER}, "a name has letters"),
        ({"observation.": NUMBER}, "a name has letters"),
        ({"observation.x": Feature("float32", (0,))}, "empty axis"),
        ({"observation.x": Feature("complex64", (1,))}, "recorder=hdf5 takes float32, float64"),
        ({"observation.images.x": Feature("video", (32, 32))}, r"\(H, W, channels\)"),
    ],
)
def test_features_that_the_layout_cannot_hold_are_refused(root, features, message):
    if "observation.state" not in features:
        features = {"action": Feature("float32", (7,))} | features
    with pytest.raises(ConfigError, match=message) as caught:
        Hdf5Recorder(root, "local/test", 20, features)
    assert "\n" not in str(caught.value)
    assert not root.parent.exists()


def test_any_shape_of_numbers_is_kept(root):
    features = {
        "action": Feature("float32", (7,)),
        "observation.scalar": Feature("float64", (1,)),
        "observation.matrix": Feature("int64", (3, 4)),
        "observation.cloud": Feature("float32", (2, 5, 3)),
        "observation.image_embedding": Feature("float32", (8,)),
    }
    episode = episode_of(0, 4, "pick", features)
    record(root, [episode], features)
    with h5py.File(root / "demos.hdf5") as file:
        for name, column in episode.columns.items():
            assert np.array_equal(file["data/demo_0"][path_of(name)][()], column.numpy()), name


def test_a_disk_too_full_for_the_file_leaves_what_is_durable(root, wait_until):
    recorder = Hdf5Recorder(root, "local/test", 20, FEATURES)
    for k in range(20):
        recorder.commit(demo_of(k, 50))
    wait_until(lambda: recorder._num_saved == 20)
    with largest_file(60_000), pytest.raises(RecorderError, match=r"File too large: .*demos\.hdf5") as caught:
        recorder.finalize()
    assert f"python -m mimicpipe.tools.recover {root}" in str(caught.value)
    assert not root.exists()
    found = recover(root)
    assert found is not None
    assert found.attempts == list(range(20))
    record(root.with_name("whole"), [demo_of(k, 50) for k in range(20)])
    assert digest(root) == digest(root.with_name("whole"))


KILLED = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_hdf5_recorder import FEATURES, Hdf5Recorder, demo_of
from mimicpipe.recorders import hdf5_assembly
root = Path({root!r})
recorder = Hdf5Recorder(root, "local/test", 20, FEATURES, resume={resume!r})
recorder.on_durable = lambda episode, index: print(index, flush=True)
write = hdf5_assembly._write_demo
def telling(group, episode, columns):
    write(group, episode, columns)
    moment = "assembled " + group.name
    print(moment, flush=True)
    if moment == {wait_at!r}:
        sys.stdin.read()
hdf5_assembly._write_demo = telling
for k in range({first!r}, 30):
    recorder.commit(demo_of(k))
if {wait_at!r} == "finalize":
    sys.stdin.read()
recorder.finalize()
"""


@pytest.mark.parametrize(
    "moment", ["7", *(pytest.param(m, marks=pytest.mark.slow) for m in ("0", "assembled /data/demo_11"))]
)
def test_a_kill_loses_nothing_that_was_durable(root, moment):
    root.parent.mkdir()
    paths = [str(Path(__file__).parent), str(ROOT)]

    def start(**values):
        code = KILLED.format(paths=paths, root=str(root), **values)
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)

    # It may still write when the kill comes, but it cannot finish: it waits for its standard input.
    with start(resume=None, first=0, wait_at="finalize" if moment.isdigit() else moment) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line.strip())
            if told[-1] == moment:
                break
        time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    durable = [int(line) for line in told if line.isdigit()]
    assert durable == list(range(len(durable)))
    assert not root.exists()
    whole = root.with_name("whole")
    if moment == "7":  # go on with it, as `resume` does
        with start(resume=len(durable), first=len(durable), wait_at=None) as process:
            process.communicate()
        assert process.returncode == 0
        record(whole, [demo_of(k) for k in range(30)])
    else:
        found = recover(root)
        assert found is not None
        assert found.attempts == list(range(len(found.attempts)))
        assert len(found.attempts) >= len(durable)
        record(whole, [demo_of(k) for k in found.attempts])
    assert digest(root) == digest(whole)
    assert not staging_path(root).exists()


def test_files_are_joined(root, tmp_path):
    features = FEATURES | CAMERAS
    record(root, [demo_of(k, features=features) for k in range(2)], features)
    record(tmp_path / "b", [demo_of(k, features=features) for k in range(2, 5)], features)
    record(tmp_path / "whole", [demo_of(k, features=features) for k in range(5)], features)
    assert merge(tmp_path / "both", [root, tmp_path / "b"]) == 5
    with (
        h5py.File(tmp_path / "both" / "demos.hdf5", "a") as file,
        h5py.File(tmp_path / "whole" / "demos.hdf5") as whole,
    ):
        for name in ("env_args", "mimicpipe"):  # what the files were joined from
            assert json.loads(file["data"].attrs[name]) != json.loads(whole["data"].attrs[name])
            file["data"].attrs[name] = whole["data"].attrs[name]
    assert digest(tmp_path / "both") == digest(tmp_path / "whole")
    record(tmp_path / "other", [demo_of(0)])
    with pytest.raises(ConfigError, match="features is not that of"):
        merge(tmp_path / "all", [root, tmp_path / "other"])


def test_depth_is_kept_in_16_bits(root):
    features = FEATURES | {"observation.images.depth": Feature("depth", (9, 7, 1))}
    frames = np.random.default_rng(0).integers(0, 65536, (6, 9, 7, 1), dtype=np.uint16)
    demo = demo_of(0)
    demo.columns["observation.images.depth"] = torch.from_numpy(frames)
    record(root, [demo], features)
    with h5py.File(root / "demos.hdf5") as file:
        stored = file["data/demo_0/obs/depth"]
        assert (stored.dtype, stored.chunks) == (np.uint16, (1, 9, 7, 1))
        assert np.array_equal(stored[()], frames)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_episodes(root):
    """The file's assembly holds one episode at a time, and HDF5's caches are bounded."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_hdf5_recorder import Hdf5Recorder, episode_of, Feature, Path
features = {{"action": Feature("float32", (7,)), "observation.images.front": Feature("image", (64, 64, 3))}}
recorder = Hdf5Recorder(Path(sys.argv[1]), "local/test", 20, features, max_queue_bytes=1 << 22)
for k in range(3):
    recorder.commit(episode_of(k, 100, "pick", features))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for k in range(3, 80):
    recorder.commit(episode_of(k, 100, "pick", features))
recorder.finalize()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (root / "demos.hdf5").stat().st_size > 90e6
    assert int(done.stdout) < 40_000  # kB


def test_a_file_tells_its_episodes_again(root):
    episodes = [demo_of(k, k + 2, note="ü") for k in (3, 5)]
    record(root, episodes)
    finished = open_finished(root)
    assert len(finished) == 2
    for index, (meta, episode) in enumerate(zip(finished.metas, episodes, strict=True)):
        outcome = episode.outcome
        assert (meta["index"], meta["length"], meta["attempt"]) == (index, episode.length, outcome.attempt)
        assert (meta["seed"], meta["success"], meta["reason"]) == (outcome.seed, True, "success")
        assert json.loads(meta["source_demos"]) == outcome.source_demos
    with h5py.File(root / "demos.hdf5", "a") as file:
        del file["data"].attrs["mimicpipe"]
    with pytest.raises(ConfigError, match="not written by recorder=hdf5"):
        open_finished(root)


def test_a_file_that_was_published_is_gone_on_with(root):
    features = FEATURES | CAMERAS
    episodes = [demo_of(k, features=features) for k in range(5)]
    record(root, episodes[:3], features)
    record(root, episodes[3:], features, resume=3)
    record(root.with_name("whole"), episodes, features)
    assert (root / "demos.hdf5").read_bytes() == (root.with_name("whole") / "demos.hdf5").read_bytes()
