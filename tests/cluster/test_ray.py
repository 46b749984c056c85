"""`cluster=ray` on Ray clusters of this machine: run with `make test-cluster`.

Each run of several workers is a process of its own, as a user starts it. Some start a Ray cluster for themselves, and
end it; the others share one, since that start takes most of a run's time.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from in_process import run_main

from mimicpipe.recorders.digest import digest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]  # on a quiet machine no test takes 60 s
pytest.importorskip("ray", reason="cluster=ray needs the extra cluster; get it with `make cluster`")

HERE = Path(__file__).parent
BASE = ["tracker=none", "seed=3", "env.num_envs=3", "preview=false"]
KINEMATIC = [
    *BASE,
    "env=kinematic",
    "env.lag=0.87",  # about half of the attempts fail
    "task=stack",
    "num_demos=16",
    "recorder.save_failed=true",
]
MUJOCO = [*BASE, "env=mujoco", "env.threads=1", "task=pick", "num_demos=6", "preview=true"]
RAY = ["cluster=ray", "cluster.worker_timeout_s=200"]


@contextmanager
def start(*arguments, cwd, scratch="/tmp"):
    """A run with several workers; its process, which is gone with all of its session in the end."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "patient_ray.py"), *RAY, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": scratch},
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with process:
            yield process
    finally:
        for pid in processes_of(process.pid):  # of a test that has failed
            os.kill(pid, signal.SIGKILL)


def run(*arguments, cwd):
    with start(*arguments, cwd=cwd) as process:
        _, text = process.communicate()
    return process.returncode, text


def rows(folder):
    path = folder / "attempts.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]


