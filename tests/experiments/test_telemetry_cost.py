"""What telemetry costs, at a toy size; and that a run without it is the same run."""

import json

import hydra.version
import pytest

from experiments import harness
from experiments.telemetry_cost import measure
from experiments.telemetry_cost.__main__ import RESULTS, main, render


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


def test_the_run_without_telemetry_is_the_same_run(tmp_path):
    budget = ("env.num_envs=3", "num_demos=6", "max_attempts=6")
    with harness.built("env=kinematic", "recorder=none", *budget) as parts:
        with_, known = measure._run(parts, tmp_path, telemetry=True)
        without, unknown = measure._run(parts, tmp_path, telemetry=False)
    assert with_.env_steps == without.env_steps > 0
    assert known.counters.reasons == unknown.counters.reasons
    assert sum(known.clock.seconds().values()) > 0.0
    assert known.reset_queue.meter.peak == 3
    assert sum(unknown.clock.seconds().values()) == 0.0
    assert unknown.reset_queue.meter.peak == 0


def test_everything_at_a_toy_size(tmp_path, capsys):
    assert main(["--smoke", "--out", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "telemetry.json").read_text())["rows"]
    assert row["times"]["switch"] > 100
    assert row["times"]["change"] >= 2 * row["attempts"]
    assert min(row["costs"].values()) > 0.0
    assert row["telemetry_s"] == pytest.approx(sum(row["costs"][name] * row["times"][name] for name in row["costs"]))
    assert "Cost of telemetry" in capsys.readouterr().out


def test_the_committed_page_is_that_of_the_committed_figures():
    results = json.loads((RESULTS / "telemetry.json").read_text())
    assert (RESULTS / "telemetry.md").read_text() == render(results)
    assert all(row["goal_met"] for row in results["rows"])
