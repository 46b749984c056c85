"""Whole runs: Isaac Lab Mimic's own loop makes source demos, and run.py makes LeRobot datasets from them."""

import json
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from in_process import run_main
from isaaclab_marks import MARKS, PICK, require
from isaaclab_stack_demos import write_stack_demos

from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.episode_rows import read_episode_metadata

require()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Isaac Lab's own
    from experiments.isaaclab.peer import run_peer

pytestmark = list(MARKS)

RUN = ("env=isaaclab", "num_demos=3", "recorder=async", "tracker=none", "preview=false", "hydra.run.dir=run")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Demos that Isaac Lab Mimic generates from the bundled ones, recorded by Isaac Lab."""
    file = tmp_path_factory.mktemp("peer") / "generated.hdf5"
    run = run_peer(PICK, BUNDLED_DEMOS / "pick.hdf5", file, num_envs=3, attempts=3)
    assert run.attempts >= 3
    assert run.successes >= 2
    assert 0 < run.step_s < run.wall_s
    return file


def generate(folder: Path, *more: str) -> tuple[Path, dict]:
    assert run_main((*RUN, *more), folder) == 0
    return folder / "run" / "dataset", json.loads((folder / "run" / "run.json").read_text())


def test_demos_of_isaac_labs_loop_become_a_lerobot_dataset_of_ours(recorded, tmp_path):
    with h5py.File(recorded) as file:
        assert "datagen_info" in file["data/demo_0/obs"]
    root, record = generate(tmp_path, "env.num_envs=2", f"pool.path={recorded}")
    assert record["counts"]["successes"] == 3
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset(f"local/{PICK}", root=root)
    assert (dataset.num_episodes, dataset.fps) == (3, 20)
    assert dataset.meta.features["observation.state"]["shape"] == (23,)
    assert dataset.meta.features["action"]["names"][-1] == "gripper_action"
    frame: Any = dataset[len(dataset) - 1]
    assert frame["task"] == "Pick up the red cube and hold it above the table."
    height = dataset.meta.features["observation.state"]["names"].index("cube_pos_2")
    assert frame["observation.state"][height] > 0.11
    assert frame["action"][6] < 0  # closed


@pytest.mark.slow
def test_the_dataset_is_the_same_at_every_num_envs(tmp_path):
    found = []
    for number, count in enumerate((1, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        root, record = generate(folder, f"env.num_envs={count}", "num_demos=2")
        assert record["counts"]["successes"] == 2
        found.append(digest(root))
    assert found[0] == found[1]


@pytest.mark.slow
def test_isaac_labs_pool_reads_what_we_record(tmp_path):
    """recorder=hdf5 of the same env is a source file for Isaac Lab Mimic's loop."""
    root, _ = generate(tmp_path, "env.num_envs=2", "num_demos=2", "recorder=hdf5")
    (file,) = root.glob("*.hdf5")
    run = run_peer(PICK, file, tmp_path / "again.hdf5", num_envs=2, attempts=2)
    assert run.attempts >= 2
    with h5py.File(tmp_path / "again.hdf5") as again:
        lengths = [int(demo.attrs["num_samples"]) for demo in again["data"].values()]
    assert len(lengths) == run.successes
    assert np.min(lengths) > 30


@pytest.mark.slow
def test_our_recorder_serves_isaac_labs_loop(tmp_path):
    """Its loop takes the termination terms away, and tells the recorder manager alone what has succeeded."""
    from mimicpipe.recorders.isaaclab_term import LeRobotRecorderManagerCfg

    cfg = LeRobotRecorderManagerCfg()
    cfg.lerobot.root, cfg.lerobot.task = str(tmp_path / "dataset"), "Pick up the cube."
    run = run_peer(PICK, BUNDLED_DEMOS / "pick.hdf5", tmp_path / "x.hdf5", num_envs=3, attempts=4, recorders=cfg)
    rows = read_episode_metadata(tmp_path / "dataset")
    assert len(rows) == run.successes >= 3
    assert all(row["success"] and row["length"] > 30 for row in rows)


@pytest.mark.slow
def test_skills_are_planned_to_on_isaac_lab(tmp_path):
    root, record = generate(tmp_path, "env.num_envs=2", "num_demos=2", "generator=skillgen", "planner=linear")
    assert record["counts"]["successes"] == 2
    assert len(list(root.glob("data/**/*.parquet"))) == 1


@pytest.mark.slow
def test_isaac_labs_own_stack_task_becomes_a_dataset(tmp_path):
    demos = write_stack_demos(tmp_path / "stack.hdf5")
    more = (f"pool.path={demos}", "env.num_envs=2", "num_demos=1", "max_attempts=4", "task.datagen.settle_steps=15")
    assert run_main((RUN[0] + "_stack", *RUN[2:], *more), tmp_path) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["counts"]["successes"] == 1
    features = json.loads((tmp_path / "run" / "dataset" / "meta" / "info.json").read_text())["features"]
    assert features["action"]["shape"] == [7]
