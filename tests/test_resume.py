"""`resume=RUN` after kill -9 or a signal: to exactly the same dataset and attempts, however often it was killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from same_files import different_files

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.digest import digest
from mimicpipe.resume import settled_attempts, with_resumed_arguments
from mimicpipe.tools import recover

ROOT = Path(__file__).parents[1]
# A few jobs, each of which imports torch.
pytestmark = pytest.mark.timeout(240)
BASE = [
    "env=kinematic",
    "env.lag=0.85",
    "task=stack",
    "num_demos=120",  # enough to be ended three times on a machine that is slow to notice
    "recorder.async_queue_maxsize=1",  # attempts cannot all be made before the first of them is written
    "tracker=none",
    "seed=3",
    "recorder.save_failed=true",
]


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments):
    with start(*arguments) as process:
        _, text = process.communicate(timeout=200)
    return process.returncode, text


def rows(folder):
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Output folder of a run that nobody has interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    code, text = run(*BASE, "env.num_envs=4", f"hydra.run.dir={folder}")
    assert code == 0, text
    return folder


@pytest.mark.parametrize(
    "recorder",
    [["recorder=async"], pytest.param(["recorder=sharded", "recorder.workers=2"], marks=pytest.mark.slow)],
)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_dataset(whole, tmp_path, recorder):
    folder = tmp_path / "run"
    command = [*BASE, *recorder, "recorder.save_failed=true", "env.num_envs=3", f"hydra.run.dir={folder}"]
    chance = random.Random(len(recorder))
    for _ in range(3):
        process = start(*command)
        seen = len(rows_so_far(folder))
        while process.poll() is None and len(rows_so_far(folder)) <= seen:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (folder / "dataset").exists():
            break  # it was quicker
        command = [f"resume={folder}", "env.num_envs=5"]
    else:
        code, text = run(*command)
        assert code == 0, text
        assert "resumed at attempt" in text
    if list(folder.glob(".*.staging")):  # killed while it was publishing
        assert recover.main([str(folder)]) == 0
    assert rows(folder) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert digest(folder / name) == digest(whole / name)
    assert {path.name for path in folder.iterdir()} >= {"attempts.jsonl", "metrics.jsonl", "dataset", "dataset_failed"}
    assert list(folder.glob(".*.staging")) == []


def end_by(number, *command, folder):
    """Run until another attempt is settled, and end it by a signal; the exit code."""
    with start(*command) as process:
        seen = len(rows_so_far(folder))
        while process.poll() is None and len(rows_so_far(folder)) <= seen + 2:
            time.sleep(0.002)
        process.send_signal(number)
        _, text = process.communicate(timeout=200)
    assert "Traceback" not in text
    return process.returncode


def test_a_run_that_signals_have_ended_goes_on_to_the_same_bits(whole, tmp_path):
    folder = tmp_path / "run"
    going_on = [f"resume={folder}", "env.num_envs=5"]
    command = [*BASE, "env.num_envs=3", f"hydra.run.dir={folder}"]
    assert end_by(signal.SIGINT, *command, folder=folder) == 130
    assert (folder / "dataset").is_dir()
    assert list(folder.glob(".*")) == [folder / ".hydra"]  # nothing is left beside the dataset
    assert end_by(signal.SIGTERM, *going_on, "recorder=sharded", folder=folder) == 143
    assert list(folder.glob(".*")) == [folder / ".hydra"]
    # Killed, what the last run has published is there, and what it has added can still be gone on with.
    before = digest(folder / "dataset")
    assert end_by(signal.SIGKILL, *going_on, folder=folder) == -signal.SIGKILL
    assert digest(folder / "dataset") == before
    code, text = run(*going_on)
    assert code == 0, text
    assert "resumed at attempt" in text
    assert rows(folder) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert different_files(folder / name, whole / name) == []
    assert list(folder.glob(".*")) == [folder / ".hydra"]


def test_a_dataset_that_is_not_the_runs_is_not_gone_on_with(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / "run.json").unlink()
    lines = (folder / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "attempts.jsonl").write_bytes(b"".join(lines[:10]))
    root, failed = folder / "dataset", folder / "dataset_failed"
    with pytest.raises(ConfigError, match=r"dataset is not the dataset that .*attempts\.jsonl tells of"):
        settled_attempts(folder / "attempts.jsonl", root, failed)
    assert settled_attempts(folder / "attempts.jsonl", root, failed, overwrite=True).demos == 0
    (root / "meta" / "mimicpipe.json").unlink()
    with pytest.raises(ConfigError, match=r"resume: .*dataset: no dataset of a mimicpipe recorder"):
        settled_attempts(folder / "attempts.jsonl", root, failed)


def rows_so_far(folder):
    path = folder / "attempts.jsonl"
    return path.read_bytes().splitlines() if path.exists() else []


def test_what_was_left_out_of_the_log_is_done_again(whole, tmp_path):
    attempts = tmp_path / "attempts.jsonl"
    lines = (whole / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    failures = [line for line in lines if not json.loads(line)["success"]]
    attempts.write_bytes(b"".join(failures) + lines[0][:20])
    # No episode is staged beside this root, so the first success is not settled.
    settled = settled_attempts(attempts, tmp_path / "dataset", None)
    first = next(number for number, line in enumerate(lines) if json.loads(line)["success"])
    assert (len(settled.rows), settled.demos) == (first, 0)


def test_another_run_is_refused(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    for name in ("dataset", "dataset_failed"):
        shutil.rmtree(folder / name)
    code, text = run(f"resume={folder}", "seed=4")
    assert code == 2
    assert "seed was 3, and the dataset depends on it; leave it as it was" in text
    code, text = run(f"resume={whole}")
    assert code == 2
    assert "the run has ended (num_demos), so there is nothing to go on with" in text
    code, text = run(f"resume={tmp_path}")
    assert code == 2
    assert "no output folder of a run" in text


def test_a_sweep_is_not_resumed_as_such():
    with pytest.raises(ConfigError, match="one run at a time"):
        with_resumed_arguments(["-m", "resume=somewhere"])
    assert with_resumed_arguments(["task=pick", "resume=null"]) == ["task=pick", "resume=null"]
