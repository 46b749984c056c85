import gc
import logging
import subprocess
import sys
import time

import pytest
from wandb_file import items, records

from mimicpipe.trackers import wandb as tracker_module
from mimicpipe.trackers.composite import CompositeTracker
from mimicpipe.trackers.wandb import WandbTracker

# wandb drops its service's Popen object without waiting for the process, which Python warns of.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(autouse=True)
def _no_login(monkeypatch, tmp_path):
    import wandb

    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    yield
    wandb.teardown()
    gc.collect()


def written(directory):
    """All records of a finished run; W&B's process may write them a moment after `finish` has returned."""
    (path,) = directory.glob("wandb/offline-run-*/run-*.wandb")
    until = time.monotonic() + 20.0
    while True:
        found = list(records(path))
        if any(record.WhichOneof("record_type") == "exit" for record in found) or time.monotonic() > until:
            return found
        time.sleep(0.05)


def test_offline_runs_of_one_process_hold_every_metric_with_both_axes(tmp_path, capfd):
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        tracker = WandbTracker(
            directory, {"env": {"num_envs": number}}, group="sweep", job_type="generate", tags=["a", "b"], name="n"
        )
        tracker.log({"generation/attempts": 3.0, "time/step_s": 0.5}, env_steps=40, wall_s=2.5)
        tracker.log({"generation/attempts": 9.0, "time/step_s": 1.5}, env_steps=80, wall_s=5.0)
        tracker.close({"exit_reason": "num_demos", "counts": {"attempts": 9}}, exit_code=0)
    assert capfd.readouterr() == ("", "")
    for number in range(2):
        found = written(tmp_path / str(number))
        history = [items(record.history.item) for record in found if record.WhichOneof("record_type") == "history"]
        assert [row["generation/attempts"] for row in history] == [3.0, 9.0]
        assert [(row["env_steps"], row["wall_s"]) for row in history] == [(40, 2.5), (80, 5.0)]
        (run,) = [record.run for record in found if record.WhichOneof("record_type") == "run"]
        assert (run.project, run.run_group, run.job_type, run.display_name) == ("mimicpipe", "sweep", "generate", "n")
        assert sorted(run.tags) == ["a", "b"]
        assert items(run.config.update)["env"] == {"num_envs": number}
        summary = [items(r.summary.update) for r in found if r.WhichOneof("record_type") == "summary"]
        assert any(update.get("exit_reason") == "num_demos" for update in summary)
        (ended,) = [record.exit for record in found if record.WhichOneof("record_type") == "exit"]
        assert ended.exit_code == 0


def test_without_a_login_the_run_goes_on(tmp_path, caplog):
    tracker = CompositeTracker([], [lambda: WandbTracker(tmp_path, {}, mode="online")])
    assert tracker.trackers == ()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "wandb login" in record.getMessage()
    tracker.log({"a": 1.0}, 1, 1.0)
    tracker.close({}, 0)


@pytest.mark.slow
def test_a_dead_server_costs_a_bounded_wait(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(tracker_module, "INIT_TIMEOUT_S", 1.0)
    began = time.monotonic()
    tracker = CompositeTracker([], [lambda: WandbTracker(tmp_path, {}, mode="online")])
    assert tracker.trackers == ()
    assert time.monotonic() - began < 30
    assert len(caplog.records) == 1


def test_wandb_may_be_missing(tmp_path, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    tracker = CompositeTracker([], [lambda: WandbTracker(tmp_path, {})])
    assert tracker.trackers == ()
    assert "wandb" in caplog.text
    monkeypatch.undo()


def test_importing_the_tracker_does_not_import_wandb():
    code = "import sys, mimicpipe.trackers.wandb; sys.exit('wandb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
