"""A whole run of env=mujoco_warp on the CPU: pool, generation, recorder, replay; the same at every num_envs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import run_main

pytest.importorskip("mujoco_warp")

from lerobot.datasets.lerobot_dataset import LeRobotDataset

from mimicpipe.envs.mujoco_warp.env import MujocoWarpEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.episode_rows import read_episode_metadata

pytestmark = [pytest.mark.warp, pytest.mark.timeout(600)]


def run(folder: Path, num_envs: int, *overrides: str) -> Path:
    """Generate two demos of pick, unless told otherwise; the output folder."""
    folder.mkdir()
    arguments = [
        "env=mujoco_warp", "env.device=cpu", f"env.num_envs={num_envs}", "task=pick", "num_demos=2", "recorder=async",
        "tracker=none", "preview=false", f"hydra.run.dir={folder / 'out'}", *overrides,
    ]  # fmt: skip
    assert run_main(arguments, folder) == 0
    return folder / "out"


def test_two_demos_are_recorded_replay_to_success_and_do_not_depend_on_num_envs(tmp_path: Path) -> None:
    root = run(tmp_path / "four", 4) / "dataset"
    dataset = LeRobotDataset("local/pick", root=root)
    assert dataset.num_episodes == 2
    summary = json.loads((tmp_path / "four" / "out" / "run.json").read_text())
    assert summary["config"]["env"]["_target_"].endswith("MujocoWarpEnv")
    assert digest(root) == digest(run(tmp_path / "one", 1) / "dataset")

    actions = torch.as_tensor(np.stack(dataset.hf_dataset.with_format("numpy")["action"]))
    env = MujocoWarpEnv(PickTask(), 1, "cpu")
    begin = 0
    for episode in read_episode_metadata(root):
        env.set_state(torch.as_tensor(episode["initial_state"], dtype=torch.float64)[None])
        end = begin + episode["length"]
        for action in actions[begin:end]:
            env.step(action[None])
        assert env.success().all()
        begin = end
    assert begin == len(actions)


def test_cubes_stay_where_they_are_put(tmp_path: Path) -> None:
    """With boxes looked at as any convex bodies, two of these four stacks slipped; with MuJoCo, none does."""
    out = run(tmp_path / "stack", 4, "task=stack", "num_demos=4", "max_attempts=4", "recorder=none")
    rows = [json.loads(line) for line in (out / "attempts.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in rows] == ["success"] * 4
