"""`cluster=ray` on a Ray cluster of this machine: run with `make test-cluster`.

Each run is a process of its own, as a user starts it, and with it Ray: start-ups, which take most of the time, are few.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mimicpipe.recorders.digest import digest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]  # a busy machine takes minutes to start Ray
pytest.importorskip("ray", reason="cluster=ray needs the extra cluster; get it with `make cluster`")

HERE = Path(__file__).parent
BASE = ["tracker=none", "seed=3", "env.num_envs=3"]
KINEMATIC = [
    *BASE,
    "env=kinematic",
    "env.lag=0.87",  # about half of the attempts fail
    "task=stack",
    "num_demos=16",
    "recorder.save_failed=true",
]
MUJOCO = [*BASE, "env=mujoco", "env.threads=1", "task=pick", "num_demos=6"]
RAY = ["cluster=ray", "cluster.worker_timeout_s=600"]


def start(*arguments, cwd):
    return subprocess.Popen(
        [sys.executable, str(HERE / "patient_ray.py"), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(*arguments, cwd):
    with start(*arguments, cwd=cwd) as process:
        _, text = process.communicate()
    return process.returncode, text


def rows(folder):
    path = folder / "attempts.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [{key: value for key, value in json.loads(line).items() if key != "slot"} for line in lines]


def wait_for_rows(folder, count, process):
    while len(rows(folder)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def processes_of(session):
    """{pid: command line} of the processes of a run: those of its session, as Ray's are, too."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if os.getsid(int(path.name)) == session:
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def nothing_is_left(session):
    deadline = time.monotonic() + 60
    while (left := processes_of(session)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == {}


def workers_of(session):
    """Process ids of the workers that have begun."""
    return sorted(pid for pid, command in processes_of(session).items() if "ray::WorkerActor" in command)


def same(folder, whole):
    assert rows(folder) == rows(whole)
    for name in ("dataset", "dataset_failed"):
        assert (folder / name).exists() == (whole / name).exists()
        if (whole / name).exists():
            assert digest(folder / name) == digest(whole / name)
    assert list(folder.glob(".*")) == [folder / ".hydra"]


@pytest.fixture(scope="module")
def kinematic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinematic")
    code, text = run(*KINEMATIC, "hydra.run.dir=run", cwd=folder)
    assert code == 0, text
    return folder / "run"


def test_two_workers_make_the_dataset_of_one_process_with_mujoco(tmp_path):
    for name, cluster in {"whole": [], "run": [*RAY, "recorder=sharded"]}.items():
        code, text = run(*MUJOCO, *cluster, f"hydra.run.dir={name}", cwd=tmp_path)
        assert code == 0, text
    same(tmp_path / "run", tmp_path / "whole")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["choices"]["cluster"] == "ray"
    assert sum(record["stage_s"].values()) == pytest.approx(record["wall_s"], rel=0.02)
    for name in ("report.html", "preview.gif", "metrics.jsonl"):
        assert (tmp_path / "run" / name).stat().st_size > 0


def test_a_worker_that_is_killed_is_replaced(kinematic, tmp_path):
    with start(*KINEMATIC, *RAY, "hydra.run.dir=run", cwd=tmp_path) as process:
        wait_for_rows(tmp_path / "run", 3, process)
        os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
        _, text = process.communicate()
    assert process.returncode == 0, text
    assert "was lost, and is started again (1 of 3)" in text
    same(tmp_path / "run", kinematic)
    nothing_is_left(process.pid)


def test_a_worker_that_is_lost_for_good_ends_the_run_and_it_goes_on(kinematic, tmp_path):
    folder = tmp_path / "run"
    with start(*KINEMATIC, *RAY, "cluster.max_retries=0", "hydra.run.dir=run", cwd=tmp_path) as process:
        wait_for_rows(folder, 3, process)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        _, text = process.communicate()
    assert process.returncode == 1
    (error,) = (line for line in text.splitlines() if line.startswith("error: "))
    assert error.startswith("error: worker ")
    assert "was lost: The actor died" in error
    nothing_is_left(process.pid)
    assert rows(folder) == rows(kinematic)[: len(rows(folder))]
    assert list(folder.glob(".*")) == [folder / ".hydra"]
    code, text = run(f"resume={folder}", "cluster.num_workers=3", "env.num_envs=2", cwd=tmp_path)
    assert code == 0, text
    same(folder, kinematic)


@pytest.mark.parametrize("to_all", [False, True], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_ends_the_run_well(kinematic, tmp_path, to_all):
    folder = tmp_path / "run"
    with start(*KINEMATIC, *RAY, "num_demos=500", "hydra.run.dir=run", cwd=tmp_path) as process:
        wait_for_rows(folder, 5, process)
        if to_all:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGTERM)
        _, text = process.communicate()
    assert process.returncode == (130 if to_all else 143)
    assert "Traceback" not in text
    nothing_is_left(process.pid)
    found, expected = rows(folder), rows(kinematic)
    assert len(found) >= 5
    assert found[: len(expected)] == expected[: len(found)]
    assert (folder / "dataset").is_dir()
    assert list(folder.glob(".*")) == [folder / ".hydra"]


def test_limits_and_addresses(tmp_path):
    for name, cluster in {"whole": [], "run": RAY}.items():
        code, text = run(*KINEMATIC, *cluster, "max_failures=4", f"hydra.run.dir={name}", cwd=tmp_path)
        assert code == 0, text
    same(tmp_path / "run", tmp_path / "whole")
    code, text = run(*KINEMATIC, *RAY, "cluster.address=127.0.0.1:1", "hydra.run.dir=none", cwd=tmp_path)
    assert code == 1
    assert "error: cluster.address=127.0.0.1:1: no Ray cluster: " in text
