"""The recorder as a term of Isaac Lab's recorder manager, in a real environment on a CPU."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("isaaclab")
pytestmark = [pytest.mark.isaaclab, pytest.mark.timeout(1800)]
of_libraries = pytest.mark.filterwarnings("default")  # Isaac Lab, and LeRobot beside it, import what is deprecated

from isaaclab_recording import DONE_AT, LONGEST, TASK  # noqa: E402

from mimicpipe.recorders import joining  # noqa: E402
from mimicpipe.recorders.episode_rows import read_episode_metadata  # noqa: E402
from mimicpipe.recorders.hdf5_notes import array_from_json  # noqa: E402
from mimicpipe.tools.dataset_checks import open_dataset, run_checks  # noqa: E402

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("isaaclab_recording.py")
WHOLE = [(slot, start, DONE_AT) for start in (0, 5, 10) for slot in (0, 2)] + [(1, 0, LONGEST), (1, 8, LONGEST)]
"""(slot, step at which it begins, frames) of every episode that ends within 16 steps."""


def recording(root, case):
    command = [sys.executable, str(SCRIPT), str(root), case]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=root.parent)


def in_order(episodes):
    """As they end: by step, then by slot."""
    return sorted(episodes, key=lambda episode: (episode[1] + episode[2], episode[0]))


def frames(root):
    return pq.read_table(root / "data").to_pydict()


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """(dataset of all episodes, what the environment showed)."""
    root = tmp_path_factory.mktemp("all") / "dataset"
    done = recording(root, "all")
    assert done.returncode == 0, done.stderr
    return root, json.loads(done.stdout.splitlines()[-1])


def test_every_episode_is_what_the_environment_showed(everything):
    root, seen = everything
    assert seen["path"] == str(root)
    rows, data, at = read_episode_metadata(root), frames(root), 0
    expected = in_order(WHOLE)
    assert [(row["length"], row["success"]) for row in rows] == [(n, slot != 1) for slot, _, n in expected]
    names = json.loads((root / "meta" / "info.json").read_text())["features"]["observation.state"]["names"]
    cube = names.index("cube_pos_0")
    for slot, start, length in expected:
        state = np.array(data["observation.state"][at : at + length])
        steps = seen["shown"][start : start + length]
        assert np.array_equal(state[:, cube : cube + 3], np.array([step["cube"][slot] for step in steps], np.float32))
        action = np.array([step["action"][slot] for step in steps], np.float32)
        assert np.array_equal(np.array(data["action"][at : at + length], np.float32), action)
        at += length
    assert at == len(data["action"])
    assert {task for row in rows for task in row["tasks"]} == {TASK}
    assert all(good for _, good, _ in run_checks(open_dataset(root)))


def test_initial_states_go_with_the_episodes(everything):
    root, seen = everything
    slots = [slot for slot, _, _ in in_order(WHOLE)]
    starts = [start for _, start, _ in in_order(WHOLE)]
    for slot, start, row in zip(slots, starts, read_episode_metadata(root), strict=True):
        pose = array_from_json(row["metadata"]["hdf5"]["arrays"]["initial_state/rigid_object/cube/root_pose"])
        assert pose.shape == (1, 7)
        if start == 0:
            assert np.array_equal(pose[0], np.array(seen["first_states"][slot], np.float32))


@of_libraries
def test_lerobot_opens_it(everything):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/isaaclab", root=everything[0])
    assert (dataset.num_episodes, dataset.fps) == (8, 20)


@of_libraries
def test_it_becomes_a_file_that_isaac_lab_loads(everything, tmp_path):
    from isaaclab.utils.datasets import HDF5DatasetFileHandler

    from mimicpipe.tools import convert

    assert convert.main([str(everything[0]), str(tmp_path / "demos.hdf5")]) == 0
    handler = HDF5DatasetFileHandler()
    handler.open(str(tmp_path / "demos.hdf5"))
    try:
        assert not handler.is_legacy_quaternion_format()
        assert handler.get_num_episodes() == 8
        episode = handler.load_episode("demo_0", "cpu")
        assert episode.success
        assert episode.data["actions"].shape == (DONE_AT, 7)
        assert episode.get_initial_state()["rigid_object"]["cube"]["root_pose"].shape == (1, 7)
    finally:
        handler.close()


@pytest.mark.slow
def test_successes_only(tmp_path):
    root = tmp_path / "dataset"
    done = recording(root, "success_only")
    assert done.returncode == 0, done.stderr
    rows = read_episode_metadata(root)
    assert [(row["length"], row["success"]) for row in rows] == [(DONE_AT, True)] * 6
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.slow
def test_episodes_end_where_the_manager_exports_or_discards_them(tmp_path):
    root = tmp_path / "dataset"
    done = recording(root, "by_hand")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])["shown"]
    expected = [(0, 0, 3, True), (1, 0, 3, False), (1, 3, 4, True), (2, 2, 5, True), (0, 3, 4, True)]
    assert [(row["length"], row["success"]) for row in read_episode_metadata(root)] == [e[2:] for e in expected]
    actions = [step["action"][slot] for slot, start, length, _ in expected for step in seen[start : start + length]]
    assert np.array_equal(np.array(frames(root)["action"], np.float32), np.array(actions, np.float32))


@pytest.mark.slow
def test_a_killed_process_leaves_what_can_be_recovered(everything, tmp_path):
    root = tmp_path / "dataset"
    done = recording(root, "killed")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not root.exists()
    recovered = joining.recover(root)
    assert recovered is not None
    assert len(recovered.episodes) >= 5
    whole, found = frames(everything[0]), frames(root)
    count = len(found["action"])
    assert found["observation.state"] == whole["observation.state"][:count]
    assert found["action"] == whole["action"][:count]
