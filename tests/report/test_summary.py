import io
import json
import shlex
import subprocess
from typing import cast

import pytest
from rich.console import Console

from mimicpipe.report import summary
from mimicpipe.report.summary import git_commit, machine, open_commands, print_summary, versions, write_json


def run(root, **changes):
    return {
        "exit_reason": "num_demos",
        "exit_code": 0,
        "wall_s": 288.0,
        "counts": {"attempts": 103, "successes": 100, "failures": 3, "episodes": 100, "frames": 1500, "env_steps": 9},
        "reasons": {"success": 100, "timeout": 1, "not_successful": 2},
        "rates": {"demos_per_hour": 1250.0, "env_steps_per_s": 3412.0, "frames_per_s": 0.0},
        "stage_s": {"step": 200.0, "plan": 88.0, "render": 0.0},
        "bottleneck": "step",
        "recorder": {"queue_peak": 12, "queue_maxsize": 64, "backpressure_events": 2, "backpressure_s": 0.25},
        "skipped_source_demos": ["demo_3: NaN"],
        "peak_rss_mb": 812.3,
        "dataset": {"root": str(root), "repo_id": "local/pick"},
        "choices": {"recorder": "async"},
        "config": {"num_demos": 100},
        **changes,
    }


def printed(tmp_path, **changes) -> str:
    stream = io.StringIO()
    (tmp_path / "dataset" / "meta").mkdir(parents=True, exist_ok=True)
    (tmp_path / "dataset" / "meta" / "info.json").touch()
    (tmp_path / "metrics.jsonl").touch()
    print_summary(run(tmp_path / "dataset", **changes), tmp_path, Console(file=stream, width=80, highlight=False))
    return stream.getvalue()


def test_a_person_finds_everything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = printed(tmp_path)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    assert lines[0] == "100 of 100 demos in 4:48"
    assert "attempts    103, 97.1 % success" in lines
    assert "failed      2 not_successful, 1 timeout" in lines
    assert "rate        1,250 demos/h, 3,412 env-steps/s" in lines
    assert "time        step 69.4 %, plan 30.6 %" in lines
    assert "bottleneck  step" in lines
    assert "dataset     dataset" in lines
    assert "metrics     metrics.jsonl" in lines
    assert "skipped     source demos demo_3: NaN" in lines
    assert "queue peak 12 of 64, held the simulator up 2 times, 0.2 s" in text
    assert "tensorboard" not in text.lower()


def test_commands_stand_whole_on_their_lines(tmp_path):
    text = printed(tmp_path)
    commands = [line.strip() for line in text.splitlines() if "--repo-id" in line or " -c " in line]
    assert commands == open_commands("local/pick", tmp_path / "dataset")
    assert "pip install 'lerobot[viz]'" in text


def test_the_python_command_is_one(tmp_path):
    opener, viewer = open_commands("local/it's", tmp_path / "a folder")
    python, flag, code = shlex.split(opener)
    assert flag == "-c"
    compile(code, "opener", "exec")
    assert subprocess.run([python, "--version"], check=False, capture_output=True).returncode == 0
    assert shlex.split(viewer)[1:] == [
        "--repo-id", "local/it's", "--root", str(tmp_path / "a folder"), "--episode-index", "0",
    ]  # fmt: skip


def test_a_dataset_that_is_not_lerobots_is_not_offered_to_lerobot(tmp_path):
    (tmp_path / "own").mkdir()
    text = printed(tmp_path, dataset={"root": str(tmp_path / "own"), "repo_id": "local/pick"})
    assert "own" in text
    assert "LeRobotDataset" not in text


def test_failed_attempts_of_another_run_are_not_shown(tmp_path):
    failed = tmp_path / "dataset_failed"
    failed.mkdir()
    assert "dataset_failed" not in printed(tmp_path)
    assert "dataset_failed" in printed(tmp_path, failed_dataset={"root": str(failed), "repo_id": "local/pick_failed"})


def test_a_run_without_dataset_offers_nothing_to_open(tmp_path):
    text = printed(tmp_path, dataset=None, recorder={}, exit_reason="SIGINT", exit_code=130)
    assert "ended by SIGINT" in text
    assert "-c" not in text
    assert "queue peak" not in text


def test_a_run_that_made_nothing(tmp_path):
    counts = dict.fromkeys(("attempts", "successes", "failures", "episodes", "frames", "env_steps"), 0)
    text = printed(tmp_path, counts=counts, stage_s={}, rates={}, exit_reason="StallError: no step", exit_code=1)
    assert "0 of 100 demos" in text
    assert "ended by StallError: no step" in text


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, cast(dict[str, int], {("no", "key"): 1}))
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_versions_are_those_installed(monkeypatch):
    import torch

    assert versions()["torch"] == torch.__version__.partition("+")[0]
    monkeypatch.setattr(summary, "_PACKAGES", ("no-such-package",))
    assert set(versions()) == {"python"}


def test_machine():
    found = machine()
    assert found["cpus"] >= 1
    assert found["cpu"]


def test_git(tmp_path):
    assert git_commit(tmp_path) is None

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "a")
    clean = git_commit(tmp_path)
    assert clean is not None
    assert len(clean["commit"]) == 40
    assert not clean["dirty"]
    (tmp_path / "a").write_text("2")
    assert git_commit(tmp_path) == {"commit": clean["commit"], "dirty": True}


def test_demos_that_could_not_be_written_are_none(tmp_path):
    counts = {**run(tmp_path)["counts"], "episodes": 1}
    assert printed(tmp_path, counts=counts, exit_code=1).lstrip().startswith("1 of 100 demos")
    counts["episodes"] = 0
    assert printed(tmp_path, counts=counts, choices={"recorder": "none"}).lstrip().startswith("100 of 100 demos")
