"""`python run.py ...` as a person or a script sees it."""

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN = ROOT / "tests" / "cli"
RUN = [sys.executable, str(ROOT / "run.py")]
QUICK = ["env=kinematic", "recorder=none", "tracker=none", "allowed_targets=[own_pool]", "pool=straight"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(OWN))
    monkeypatch.syspath_prepend(OWN)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # run.py sets it; this takes it back


@pytest.fixture
def main(monkeypatch, capfd):
    """run.py's main in this process: (arguments) -> (exit code, stdout, stderr)."""
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root, before = logging.getLogger(), list(logging.getLogger().handlers)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        try:
            code = module.main()
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        finally:
            for handler in [h for h in root.handlers if h not in before]:
                root.removeHandler(handler)
                handler.close()
        out, err = capfd.readouterr()
        return code, out, err

    return call


def own(*arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [*flags, "--config-dir", str(OWN / "own_conf"), *QUICK, *arguments]


def outputs() -> list[Path]:
    return sorted(path.parent for path in Path.cwd().glob("*/*/**/run.json"))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("flags", [[], ["-m"]])
def test_a_bad_config_is_one_line_and_nothing_is_made(flags):
    done = subprocess.run([*RUN, *flags, "task=pikc"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    tasks = ", ".join(sorted(path.stem for path in (ROOT / "conf" / "task").glob("*.yaml")))
    assert done.stderr == f"error: task=pikc: no such option; did you mean pick? valid: {tasks}\n"
    assert list(Path.cwd().iterdir()) == []


def test_help_config_and_completion_still_work(main):
    code, out, _ = main("--help")
    assert code == 0
    assert out.startswith("Generate a dataset of demonstrations")
    assert "\n  python run.py -m " in out
    assert "\nExit code: 0 done, " in out
    assert 'eval "$(python run.py -sc install=bash)"' in out
    assert "tracker: none, tensorboard, wandb" in out
    code, out, _ = main("--cfg", "job", "--package", "env", "env=kinematic")
    assert code == 0
    assert "mimicpipe.envs.kinematic.KinematicEnv" in out
    line = "run.py tracker=t"
    environment = {**os.environ, "COMP_LINE": line, "COMP_POINT": str(len(line))}
    done = subprocess.run([*RUN, "-sc", "query=bash"], capture_output=True, text=True, check=True, env=environment)
    assert "tracker=tensorboard" in done.stdout
    assert list(Path.cwd().iterdir()) == []


def test_a_run_with_a_pool_of_ones_own(main):
    code, out, err = main(*own("num_demos=5", "env.num_envs=4", "seed=3"))
    assert code == 0, err
    assert "5 of 5 demos" in out
    (folder,) = outputs()
    run = json.loads((folder / "run.json").read_text())
    assert (run["exit_reason"], run["exit_code"], run["seed"]) == ("num_demos", 0, 3)
    assert run["counts"]["successes"] == 5
    assert run["config"]["pool"]["_target_"] == "own_pool.StraightPickPool"
    assert len(run["config_hash"]) == 64
    assert run["versions"]["torch"]
    assert sum(run["stage_s"].values()) == pytest.approx(run["wall_s"], rel=0.02)
    assert run["bottleneck"] in run["stage_s"]
    attempts = rows(folder / "attempts.jsonl")
    assert [row["attempt"] for row in attempts] == list(range(run["counts"]["attempts"]))
    assert {row["source_demos"][0]["demo"] for row in attempts} <= {"straight_0", "straight_1", "straight_2"}
    last = rows(folder / "metrics.jsonl")[-1]
    assert last["generation/successes"] == 5.0
    assert last["env_steps"] == run["counts"]["env_steps"]
    assert {p.name for p in folder.iterdir()} == {
        ".hydra", "run.json", "metrics.jsonl", "attempts.jsonl", "mimicpipe.log", "report.html", "report.json",
    }  # fmt: skip


def test_one_bad_job_of_a_sweep_does_not_stop_the_others(main):
    code, out, err = main(*own("num_demos=2", "env.num_envs=2", "pool.height=0.0,0.12", flags=("-m",)))
    assert code == 1
    assert "grasp" in next(line for line in err.splitlines() if line.startswith("error: "))
    assert "Traceback" not in err
    assert "2 of 2 demos" in out
    bad, good = (json.loads((folder / "run.json").read_text()) for folder in outputs())
    assert bad["exit_reason"].startswith("SourceDemoError: ")
    assert bad["exit_code"] == 1
    assert (good["exit_reason"], good["exit_code"]) == ("num_demos", 0)
    assert err.splitlines()[-1] == "sweep: 1 of 2 jobs failed: 0 (pool.height=0.0)"
    (page,) = Path.cwd().glob("multirun/*/*/report.html")
    assert "<b>2 jobs</b>" in page.read_text()
    assert "; failed: 0." in page.read_text()


def test_arguments_that_a_class_does_not_take_are_one_line(main):
    code, _, err = main(*own("+pool.colour=red"))
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "pool.colour: own_pool.StraightPickPool takes no such argument" in line
    assert "demos, height" in line


def test_a_class_that_is_not_there_is_one_line(main):
    code, _, err = main(*own("pool._target_=own_pool.Missing"))
    assert code == 2
    assert "error: pool._target_=own_pool.Missing: no such class" in err


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("own_pool.torch.load", "no such class"),
        ("own_pool.np", "own_pool.np"),
        ("mimicpipe.runner.ExitStack", "is from contextlib, which is not in allowed_targets"),
    ],
)
def test_a_target_may_not_reach_through_an_allowed_module(main, target, reason):
    code, _, err = main(*own(f"pool._target_={target}"))
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert f"pool._target_={target}" in line
    assert reason in line


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_a_sweep_with_its_run_finished_well(number, code):
    arguments = own("num_demos=1000000", "seed=1,2", flags=("-m",))
    with subprocess.Popen([*RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not any(p.stat().st_size for p in Path.cwd().glob("multirun/*/*/0/attempts.jsonl")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert f"ended by {number.name}" in out
    assert err.splitlines()[-1] == "sweep: 1 of 2 jobs failed: 0; 1 of 2 jobs did not begin"
    (folder,) = outputs()
    assert folder.name == "0"
    run = json.loads((folder / "run.json").read_text())
    assert (run["exit_reason"], run["exit_code"]) == (number.name, code)
    assert len(rows(folder / "attempts.jsonl")) == run["counts"]["attempts"] > 0


def test_demos_of_another_control_mode_are_refused_with_a_way_out_that_works(main):
    arguments = ("env.control=ik_abs", "env.num_envs=2", "num_demos=2", "recorder=none", "tracker=none")
    code, _, err = main(*arguments)
    assert code == 1
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "7 columns, this env's actions have 8" in line
    assert "env.control" in line
    assert "pool=scripted" in line
    code, out, err = main(*arguments, "pool=scripted", "pool.num_demos=2")
    assert code == 0, err
    assert "2 of 2 demos" in out


def test_ctrl_c_before_the_job_is_quiet(main, monkeypatch, tmp_path):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mimicpipe.cli.check_paths", interrupted)
    assert main(*own()) == (130, "", "")
    (tmp_path / "hydra.py").write_text("raise KeyboardInterrupt")  # shadows Hydra: interrupted while it is imported
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(RUN, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_exit_in_a_generator_is_a_failure_and_no_signal(main):
    code, _, err = main(*own("generator._target_=own_pool.LeavingGenerator", "num_demos=1", "env.num_envs=1"))
    assert code == 1
    assert "SystemExit: 3" in err
    assert "SIGTERM" not in err
    (folder,) = outputs()
    run = json.loads((folder / "run.json").read_text())
    assert (run["exit_reason"], run["exit_code"]) == ("SystemExit: 3", 1)


def test_failed_attempts_may_have_a_dataset_of_their_own(main):
    code, out, err = main(
        *own("num_demos=2", "max_attempts=3", "env.num_envs=2", "recorder=sync", "recorder.save_failed=true"),
        "task.max_episode_steps=30",
    )
    assert code == 0, err
    assert "0 of 2 demos" in out
    assert "3 timeout" in out
    (folder,) = outputs()
    assert not (folder / "dataset").exists()
    info = json.loads((folder / "dataset_failed" / "meta" / "info.json").read_text())
    assert (info["total_episodes"], info["total_frames"]) == (3, 90)
    run = json.loads((folder / "run.json").read_text())
    assert (run["exit_reason"], run["reasons"]) == ("max_attempts", {"timeout": 3})
    assert run["dataset"] is None
    assert run["failed_dataset"] == {"root": str(folder / "dataset_failed"), "repo_id": "local/pick_failed"}
    assert "dataset_failed" in out


def test_the_datasets_of_an_earlier_run_are_not_reported(main, tmp_path):
    for name in ("old", "old_failed"):
        (tmp_path / name / "meta").mkdir(parents=True)
        (tmp_path / name / "meta" / "info.json").write_text("{}")
    arguments = own("num_demos=2", "max_attempts=2", "env.num_envs=2", "recorder=sync", "dataset.root=old")
    code, out, err = main(*arguments, "dataset.overwrite=true", "task.max_episode_steps=30")
    assert code == 0, err
    (folder,) = outputs()
    run = json.loads((folder / "run.json").read_text())
    assert (run["dataset"], run["failed_dataset"]) == (None, None)
    assert "Open it" not in out
    assert not [line for line in out.splitlines() if line.startswith(("dataset ", "failed ")) and "old" in line]
    assert (tmp_path / "old" / "meta" / "info.json").read_text() == "{}"
