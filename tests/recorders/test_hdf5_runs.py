"""Whole runs with `recorder=hdf5`: the same file at every num_envs, resumed and recovered, and generated from again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from in_process import ROOT, run_main

from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.pools.hdf5_file import list_demos, read_demos
from mimicpipe.recorders.digest import digest
from mimicpipe.tools import digest as digest_tool
from mimicpipe.tools import recover

pytestmark = pytest.mark.timeout(240)
KINEMATIC = ["env=kinematic", "task=stack", "num_demos=8", "seed=3", "recorder.save_failed=true", "preview=false"]
SHORT = "task.max_episode_steps=140"
"""Some attempts are too long for it."""


@pytest.fixture
def run(tmp_path, capfd):
    """`run.py` in this process: (name, overrides) -> the output folder; fails unless the exit code is 0."""

    def call(name, *overrides):
        folder = tmp_path / name
        arguments = ["recorder=hdf5", *overrides, "tracker=none", f"hydra.run.dir={folder}"]
        assert run_main(arguments, tmp_path) == 0, capfd.readouterr().err
        return folder

    return call


def rows(folder):
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]


def test_one_file_whatever_num_envs_and_it_generates_again(run, capfd):
    folders = [
        run(f"n{n}", *KINEMATIC, SHORT, f"env.num_envs={n}", f"recorder.workers={w}") for n, w in ((1, 0), (5, 1))
    ]
    first, second = folders
    for name in ("dataset", "dataset_failed"):
        assert (first / name / "demos.hdf5").read_bytes() == (second / name / "demos.hdf5").read_bytes()
    assert digest_tool.main([str(first / "dataset"), str(first / "dataset_failed"), "--parts"]) == 0
    assert "obs/datagen_info/object_pose/cubeA" in capfd.readouterr().out
    attempts = rows(first)
    expected = [row["attempt"] for row in attempts if row["success"]]
    with h5py.File(first / "dataset" / "demos.hdf5") as file:
        assert [demo.attrs["attempt"] for demo in file["data"].values()] == expected
    with h5py.File(first / "dataset_failed" / "demos.hdf5") as file:
        failed = {demo.attrs["attempt"]: demo.attrs["success"] for demo in file["data"].values()}
    assert list(failed) == [row["attempt"] for row in attempts if not row["success"]]
    assert failed
    assert not any(failed.values())

    file = first / "dataset" / "demos.hdf5"
    for name, path in (("again", file), ("folder", first / "dataset")):
        again = run(name, "env=kinematic", "task=stack", "num_demos=3", f"pool.path={path}", "recorder.workers=0")
        row = next(row for row in rows(again) if row["success"])
        assert {source["demo"] for source in row["source_demos"]} <= {f"demo_{k}" for k in range(8)}
        with h5py.File(again / "dataset" / "demos.hdf5") as generated:
            assert len(generated["data"]) == 3


def test_a_mujoco_demo_replays_to_the_bit_and_is_a_source_demo(run):
    command = ["env=mujoco", "task=pick", "num_demos=2", "env.num_envs=2", "env.image_size=[32,32]"]
    first = run("first", *command, "env.cameras=[front]")
    path = first / "dataset" / "demos.hdf5"
    env = MujocoEnv(PickTask("D0"), 1)
    try:
        demo = read_demos(
            path,
            eef_names=env.eef_names,
            object_names=env.object_names,
            signal_names=None,
            gripper_from_actions=None,
            action_dim=env.action_dim,
            observations=True,
        ).demos[0]
        assert demo.initial_state is not None
        env.set_state(demo.initial_state[None])
        for step, action in enumerate(demo.actions):
            for eef in env.eef_names:
                assert np.array_equal(demo.info.eef_pose[eef][step], env.get_robot_eef_pose(eef)[0])
                asked = env.action_to_target_eef_pose(action[None])[eef][0]
                assert np.array_equal(demo.info.target_eef_pose[eef][step], asked)
                assert np.array_equal(
                    demo.info.gripper_action[eef][step], env.actions_to_gripper_actions(action[None])[eef][0]
                )
            for name, pose in env.get_object_poses().items():
                assert np.array_equal(demo.info.object_poses[name][step], pose[0])
            for name, value in env.get_subtask_term_signals().items():
                assert demo.info.subtask_term_signals[name][step] == value[0]
            for name, value in env.observe().items():
                assert np.array_equal(demo.observations[name.removeprefix("observation.")][step], value[0])
            env.step(action[None])
        assert bool(env.success()[0])
        assert demo.observations["front"].shape == (len(demo.actions), 32, 32, 3)
        assert demo.observations["front"].float().std() > 10
    finally:
        env.close()
    again = run("again", *command, f"pool.path={path}")
    assert len(list_demos(again / "dataset" / "demos.hdf5")) == 2


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_recovered(run, tmp_path):
    command = [*KINEMATIC, SHORT, "num_demos=80", "env.num_envs=4"]
    whole = run("whole", *command)
    killed = tmp_path / "killed"
    arguments = [*command, "recorder=hdf5", "tracker=none", f"hydra.run.dir={killed}"]
    ended = [sys.executable, str(ROOT / "tests" / "ended_run.py"), "SIGKILL", "6", *arguments]
    done = subprocess.run(ended, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert b'"success": true' in (killed / "attempts.jsonl").read_bytes()
    assert not (killed / "dataset").exists()
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", killed, copy], check=True)

    assert run_main([f"resume={killed}"], tmp_path) == 0
    assert rows(killed) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert (killed / name / "demos.hdf5").read_bytes() == (whole / name / "demos.hdf5").read_bytes()

    assert recover.main([str(copy)]) == 0
    with h5py.File(copy / "dataset" / "demos.hdf5") as file, h5py.File(whole / "dataset" / "demos.hdf5") as all_of_them:
        assert len(file["data"]) >= 1
        for name, demo in file["data"].items():
            assert np.array_equal(demo["actions"], all_of_them["data"][name]["actions"])
    assert digest(copy / "dataset") != digest(whole / "dataset")
    assert list(Path(copy).glob(".*.staging")) == []
