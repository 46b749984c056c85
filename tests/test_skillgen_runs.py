"""`generator=skillgen` from the command line: success, the same bits, and no process left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from in_process import ROOT, run_main
from same_files import different_files

from mimicpipe.planners.workers import Workers

QUIET = ("generator=skillgen", "tracker=none", "preview=false", "planner.workers=1", "max_attempts=8", "num_demos=8")

pytestmark = pytest.mark.timeout(300)  # each planner process starts for seconds on a busy machine


def run(folder: Path, *overrides: str) -> list[dict[str, Any]]:
    code = run_main([*QUIET, *overrides, f"hydra.run.dir={folder}"], folder.parent)
    assert code == 0
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


def planner_processes(parent: int) -> list[int]:
    """Living children of a process that plan."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(stat[1]) == parent and stat[0] != "Z" and b"mimicpipe.planners.worker" in command:
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize(("task", "least"), [("pick", 8), pytest.param("stack", 7, marks=pytest.mark.slow)])
def test_attempts_succeed_and_are_the_same_at_every_num_envs(task, least, tmp_path):
    rows = {}
    for number in (1, 4):
        folder = tmp_path / str(number)
        rows[number] = run(folder, f"task={task}", "task.variant=D1", "recorder=hdf5", f"env.num_envs={number}")
        assert planner_processes(os.getpid()) == []
    assert sum(row["success"] for row in rows[1]) >= least
    for alone, together in zip(rows[1], rows[4], strict=True):
        assert {**alone, "slot": 0} == {**together, "slot": 0}
    assert different_files(tmp_path / "1" / "dataset", tmp_path / "4" / "dataset") == []
    assert all(len(row["source_demos"]) == 2 for row in rows[1] if row["success"])


def test_two_arms_play_skills_in_time_with_each_other(tmp_path):
    more = ("task=bimanual_threading", "task.variant=D1", "recorder=none", "env.num_envs=3", "max_attempts=3")
    rows = run(tmp_path / "run", *more)
    assert sum(row["success"] for row in rows) >= 2
    for row in rows:
        demos = {(part["eef"], part["subtask"]): part["demo"] for part in row["source_demos"]}
        assert len(demos) == 4
        assert demos["left", 1] == demos["right", 1]


def test_a_way_that_is_not_there_is_a_failed_plan_that_says_why(tmp_path):
    # In the second scene of this seed the peg stands beyond the arm's reach.
    rows = run(tmp_path / "run", "task=square", "task.variant=D2", "recorder=none", "env.num_envs=2", "max_attempts=2")
    assert rows[1]["reason"] == "plan_failed"
    assert rows[1]["detail"] == "the goal is out of reach"
    assert rows[0]["success"]


def test_a_planner_process_that_is_killed_is_named_and_the_run_goes_on(tmp_path, monkeypatch):
    killed: list[int] = []
    ask = Workers.ask

    async def ask_and_kill(self: Workers, request: Any) -> Any:
        answer = await ask(self, request)
        if not killed:
            killed.extend(planner_processes(os.getpid()))
            os.kill(killed[0], signal.SIGKILL)
        return answer

    monkeypatch.setattr(Workers, "ask", ask_and_kill)
    rows = run(tmp_path / "run", "recorder=none", "env.num_envs=4")
    assert len(killed) == 1
    assert sum(row["success"] for row in rows) >= 7
    assert not any(row["reason"].startswith("error") for row in rows)
    log = (tmp_path / "run" / "mimicpipe.log").read_text()
    assert f"planner process 0 (pid {killed[0]}) was killed by SIGKILL" in log


@pytest.mark.slow
def test_no_planner_process_is_left_after_a_signal(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, str(ROOT / "run.py"), *QUIET, "recorder=none", "num_demos=100000", "max_attempts=100000"]
    with subprocess.Popen([*command, f"hydra.run.dir={folder}"], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        attempts = folder / "attempts.jsonl"
        while not (attempts.exists() and attempts.stat().st_size):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = planner_processes(process.pid)
        assert len(workers) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert json.loads((folder / "run.json").read_text())["exit_reason"] == "SIGINT"


@pytest.mark.parametrize("planner", ["rrt", "linear"])
def test_the_kinematic_env_has_a_straight_planner_only(planner, tmp_path, capfd):
    arguments = ["env=kinematic", "pool=scripted", f"planner={planner}", "recorder=none", "tracker=none"]
    rest = ["generator=skillgen", "num_demos=5", "preview=false", f"hydra.run.dir={tmp_path / 'run'}"]
    code = run_main([*arguments, *rest], tmp_path)
    if planner == "linear":
        assert code == 0
        return
    assert code == 2
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert line.endswith("planner=rrt: needs the collision model of env=mujoco; use planner=linear with this env")


@pytest.mark.parametrize(("generator", "named"), [("mimicgen", None), ("skillgen", "linear")])
def test_run_json_names_a_planner_only_where_it_is_used(generator, named, tmp_path):
    arguments = ["env=kinematic", "pool=scripted", "planner=linear", "recorder=none", "tracker=none", "preview=false"]
    rest = [f"generator={generator}", "num_demos=2", f"hydra.run.dir={tmp_path / 'run'}"]
    assert run_main([*arguments, *rest], tmp_path) == 0
    choices = json.loads((tmp_path / "run" / "run.json").read_text())["choices"]
    assert choices["generator"] == generator
    assert choices.get("planner") == named
