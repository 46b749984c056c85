"""tracker=wandb online, against a W&B-compatible server: what it is sent is what metrics.jsonl has, and it may die."""

import base64
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import hydra.version
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

from mimicpipe.trackers import wandb as tracker_module

TESTS = Path(__file__).parents[1]
KEY = "local" + "0" * 40
"""The key that a new openwandb server knows."""
SERVER = TESTS.parent / ".venv-openwandb" / "bin" / "openwandb"
# Real runs, a server, and W&B's own process.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    # wandb drops its service's Popen object without waiting for the process, which Python warns of.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
    ),
]


class Server:
    """`openwandb serve` with an empty database."""

    def __init__(self, folder: Path) -> None:
        program = str(SERVER) if SERVER.is_file() else shutil.which("openwandb")
        if program is None:
            pytest.skip("openwandb is not installed: make openwandb")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        where = ("--host", "127.0.0.1", "--port", str(self.port), "--data-dir", str(folder))
        self.process = subprocess.Popen(
            [program, "serve", *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def await_start(self) -> None:
        until = time.monotonic() + 60.0
        while time.monotonic() < until:
            assert self.process.poll() is None, "the server has ended"
            try:
                with urllib.request.urlopen(f"{self.url}/login", timeout=5.0):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the server did not start")

    def get(self, path: str) -> dict:
        token = base64.b64encode(f"api:{KEY}".encode()).decode()
        request = urllib.request.Request(f"{self.url}{path}", headers={"Authorization": f"Basic {token}"})
        with urllib.request.urlopen(request, timeout=10.0) as answer:
            return json.load(answer)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(tmp_path, monkeypatch):
    import wandb

    started = Server(tmp_path / "server")
    try:
        started.await_start()
        monkeypatch.setenv("WANDB_BASE_URL", started.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
        monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
        monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
        monkeypatch.delenv("WANDB_MODE", raising=False)
        yield started
    finally:
        wandb.teardown()
        started.kill()
        gc.collect()


def run(folder: Path, monkeypatch, num_demos: int) -> int:
    """A run of at least `num_demos / 4 * 0.2` seconds."""
    monkeypatch.syspath_prepend(TESTS / "report")
    hydra.version.setbase("1.3")
    own = ("generator._target_=slow_parts.Waiter", "allowed_targets=[slow_parts]")
    size = ("env=kinematic", "env.num_envs=4", f"num_demos={num_demos}")
    return run_main(
        [*size, *own, "recorder=async", "tracker=wandb", "tracker.mode=online", f"hydra.run.dir={folder}"],
        folder.parent,
    )


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_id(folder: Path) -> str:
    (path,) = folder.glob("wandb/run-*")
    return path.name.rpartition("-")[2]


def assert_complete(folder: Path, num_demos: int) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    lengths = [row["length"] for row in rows(folder / "attempts.jsonl") if row["episode_index"] is not None]
    dataset = LeRobotDataset("local/pick", root=folder / "dataset")
    assert (dataset.num_episodes, dataset.num_frames) == (num_demos, sum(lengths))
    assert len(lengths) == num_demos


def test_the_servers_history_is_metrics_jsonl(server, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    assert run(folder, monkeypatch, num_demos=60) == 0
    written = rows(folder / "metrics.jsonl")
    assert len(written) >= 2
    history = server.get(f"/api/v2/runs/{run_id(folder)}/metrics")["metrics_by_key"]
    assert set(history) == {name for row in written for name in row} - {"time"}
    for name, points in history.items():
        expected = [row[name] for row in written]
        # The file has the clock rounded to 0.1 ms.
        assert [point["value"] for point in points] == pytest.approx(expected, rel=0, abs=1e-4), name
        assert [point["step"] for point in points] == list(range(len(written)))
    for name in ("recorder/queue_peak", "recorder/backpressure_s", "queue/action_wait_s", "queue/reset_peak"):
        assert name in history
    assert history["generation/successes"][-1]["value"] == 60.0
    sent = server.get(f"/api/v2/runs/{run_id(folder)}")["run"]
    assert sent["state"] == "finished"
    assert sent["config"]["num_demos"] in (60, {"value": 60})
    summary = json.loads((folder / "run.json").read_text())
    assert sent["summary"]["bottleneck"] == summary["bottleneck"]
    assert_complete(folder, 60)


def test_a_server_that_dies_costs_its_own_curves_only(server, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tracker_module, "FINISH_TIMEOUT_S", 5.0)
    folder = tmp_path / "run"
    died: list[int] = []

    def kill_when_it_runs() -> None:
        until = time.monotonic() + 100.0
        while time.monotonic() < until:
            lines = rows(folder / "metrics.jsonl") if (folder / "metrics.jsonl").is_file() else []
            if lines:
                server.kill()
                died.append(int(lines[-1]["generation/successes"]))
                return
            time.sleep(0.05)

    killer = threading.Thread(target=kill_when_it_runs)
    killer.start()
    code = run(folder, monkeypatch, num_demos=100)
    killer.join()
    assert code == 0
    assert died[0] < 100
    assert rows(folder / "metrics.jsonl")[-1]["generation/successes"] == 100.0
    assert json.loads((folder / "run.json").read_text())["exit_reason"] == "num_demos"
    assert_complete(folder, 100)
    warnings = [line for line in (folder / "mimicpipe.log").read_text().splitlines() if "WandbTracker" in line]
    (line,) = warnings
    assert "has not answered for 5 s" in line
    synced = line.split("`")[1].removeprefix("wandb sync ")
    assert list(Path(synced).glob("run-*.wandb")), "what is to be sent later is there"
    assert os.path.commonpath([synced, folder]) == str(folder)
