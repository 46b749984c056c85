"""Whole runs of several workers, in threads of this process: the dataset and the attempts of a run of one process."""

import json
import os
import signal
import threading
import time

import pytest
from in_process import run_main

from mimicpipe.recorders.digest import digest

pytestmark = pytest.mark.timeout(240)  # imports and a few runs, on a machine that may be busy
BASE = [
    "env=kinematic",
    "env.lag=0.87",  # about half of the attempts fail
    "env.num_envs=3",
    "task=stack",
    "num_demos=8",
    "seed=3",
    "tracker=none",
    "preview=false",
    "recorder.save_failed=true",
]
WORKERS = ["cluster._target_=thread_launcher.ThreadLauncher", "allowed_targets=[thread_launcher]"]


def run(*arguments, cwd):
    """Exit code of `python run.py arguments` in a folder."""
    try:
        return run_main(arguments, cwd)
    except SystemExit as leaving:
        return leaving.code


def rows(folder):
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]


def record(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def same(folder, whole):
    assert rows(folder) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert (folder / name).exists() == (whole / name).exists()
        if (whole / name).exists():
            assert digest(folder / name) == digest(whole / name)
    assert list(folder.glob(".*")) == [folder / ".hydra"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Output folder of a run of one process."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(*BASE, "hydra.run.dir=run", cwd=folder) == 0
    return folder / "run"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["+cluster.num_workers=2"], marks=pytest.mark.slow),
        pytest.param(["+cluster.num_workers=3", "env.num_envs=2"], marks=pytest.mark.slow),
        ["+cluster.num_workers=2", "+cluster.lose={0:[6],1:[3,9]}"],
    ],
    ids=["two", "three", "lost"],
)
def test_workers_make_the_dataset_of_one_process(whole, tmp_path, arguments):
    assert run(*BASE, *WORKERS, *arguments, "hydra.run.dir=run", cwd=tmp_path) == 0
    folder = tmp_path / "run"
    same(folder, whole)
    one, shared = record(whole), record(folder)
    assert shared["exit_reason"] == "num_demos"
    for key in ("attempts", "successes", "failures", "episodes", "frames"):
        assert shared["counts"][key] == one["counts"][key]
    assert shared["reasons"] == one["reasons"]
    assert shared["counts"]["env_steps"] >= one["counts"]["frames"]
    assert sum(shared["stage_s"].values()) == pytest.approx(shared["wall_s"], rel=0.02)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "stack" in page
    slots = {json.loads(line)["slot"] for line in (folder / "attempts.jsonl").read_text().splitlines()}
    assert max(slots) >= int(shared["config"]["env"]["num_envs"])  # no two workers' slots are the same


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["max_attempts=7", "max_failures=2", "num_demos=1", "max_attempts=1"])
@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_limits_are_exact(tmp_path, limit, num_workers):
    for name, cluster in {"whole": [], "run": [*WORKERS, f"+cluster.num_workers={num_workers}"]}.items():
        assert run(*BASE, *cluster, limit, f"hydra.run.dir={name}", cwd=tmp_path) == 0
    same(tmp_path / "run", tmp_path / "whole")
    assert record(tmp_path / "run")["exit_reason"] == record(tmp_path / "whole")["exit_reason"] == limit.split("=")[0]


@pytest.mark.slow
def test_a_signal_ends_it_and_it_goes_on_to_the_same_dataset(whole, tmp_path):
    folder = tmp_path / "run"

    def end():
        path = folder / "attempts.jsonl"
        while not path.exists() or len(path.read_bytes().splitlines()) < 4:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    more = ["num_demos=200", "+cluster.num_workers=2"]
    assert run(*BASE, *WORKERS, *more, "hydra.run.dir=run", cwd=tmp_path) == 130
    ending.join()
    assert record(folder)["exit_reason"] == "SIGINT"
    kept = rows(folder)
    assert record(folder)["counts"]["attempts"] == len(kept) >= 4
    assert (folder / "dataset").is_dir()
    assert list(folder.glob(".*")) == [folder / ".hydra"]
    shared = rows(whole)
    assert kept[: len(shared)] == shared[: len(kept)]


def test_a_worker_that_is_lost_too_often_ends_the_run(tmp_path, capfd):
    arguments = ["+cluster.num_workers=2", "+cluster.max_retries=1", "+cluster.lose={1:[1,1,1]}"]
    assert run(*BASE, *WORKERS, *arguments, "hydra.run.dir=run", cwd=tmp_path) == 1
    assert "error: worker 1 was lost, 2 times, which is more than cluster.max_retries=1" in capfd.readouterr().err
    folder = tmp_path / "run"
    assert record(folder)["exit_code"] == 1
    assert record(folder)["exit_reason"].startswith("ClusterError: worker 1 was lost")
    assert list(folder.glob(".*")) == [folder / ".hydra"]
    # What is settled, which is attempt 0 alone, is there, and is gone on with.
    assert [row["attempt"] for row in rows(folder)] == [0]


@pytest.mark.slow
def test_a_worker_that_does_not_answer_is_lost(tmp_path, capfd):
    arguments = ["+cluster.max_retries=0", "+cluster.worker_timeout_s=0.2", "+cluster.silent=[1]"]
    assert run(*BASE, *WORKERS, *arguments, "hydra.run.dir=run", cwd=tmp_path) == 1
    assert "error: worker 1 was lost: it has not begun within 0.2 s (is there room for it" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("recorder", [["recorder=hdf5"], ["recorder=none", "recorder.save_failed=false"]])
def test_other_recorders(tmp_path, recorder):
    for name, cluster in {"whole": [], "run": WORKERS}.items():
        assert run(*BASE, *cluster, *recorder, f"hydra.run.dir={name}", cwd=tmp_path) == 0
    same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("elsewhere", ["missing", "of_its_own"])
def test_a_worker_that_does_not_see_the_folder_is_one_line(tmp_path, capfd, monkeypatch, elsewhere):
    monkeypatch.setattr("mimicpipe.recorders.shard._SEEN_WITHIN_S", 0.2)
    folder = tmp_path / elsewhere
    if elsewhere == "of_its_own":
        folder.mkdir()
        (folder / "token").write_text("of another run")
    arguments = [*WORKERS, f"+cluster.elsewhere={{1:{folder}}}"]
    assert run(*BASE, *arguments, "hydra.run.dir=run", cwd=tmp_path) == 2
    (error,) = (line for line in capfd.readouterr().err.splitlines() if line.startswith("error: "))
    assert error.startswith("error: worker 1: dataset.root: ")
    assert "is not seen by this worker; choose a folder that all machines share, by the same path" in error
    assert not (tmp_path / "run" / "dataset").exists()


def test_what_is_wrong_in_a_worker_is_one_line(tmp_path, capfd):
    path = tmp_path / "no_demos.hdf5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")  # it ends behind its signature
    assert run(*BASE, *WORKERS, f"pool.path={path}", "hydra.run.dir=run", cwd=tmp_path) == 1
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: worker ")
    assert "no_demos.hdf5" in errors[0]
    assert not (tmp_path / "run" / "dataset").exists()
