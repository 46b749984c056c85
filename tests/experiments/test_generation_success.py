"""experiments/generation_success at a toy size."""

import json

import hydra.version
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.generation_success import __main__ as cli
from experiments.generation_success.cells import CELLS, SKILLGEN_CELLS, read_attempts, summarize
from experiments.generation_success.plot import RESULTS
from experiments.harness import compose, read_json
from mimicpipe.report.interval import wilson

CELL = CELLS[0]


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


def test_wilson_against_published_values():
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81/263, 15/148, 0/20, 1/29.
    for successes, trials, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_proportion_and_is_symmetric(case):
    successes, trials = case
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials
    assert successes / trials <= high <= 1
    assert wilson(trials - successes, trials) == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_wilson_refuses_what_is_no_proportion(successes, trials):
    with pytest.raises(ValueError, match="successes of"):
        wilson(successes, trials)


def test_a_row_counts_attempts_reasons_and_lengths():
    outcomes = [(True, "success", 80), (False, "not_successful", 120), (True, "success", 90), (False, "timeout", 600)]
    rows = [{"attempt": k, "success": s, "reason": r, "length": n} for k, (s, r, n) in enumerate(outcomes)]
    row = summarize(CELL, rows)
    assert (row["attempts"], row["successes"], row["success_rate"], row["goal_met"]) == (4, 2, 0.5, False)
    assert row["failures"] == {"not_successful": 1, "timeout": 1}
    assert (row["mean_length"], row["mean_length_of_demos"]) == (222.5, 85)
    assert row["failed_attempts"] == [1, 3]
    assert summarize(CELL, rows[1:2])["mean_length_of_demos"] is None


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_cell_is_five_hundred_attempts(cell):
    config = compose(*cell.overrides, "pool=scripted")
    assert (config.task["name"], config.task["variant"]) == (cell.task, cell.variant)
    assert (config.num_demos, config.max_attempts, config.max_failures) == (500, 500, None)


def test_a_cell_is_run_once_and_reported_from_its_attempts(tmp_path, capsys):
    command = [CELL.name, "--attempts=3", f"--runs={tmp_path / 'runs'}", f"--out={tmp_path / 'out'}"]
    folder = tmp_path / "runs" / CELL.name
    assert cli.main(command) == 0
    assert len(read_attempts(folder)) == 3
    row = read_json(tmp_path / "out" / "generation_success.json")["rows"][0]
    assert row == json.loads(json.dumps(summarize(CELL, read_attempts(folder))))
    assert "| pick D0 | 3 |" in capsys.readouterr().out
    assert (tmp_path / "out" / "generation_success.png").stat().st_size > 1000

    budget = ("num_demos=3", "max_attempts=3")
    assert cli.is_complete(CELL, folder, budget)
    assert not cli.is_complete(CELL, folder, ("num_demos=4", "max_attempts=4"))
    before = (folder / "run.json").stat().st_mtime_ns
    assert cli.main(command) == 0
    assert (folder / "run.json").stat().st_mtime_ns == before

    (folder / "source.json").write_text('{"sha256": "of other sources"}')
    assert not cli.is_complete(CELL, folder, budget)
    (tmp_path / "out" / "generation_success.md").unlink()
    assert cli.main([*command, "--report"]) == 0
    assert "| pick D0 | 3 |" in (tmp_path / "out" / "generation_success.md").read_text()


def test_without_runs_there_is_no_report(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["--report", f"--runs={tmp_path / 'none'}", f"--out={tmp_path}"])
    assert "no complete run below" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["pick_D7"])
    assert "unknown cell pick_D7; choose from pick_D0" in capsys.readouterr().err


def test_the_committed_page_is_that_of_the_committed_figures():
    results = read_json(RESULTS / "generation_success.json")
    assert [(r["task"], r["variant"], r["generator"], r["attempts"]) for r in results["rows"]] == [
        (cell.task, cell.variant, cell.generator, 500) for cell in (*CELLS, *SKILLGEN_CELLS)
    ]
    for row in results["rows"]:
        assert row["attempts"] - row["successes"] == sum(row["failures"].values()) == len(row["failed_attempts"])
    assert (RESULTS / "generation_success.md").read_text() == cli.render(results["rows"], results["runs"])
