"""Whole runs with something wrong in them: each ends in time, with run.json and the right exit code."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
from in_process import run_main

from mimicpipe.recorders.digest import digest
from mimicpipe.recorders.episode_rows import read_episode_metadata

ROOT = Path(__file__).parents[1]
OWN = ROOT / "tests" / "cli"
COMMAND = [sys.executable, str(ROOT / "run.py")]
QUICK = [
    "--config-dir", str(OWN / "own_conf"), "env=kinematic", "recorder=none", "tracker=none", "pool=straight",
    "allowed_targets=[own_pool,own_faults]", "env.num_envs=2",
]  # fmt: skip
RECORDER = ["recorder._target_=own_faults.FaultyRecorder"]
LIMIT_S = 120
"""A run that has not come so far by now, seconds, hangs."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(OWN), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@contextmanager
def running(*arguments: str, sweep: bool = False):
    """`run.py` as a process: (process)."""
    command = [*COMMAND, *(["-m"] if sweep else []), *QUICK, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen, there: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def in_process(monkeypatch, capfd):
    """Run in this process: (arguments) -> (exit code, stdout, stderr)."""
    monkeypatch.syspath_prepend(OWN)

    def call(*arguments: str, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
        try:
            code = run_main([*flags, *QUICK, *arguments], Path.cwd())
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return code, *capfd.readouterr()

    return call


def records() -> list[dict]:
    """run.json of each job that there was."""
    return [json.loads(path.read_text()) for path in sorted(Path.cwd().glob("*/*/**/run.json"))]


def jobs() -> list[str]:
    """Output folders of a sweep's jobs."""
    return sorted(path.name for path in Path.cwd().glob("multirun/*/*/*") if path.is_dir())


def settled() -> bool:
    return any(path.stat().st_size for path in Path.cwd().glob("*/*/**/attempts.jsonl"))


@pytest.mark.parametrize(
    ("number", "code", "when"),
    [
        pytest.param(signal.SIGINT, 130, "at the start", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, "at the start", marks=pytest.mark.slow),
        (signal.SIGINT, 130, "while it finalizes"),
    ],
)
def test_a_signal_ends_a_sweep_whenever_it_comes(number, code, when):
    if when == "at the start":
        arguments, there = ["pool._target_=own_faults.SlowPool"], Path("loading").exists
    else:
        # However busy the machine, the signal has come before the last work ends.
        arguments = [*RECORDER, "+recorder.waits=true", "+recorder.finalize_s=0.5", "num_demos=2"]
        there = Path("finalizing").exists
    with running(*arguments, "seed=1,2", sweep=True) as process:
        wait_for(process, there)
        process.send_signal(number)
        Path("go_on").touch()
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert jobs() == ["0"], "the next job must not start"
    (record,) = records()
    assert (record["exit_reason"], record["exit_code"]) == (number.name, code)
    assert record["counts"]["successes"] == (0 if when == "at the start" else 2)


def test_a_second_signal_ends_the_process_at_once():
    with running(*RECORDER, "+recorder.hangs=finalize", "num_demos=1000000", "seed=1,2", sweep=True) as process:
        wait_for(process, settled)
        process.send_signal(signal.SIGINT)
        wait_for(process, Path("finalizing").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGINT
    assert jobs() == ["0"]
    assert settled()


@pytest.mark.slow
def test_a_signal_need_not_wait_for_a_generator_that_hangs_in_a_thread():
    arguments = ["+generator.swallows=nothing", "generator._target_=own_faults.StubbornGenerator"]
    with running(*arguments, "task.max_episode_steps=20", "num_demos=1000000") as process:
        wait_for(process, Path("hanging").exists)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    (record,) = records()
    assert (record["exit_reason"], record["reasons"]) == ("SIGTERM", {"timeout": 2})
    assert "threads that do not answer: mimicpipe-worker" in err


@pytest.mark.slow
def test_a_recorder_that_hangs_fails_the_job_and_the_sweep_goes_on():
    arguments = [*RECORDER, "+recorder.hangs=commit,null", "num_demos=3", "stall_timeout_s=1"]
    with running(*arguments, sweep=True) as process:
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, err
    bad, good = records()
    assert bad["exit_reason"].startswith("StallError: ")
    assert (bad["exit_code"], good["exit_code"], good["exit_reason"]) == (1, 0, "num_demos")
    assert "has not taken the episode of attempt 1" in bad["exit_reason"]
    assert "threads that do not answer: mimicpipe-worker" in err


def test_a_slow_recorder_is_no_stall_and_no_row_is_missing(in_process):
    arguments = [*RECORDER, "+recorder.commit_s=0.4", "+recorder.finalize_s=0.5", "num_demos=8", "stall_timeout_s=1.2"]
    code, _, err = in_process(*arguments, "env.num_envs=8")
    assert code == 0, err
    (record,) = records()
    assert (record["exit_reason"], record["counts"]["episodes"]) == ("num_demos", 8)
    assert record["wall_s"] > 8 * 0.4
    rows = [json.loads(line) for line in next(Path.cwd().glob("*/*/**/attempts.jsonl")).read_text().splitlines()]
    assert [row["episode_index"] for row in rows if row["success"]] == list(range(8))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generator._target_=own_faults.BlockingGenerator"], "the event loop is blocked: task generator[0] runs "),
        pytest.param(
            ["generator._target_=own_faults.StubbornGenerator", "+generator.swallows=everything", "max_attempts=1"],
            "cannot be ended, it swallows everything",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_generator_that_nothing_can_end_ends_the_process_with_run_json(arguments, said):
    with running(*arguments, "stall_timeout_s=1", "num_demos=1") as process:
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    (record,) = records()
    assert said in err
    assert (record["exit_code"], record["exit_reason"].partition(":")[0]) == (1, "StallError")
    assert said in record["exit_reason"]


def rows_of_run() -> list[dict]:
    """attempts.jsonl of the only run."""
    (path,) = Path.cwd().glob("**/attempts.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_episode_that_cannot_be_written_leaves_the_numbers_of_the_dataset(in_process):
    code, _, err = in_process("recorder._target_=own_faults.LossyRecorder", "num_demos=1000000", "env.num_envs=4")
    assert code == 1
    assert "the encoder has failed" in err
    (record,) = records()
    dataset = [(row["attempt"], row["episode_index"]) for row in read_episode_metadata(Path(record["dataset"]["root"]))]
    rows = [(row["attempt"], row["episode_index"]) for row in rows_of_run() if row["success"]]
    assert rows == dataset
    assert len(rows) == record["counts"]["episodes"] > 3  # some of them behind the one that is missing
    missing = next(k for k in range(len(rows)) if k not in dict(rows))
    assert missing >= 3
    assert rows[-1][0] > missing


def test_jumps_of_the_clock_change_nothing(in_process, monkeypatch):
    """A clock that is set back and forth, by an hour at a time, whenever somebody looks at it."""
    plain = ["recorder=async", "num_demos=12"]
    assert in_process(*plain, "hydra.run.dir=plain")[0] == 0
    jumps = itertools.cycle([0.0, 3600.0, -3600.0, 7200.0, -86400.0])
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + next(jumps))
    assert in_process(*plain, "hydra.run.dir=jumping", "stall_timeout_s=20")[0] == 0
    assert digest(Path("jumping/dataset")) == digest(Path("plain/dataset"))
    assert Path("jumping/attempts.jsonl").read_text() == Path("plain/attempts.jsonl").read_text()


def test_two_runs_cannot_write_one_dataset():
    root = Path("shared").absolute()
    with running("recorder=async", "num_demos=1000000", f"dataset.root={root}") as first:
        wait_for(first, settled)
        with running("recorder=async", "num_demos=1", f"dataset.root={root}") as second:
            _, err = second.communicate(timeout=LIMIT_S)
        assert second.returncode == 2
        assert err == f"error: dataset.root={root}: process {first.pid} is writing this dataset; choose another\n"
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=LIMIT_S)
    assert first.returncode == 143
    assert read_episode_metadata(root)
    assert not (root.parent / ".shared.staging").exists()


def test_a_folder_that_is_removed_under_a_run_ends_it():
    root = Path("data").absolute() / "set"
    with running("recorder=async", "num_demos=1000000", f"dataset.root={root}") as process:
        wait_for(process, settled)
        # Where the run finds it no more it cannot make files in it while it is being emptied.
        shutil.rmtree(root.parent.rename("elsewhere"))
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    (record,) = records()
    assert record["exit_reason"].startswith("RecorderError: ")
    assert str(root.parent / ".set.staging") in err
    assert not root.exists()


@pytest.mark.parametrize("recorder", [pytest.param("async", marks=pytest.mark.slow), "sharded"])
def test_nothing_but_the_results_is_left(recorder, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    arguments = [f"recorder={recorder}", "num_demos=6", "recorder.save_failed=true", "hydra.run.dir=run"]
    with running(*arguments, "preview=false") as process:
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert list(scratch.iterdir()) == []
    names = {path.name for path in Path("run").iterdir()} - {"dataset_failed"}  # where none has failed
    reports = {f"report.{kind}" for kind in ("html", "json")} | {"run.json", "metrics.jsonl", "mimicpipe.log"}
    assert names == {".hydra", "attempts.jsonl", "dataset", *reports}
    assert sorted(path.name for path in Path("run/dataset").iterdir()) == ["data", "meta"]


def test_an_exit_code_of_its_own_is_no_signal(in_process):
    code, _, err = in_process("generator._target_=own_faults.LeavingAsIfBySigterm", "num_demos=1")
    (record,) = records()
    assert (code, record["exit_code"], record["exit_reason"]) == (1, 1, "SystemExit: 143")
    assert "SIGTERM" not in err


def test_showing_the_config_of_a_sweep_is_refused_in_one_line(in_process):
    code, out, err = in_process(flags=("-m", "--cfg", "job"))
    assert code == 2
    assert (out, err) == ("", "error: --multirun and --cfg: give one of them; see --help and --hydra-help\n")
    assert list(Path.cwd().iterdir()) == []
