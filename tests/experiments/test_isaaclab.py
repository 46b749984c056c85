"""experiments/isaaclab runs, and its page says what was measured."""

from importlib.util import find_spec

import pytest

from experiments import harness
from experiments.isaaclab import __main__ as cli
from experiments.isaaclab.report import render

WAYS = [
    "env.step alone, the same steps",
    "env.step alone, holding",
    "mimicpipe, recorder=async",
    "mimicpipe, recorder=none",
    "Isaac Lab Mimic's loop",
]


@pytest.mark.skipif(find_spec("isaaclab") is not None, reason="isaaclab is installed, so nothing is missing")
def test_without_isaac_lab_it_is_left_out_and_says_so(capsys, tmp_path):
    assert cli.main(["--smoke", f"--out={tmp_path}"]) == 0
    assert "left out; env=isaaclab: needs the extra isaaclab" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_page_has_a_row_for_each_way():
    shared = {"num_envs": 64, "attempts": 192, "turns": 3, "task": "Pick"}
    run = {**shared, "steps_per_s": 1234.56, "share": 0.9, "whole": 1111.1, "success": 0.875}
    rows = [{**run, "way": way} for way in WAYS[2:]]
    alone = {**shared, "steps_per_s": 1371.7, "share": 1.0, "whole": None, "success": None}
    bare = [{**alone, "way": way} for way in WAYS[:2]]
    rows[0]["cpu_share"] = 0.934
    rows[-1]["share_within_env_step"] = 0.66
    machine = {"cpu": "CPU", "cpus": 2, "system": "Linux", "versions": {}, "git": None}
    page = render({"rates": {"machine": machine, "load_average_before": 0.0, "runtime_s": 1.0, "rows": [*bare, *rows]}})
    assert "| env.step alone, the same steps | 64 | 192 | 1,371.7 | 100 % | - | - |" in page
    assert "| mimicpipe, recorder=async | 64 | 192 | 1,234.6 | 90 % | 1,111.1 | 88 % |" in page
    assert "the share of `env.step` alone is 93 % (mimicpipe, recorder=async)." in page
    assert "Medians of 3 turns." in page
    assert "The peer's loop spends 66 % of its time in its `env.step`" in page


@pytest.mark.isaaclab
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(find_spec("isaaclab") is None, reason="the extra isaaclab is not installed: make isaaclab")
def test_all_ways_are_measured(tmp_path):
    assert cli.main(["--smoke", f"--out={tmp_path}"]) == 0
    results = harness.read_json(tmp_path / "isaaclab.json")
    rows = results["rates"]["rows"]
    assert [row["way"] for row in rows] == WAYS
    assert all(row["steps_per_s"] > 0 and row["share"] > 0 for row in rows)
    assert all(row["success"] > 0 and row["whole"] > 0 for row in rows[2:])
    assert (tmp_path / "isaaclab.md").read_text() == render(results)