def record(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def wait_for_rows(folder, count, process):
    while len(rows(folder)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def processes_of(session):
    """{pid: command line} of the processes of a run: those of its session, as those of its own Ray are, too."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if os.getsid(int(path.name)) == session:
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def gone(left):
    """Wait until `left()`, processes, is empty."""
    deadline = time.monotonic() + 60
    while left() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left() == {}


def nothing_is_left(session, scratch):
    """Neither a process of a run nor a folder of its Ray."""
    gone(lambda: processes_of(session))
    assert os.listdir(scratch) == []


def workers(session):
    """{pid: command line} of the workers of a run whose Ray is of that session."""
    return {pid: command for pid, command in processes_of(session).items() if "ray::WorkerActor" in command}


def same(folder, whole):
    assert rows(folder) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert (folder / name).exists() == (whole / name).exists()
        if (whole / name).exists():
            assert digest(folder / name) == digest(whole / name)
    assert list(folder.glob(".*")) == [folder / ".hydra"]


def of_one_process(folder, *arguments):
    """Output folder of a run of one process."""
    assert run_main([*arguments, "hydra.run.dir=whole"], folder) == 0
    return folder / "whole"


@pytest.fixture
def scratch():
    """A folder for temporary files, with the short path that Ray's sockets need."""
    with tempfile.TemporaryDirectory(prefix="mp-") as folder:
        yield folder


@pytest.fixture(scope="module")
def kinematic(tmp_path_factory):
    return of_one_process(tmp_path_factory.mktemp("kinematic"), *KINEMATIC)


@pytest.fixture(scope="module")
def shared_ray():
    """host:port of a Ray cluster with room for two workers."""
    import patient_ray
    import ray

    patient_ray.be_patient()
    with tempfile.TemporaryDirectory(prefix="mp-ray-", ignore_cleanup_errors=True) as folder:
        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
        ray.init(address="local", num_cpus=2, object_store_memory=80 * 1024**2, _temp_dir=folder, **options)
        try:
            yield ray.get_runtime_context().gcs_address
        finally:
            ray.shutdown()


def test_two_workers_make_the_dataset_of_one_process_with_mujoco(tmp_path, scratch):
    whole = of_one_process(tmp_path, *MUJOCO)
    with start(*MUJOCO, "recorder=sharded", "hydra.run.dir=run", cwd=tmp_path, scratch=scratch) as process:
        _, text = process.communicate()
    assert process.returncode == 0, text
    nothing_is_left(process.pid, scratch)
    same(tmp_path / "run", whole)
    found = record(tmp_path / "run")
    assert found["choices"]["cluster"] == "ray"
    assert sum(found["stage_s"].values()) == pytest.approx(found["wall_s"], rel=0.02)
    for name in ("report.html", "preview.gif", "metrics.jsonl"):
        assert (tmp_path / "run" / name).stat().st_size > 0


@pytest.mark.parametrize("to_all", [False, True], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_ends_the_run_well(kinematic, tmp_path, scratch, to_all):
    folder = tmp_path / "run"
    with start(*KINEMATIC, "num_demos=500", "hydra.run.dir=run", cwd=tmp_path, scratch=scratch) as process:
        wait_for_rows(folder, 5, process)
        if to_all:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGTERM)
        _, text = process.communicate()
        assert process.returncode == (130 if to_all else 143)
        nothing_is_left(process.pid, scratch)
    assert "Traceback" not in text
    found, expected = rows(folder), rows(kinematic)
    assert len(found) >= 5
    assert found[: len(expected)] == expected[: len(found)]
    assert (folder / "dataset").is_dir()
    assert list(folder.glob(".*")) == [folder / ".hydra"]


def test_a_signal_ends_a_run_whose_ray_is_starting(tmp_path, scratch):
    with start(*KINEMATIC, "hydra.run.dir=run", cwd=tmp_path, scratch=scratch) as process:
        while not list(Path(scratch).glob("*/session_*")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate()
        nothing_is_left(process.pid, scratch)
    assert process.returncode == 143
    assert "Traceback" not in text
    assert record(tmp_path / "run")["exit_reason"] == "SIGTERM"


def test_too_few_processors_are_named(shared_ray, tmp_path, scratch):
    with start(
        *KINEMATIC, f"cluster.address={shared_ray}", "cluster.num_workers=3", cwd=tmp_path, scratch=scratch
    ) as process:
        _, text = process.communicate()
        nothing_is_left(process.pid, scratch)
    assert process.returncode == 2
    (error,) = (line for line in text.splitlines() if line.startswith("error: "))
    assert "cluster.num_workers=3: each takes cluster.cpus_per_worker=1, and the Ray cluster has 2 CPUs" in error


def test_a_worker_that_is_killed_is_replaced(shared_ray, kinematic, tmp_path):
    arguments = [*KINEMATIC, f"cluster.address={shared_ray}", "hydra.run.dir=run"]
    with start(*arguments, cwd=tmp_path) as process:
        wait_for_rows(tmp_path / "run", 3, process)
        os.kill(max(workers(os.getsid(0))), signal.SIGKILL)
        _, text = process.communicate()
    assert process.returncode == 0, text
    assert "was lost, and is started again (1 of 3)" in text
    same(tmp_path / "run", kinematic)
    gone(lambda: workers(os.getsid(0)))


def test_a_worker_that_is_lost_for_good_ends_the_run(shared_ray, kinematic, tmp_path):
    folder = tmp_path / "run"
    arguments = [*KINEMATIC, f"cluster.address={shared_ray}", "cluster.max_retries=0", "hydra.run.dir=run"]
    with start(*arguments, cwd=tmp_path) as process:
        wait_for_rows(folder, 3, process)
        os.kill(min(workers(os.getsid(0))), signal.SIGKILL)
        _, text = process.communicate()
    assert process.returncode == 1
    (error,) = (line for line in text.splitlines() if line.startswith("error: "))
    assert error.startswith("error: worker ")
    assert "was lost: The actor died" in error
    gone(lambda: workers(os.getsid(0)))
    assert rows(folder) == rows(kinematic)[: len(rows(folder))]
    assert list(folder.glob(".*")) == [folder / ".hydra"]


def test_a_driver_that_is_killed_goes_on_to_the_same_dataset(shared_ray, kinematic, tmp_path):
    folder = tmp_path / "run"
    with start(*KINEMATIC, f"cluster.address={shared_ray}", "hydra.run.dir=run", cwd=tmp_path) as process:
        wait_for_rows(folder, 3, process)
        process.kill()
    gone(lambda: workers(os.getsid(0)))
    assert rows(folder) == rows(kinematic)[: len(rows(folder))]
    assert (folder / ".dataset.staging").is_dir()
    more = ["cluster.num_workers=1", "env.num_envs=2"]
    code, text = run(f"resume={folder}", *more, cwd=tmp_path)
    assert code == 0, text
    same(folder, kinematic)


def test_limits_are_exact(shared_ray, tmp_path):
    whole = of_one_process(tmp_path, *KINEMATIC, "max_failures=4")
    address = f"cluster.address={shared_ray}"
    code, text = run(*KINEMATIC, address, "max_failures=4", "hydra.run.dir=run", cwd=tmp_path)
    assert code == 0, text
    same(tmp_path / "run", whole)
    assert record(tmp_path / "run")["exit_reason"] == "max_failures"
