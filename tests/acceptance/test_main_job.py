"""The main job on env=mujoco, as its users rely on it: the same bits at every num_envs and with every recorder, and a
dataset whose episodes replay to the bit."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.recorders.episode_rows import read_episode_metadata

ROOT = Path(__file__).parents[2]
# Six jobs, and a cold import of lerobot among them.
pytestmark = pytest.mark.timeout(240)
NUM_DEMOS = 3


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Output folders of one sweep over num_envs and recorder, on the stack task."""
    folder = tmp_path_factory.mktemp("sweep")
    command = [
        sys.executable, str(ROOT / "run.py"), "-m", "task=stack", "env.num_envs=1,4,16", "recorder=sync,async",
        f"num_demos={NUM_DEMOS}", "tracker=none", f"hydra.sweep.dir={folder}",
    ]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = sorted(path.parent for path in folder.glob("*/run.json"))
    assert len(found) == 6
    return found


def _digest(dataset: Path) -> dict[str, str]:
    return {
        str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(dataset.rglob("*"))
        if path.is_file()
    }


def test_the_same_dataset_at_every_num_envs_with_both_recorders(jobs):
    first = _digest(jobs[0] / "dataset")
    assert any(name.startswith("data/") for name in first)
    for job in jobs[1:]:
        assert _digest(job / "dataset") == first, job


def test_the_same_attempts_apart_from_the_slot(jobs):
    def rows(job):
        lines = (job / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
        return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]

    first = rows(jobs[0])
    assert [row["episode_index"] for row in first if row["success"]] == list(range(NUM_DEMOS))
    assert [row["attempt"] for row in first] == list(range(len(first)))
    assert all(rows(job) == first for job in jobs[1:])


def test_an_episode_replayed_from_its_initial_state_is_the_same_to_the_bit(jobs):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = jobs[-1] / "dataset"
    dataset = LeRobotDataset("local/stack", root=root)
    assert dataset.num_episodes == NUM_DEMOS
    frames = dataset.hf_dataset.with_format("torch")
    env, start = MujocoEnv(StackTask("D0"), 2), 0
    try:
        for episode in read_episode_metadata(root):
            rows = frames[start : start + episode["length"]]
            start += episode["length"]
            held = 0
            env.set_state(torch.stack([episode["initial_state"]] * 2))
            for step in range(episode["length"]):
                for name, values in env.observe().items():
                    assert torch.equal(values[1], rows[name][step]), (name, step)
                env.step(torch.stack([rows["action"][step]] * 2))
                held = held + 1 if bool(env.success()[1]) else 0
            assert held >= 10
    finally:
        env.close()
