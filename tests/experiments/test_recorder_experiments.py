"""experiments/recorder and experiments/chaos at a toy size: real writers, real kills."""

import json
import random

import pytest

from experiments.chaos.__main__ import KINEMATIC, render
from experiments.chaos.killing import Killer, Recorders, Runs
from experiments.recorder import __main__ as cli
from experiments.recorder import cells, report

# LeRobot is imported, and processes are started.
pytestmark = pytest.mark.timeout(180)


def test_the_ways_of_writing_are_compared_over_the_same_frames():
    rows = cells.state(4, 2, 1)
    assert [row["way"] for row in rows] == ["lerobot", "recorder=async", "recorder=sharded, 1 worker"]
    assert [row["frames"] for row in rows] == [250, 375, 375]  # the recorders' first episode starts the writers
    assert all(row["durable_frames_per_s"] >= row["finished_frames_per_s"] > 0 for row in rows)
    text = report.render({"state": {"rows": rows, "machine": MACHINE, "runtime_s": 1, "load_average_before": 0}})
    assert "| lerobot | 250 |" in text
    assert "1.00 ×" in text


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own():
    rows = cells.memory(2, 20)
    assert [row["workers"] for row in rows] == [0, 1]
    assert all(row["committed_mb"] == pytest.approx(24.6, abs=0.1) for row in rows)


def test_sections_are_kept_apart(tmp_path, capsys):
    assert cli.main(["short", "--smoke", "--out", str(tmp_path)]) == 0
    assert cli.main(["state", "--smoke", "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "recorder.json").read_text())
    assert set(results) == {"short", "state"}
    assert results["short"]["rows"][0]["episodes"] == 100
    assert (tmp_path / "recorder.png").stat().st_size > 1000
    assert "## (e) Many short episodes" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["nonsense"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Recorders("recorders", demos=3), Runs("runs", KINEMATIC, demos=20)])
def test_what_is_killed_loses_nothing(tmp_path, kind):
    tally = Killer(random.Random(1), tmp_path).kill(kind, 2)
    assert tally.kills == sum(tally.phases.values()) >= 2
    assert tally.ended >= 1
    assert tally.reported > 0
    assert (tally.lost, tally.unreadable, tally.different) == (0, 0, 0)
    assert "# Chaos: " in render([tally])


MACHINE = {"cpu": "x", "cpus": 1, "system": "y", "versions": {"python": "3"}, "git": None}
