"""`generator=replay`: the demos that come with a task, demos with their states, and demos of another simulator."""

import json
from pathlib import Path
from typing import Any

from in_process import run_main

from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.pools.hdf5_writer import write_demos
from mimicpipe.pools.scripted import load_scripted


def rows(tmp_path: Path, *overrides: str) -> list[dict[str, Any]]:
    folder = tmp_path / "run"
    code = run_main(
        ["generator=replay", "tracker=none", "recorder=none", *overrides, f"hydra.run.dir={folder}"], tmp_path
    )
    assert code == 0
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


def test_the_demos_of_pick_replay_to_the_last_one(tmp_path):
    found = rows(tmp_path, "task=pick", "num_demos=10", "max_attempts=10", "env.num_envs=4")
    assert [(row["reason"], row["detail"]) for row in found] == [("success", "")] * 10
    assert [row["source_demos"][0]["demo"] for row in found] == [f"demo_{i}" for i in range(10)]


def test_states_are_written_read_and_met_exactly(tmp_path):
    env = MujocoEnv(PickTask("D0"), 2)
    try:
        demos = load_scripted(env, 2, seed=4)
    finally:
        env.close()
    file = tmp_path / "states.hdf5"
    write_demos(file, demos, {"env_name": "mimicpipe", "type": 2, "env_kwargs": {}})
    exact = ("generator.state_tolerance=0", f"pool.path={file}", "num_demos=2", "max_attempts=2", "env.num_envs=2")
    found = rows(tmp_path, *exact)
    assert [row["reason"] for row in found] == ["success"] * 2


def test_another_simulator_is_told_from_the_one_that_recorded(tmp_path):
    found = rows(tmp_path, "env.control=ik_abs", "pool=scripted", "pool.num_demos=1", "num_demos=1", "max_attempts=1")
    assert [row["reason"] for row in found] == ["success"]
