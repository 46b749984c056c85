"""The bundled source demos: complete, successful, small, and what the command makes."""

import re
from pathlib import Path

import h5py
import pytest
import torch
import yaml

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.pools.hdf5 import read_demos
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.tools import make_source_demos

TASKS = task_classes()
CONF = Path(__file__).parents[2] / "conf" / "task"


def _signals(name: str) -> set[str]:
    """Those that the task's subtasks name."""
    config = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    return {s["subtask_term_signal"] for nodes in config["subtasks"].values() for s in nodes} - {None}


def _bundled(name: str) -> list[SourceDemo]:
    return _read(BUNDLED_DEMOS / f"{name}.hdf5")


def _read(path: Path) -> list[SourceDemo]:
    return read_demos(
        path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None, observations=True
    ).demos


def test_bundled_files_are_small() -> None:
    files = sorted(BUNDLED_DEMOS.glob("*.hdf5"))
    assert [file.stem for file in files] == sorted(TASKS)
    assert sum(file.stat().st_size for file in files) < 8e6


@pytest.mark.parametrize("name", TASKS)
def test_bundled_demos_have_what_the_task_needs(name: str) -> None:
    demos = _bundled(name)
    task = TASKS[name]("D0")
    assert len(demos) == 10
    for demo in demos:
        assert demo.success
        assert set(demo.info.object_poses) == set(task.body_names)
        assert set(demo.info.subtask_term_signals) == _signals(name)
        assert 50 < demo.info.length < 600
    with h5py.File(BUNDLED_DEMOS / f"{name}.hdf5") as file:
        assert len({group.attrs["seed"] for group in file["data"].values()}) == 10


@pytest.mark.parametrize("name", TASKS)
def test_bundled_demos_end_in_success_when_replayed(name: str) -> None:
    """All ten at once from their initial states, each with its own actions; the shorter ones then keep still."""
    demos = _bundled(name)
    env = MujocoEnv(TASKS[name]("D0"), len(demos))
    states = [demo.initial_state for demo in demos if demo.initial_state is not None]
    env.set_state(torch.stack(states))
    held = torch.zeros(len(demos), dtype=torch.int64)
    for step in range(max(demo.info.length for demo in demos)):
        live = torch.tensor([i for i, demo in enumerate(demos) if step < demo.info.length])
        actions = torch.zeros(len(demos), env.action_dim)
        actions[live] = torch.stack([demos[int(i)].actions[step] for i in live])
        env.step(actions, live)
        success = env.success()
        held[live] = torch.where(success[live], held[live] + 1, torch.zeros_like(held[live]))
    env.close()
    assert held.min().item() >= 10


@pytest.mark.parametrize("name", TASKS)
def test_the_command_makes_the_bundled_demos_again(name: str) -> None:
    """The first, in one slot. On another CPU the last bits of a sine may differ, hence the small tolerance."""
    again = make_source_demos.record(TASKS[name](make_source_demos.VARIANT), 1, make_source_demos.SEED, num_envs=1)
    for new, old in zip(again.demos, _bundled(name), strict=False):
        assert new.info.length == old.info.length
        torch.testing.assert_close(new.actions, old.actions, atol=1e-4, rtol=0)
        for eef, pose in old.info.eef_pose.items():
            torch.testing.assert_close(new.info.eef_pose[eef], pose, atol=1e-4, rtol=0)
        for box, pose in old.info.object_poses.items():
            torch.testing.assert_close(new.info.object_poses[box], pose, atol=1e-4, rtol=0)
        for signal, values in old.info.subtask_term_signals.items():
            assert torch.equal(new.info.subtask_term_signals[signal], values)


def test_command_writes_a_file_that_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("a", "b"):
        assert (
            make_source_demos.main(["pick", "--num-demos", "1", "--variant", "D1", "--out", str(tmp_path / folder)])
            == 0
        )
    assert "1 demos of" in capsys.readouterr().out
    demo = _read(tmp_path / "a" / "pick.hdf5")[0]
    assert demo.success
    assert "observation.state" in demo.observations
    assert (tmp_path / "a" / "pick.hdf5").read_bytes() == (tmp_path / "b" / "pick.hdf5").read_bytes()


def test_bad_arguments_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["juggle"], "choose from .*pick, .*stack"),
        (["--num-demos", "0"], "must be 1 or more"),
    ):
        with pytest.raises(SystemExit) as exit_info:
            make_source_demos.main(arguments)
        assert exit_info.value.code == 2
        assert re.search(message, capsys.readouterr().err)
    assert make_source_demos.main(["pick", "--variant", "D7", "--out", str(tmp_path)]) == 2
    assert "D0, D1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
