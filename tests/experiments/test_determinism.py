"""The determinism experiment: runs of a grid that agree, and that it would notice where they did not."""

import json
from pathlib import Path

import pytest

from experiments.determinism import __main__ as entry
from experiments.determinism.grid import Grid, run_grid

pytestmark = pytest.mark.timeout(180)


def test_a_grid_agrees_and_its_page_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--smoke", "--out", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "determinism.json").read_text())["rows"]
    assert (row["runs"], row["recorded"], row["datasets"], row["attempt_lists"]) == (4, 2, 1, 1)
    assert row["digest"] in capsys.readouterr().out


@pytest.mark.slow
def test_runs_that_differ_are_counted(tmp_path: Path) -> None:
    row = run_grid(Grid("seeds", ("env=kinematic", "num_demos=1", "recorder=async"), ("seed=0,1",)), tmp_path)
    assert (row["runs"], row["datasets"], row["attempt_lists"]) == (2, 2, 2)
