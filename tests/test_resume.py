"""`resume=RUN` after kill -9 or a signal: to exactly the same dataset and attempts, however often it was killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import run_main
from same_files import different_files

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.digest import digest
from mimicpipe.resume import settled_attempts, with_resumed_arguments

ENDED_RUN = Path(__file__).with_name("ended_run.py")
# A few jobs, each of which imports torch.
pytestmark = pytest.mark.timeout(600)
BASE = [
    "env=kinematic",
    "env.lag=0.85",
    "task=stack",
    "num_demos=60",  # more than the rows after which a run is ended, three times
    "recorder.async_queue_maxsize=1",  # attempts cannot all be made before the first of them is written
    "tracker=none",
    "preview=false",
    "seed=3",
    "recorder.save_failed=true",
]


def end_by(number, rows, *arguments):
    """Run until so many more attempts are settled, and end it by a signal; the exit code."""
    done = subprocess.run(
        [sys.executable, str(ENDED_RUN), number.name, str(rows), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.fixture
def run(tmp_path, capfd):
    """Run in this process, to the end: (arguments) -> (exit code, stderr)."""

    def call(*arguments):
        return run_main(arguments, tmp_path), capfd.readouterr().err

    return call


def rows(folder):
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Output folder of a run that nobody has interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run_main([*BASE, "env.num_envs=4", f"hydra.run.dir={folder}"], folder.parent) == 0
    return folder


@pytest.mark.parametrize(
    ("recorder", "kills"),
    [(["recorder=async"], 2), pytest.param(["recorder=sharded", "recorder.workers=2"], 3, marks=pytest.mark.slow)],
)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_dataset(whole, run, tmp_path, recorder, kills):
    folder = tmp_path / "run"
    command = [*BASE, *recorder, "env.num_envs=3", f"hydra.run.dir={folder}"]
    chance = random.Random(len(recorder))
    for _ in range(kills):  # where the other threads of the run are at that moment is left to chance, too
        assert end_by(signal.SIGKILL, chance.randrange(1, 15), *command) == -signal.SIGKILL
        assert not (folder / "dataset").exists()
        command = [f"resume={folder}", "env.num_envs=5"]
    code, text = run(*command)
    assert code == 0, text
    assert "resumed at attempt" in text
    assert rows(folder) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert digest(folder / name) == digest(whole / name)
    assert {path.name for path in folder.iterdir()} >= {"attempts.jsonl", "metrics.jsonl", "dataset", "dataset_failed"}
    assert list(folder.glob(".*.staging")) == []


def test_a_run_that_signals_have_ended_goes_on_to_the_same_bits(whole, run, tmp_path):
    folder = tmp_path / "run"
    going_on = [f"resume={folder}", "env.num_envs=5"]
    command = [*BASE, "env.num_envs=3", f"hydra.run.dir={folder}"]
    assert end_by(signal.SIGINT, 3, *command) == 130
    assert (folder / "dataset").is_dir()
    assert list(folder.glob(".*")) == [folder / ".hydra"]  # nothing is left beside the dataset
    assert end_by(signal.SIGTERM, 3, *going_on, "recorder=sharded") == 143
    assert list(folder.glob(".*")) == [folder / ".hydra"]
    # Killed, what the last run has published is there, and what it has added can still be gone on with.
    before = digest(folder / "dataset")
    assert end_by(signal.SIGKILL, 3, *going_on) == -signal.SIGKILL
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


def test_what_was_left_out_of_the_log_is_done_again(whole, tmp_path):
    attempts = tmp_path / "attempts.jsonl"
    lines = (whole / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    failures = [line for line in lines if not json.loads(line)["success"]]
    attempts.write_bytes(b"".join(failures) + lines[0][:20])
    # No episode is staged beside this root, so the first success is not settled.
    settled = settled_attempts(attempts, tmp_path / "dataset", None)
    first = next(number for number, line in enumerate(lines) if json.loads(line)["success"])
    assert (len(settled.rows), settled.demos) == (first, 0)


def test_another_run_is_refused(whole, run, tmp_path):
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
    none = tmp_path / "none"
    arguments = [argument for argument in BASE if not argument.startswith(("recorder.", "num_demos"))]
    assert run(*arguments, "recorder=none", "num_demos=1", f"hydra.run.dir={none}")[0] == 0
    made = (none / "attempts.jsonl").read_bytes()
    code, text = run(f"resume={none}")
    assert (code, "recorder=none keeps no episodes to go on with" in text) == (2, True)
    assert (none / "attempts.jsonl").read_bytes() == made
    code, text = run(f"resume={tmp_path}")
    assert code == 2
    assert "no output folder of a run" in text


def test_a_sweep_is_not_resumed_as_such():
    with pytest.raises(ConfigError, match="one run at a time"):
        with_resumed_arguments(["-m", "resume=somewhere"])
    assert with_resumed_arguments(["task=pick", "resume=null"]) == ["task=pick", "resume=null"]
