"""experiments/policy_learning: its cells, its table, and the toy size."""

import json
from dataclasses import replace

import hydra.version
import pytest

from experiments.harness import read_json
from experiments.policy_learning import __main__ as cli
from experiments.policy_learning.cells import SOURCE_DEMOS, TOY, Cell, Size, missing, same
from experiments.policy_learning.plot import RESULTS, draw


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


def row(cell: Cell, successes=(3, 5)) -> dict:
    policies = [
        {"seed": i, "successes": n, "episodes": 10, "success_rate": n / 10, "mean_length_of_successes": 100.0 + n}
        for i, n in enumerate(successes)
    ]
    rate = sum(successes) / (10 * len(successes))
    return {
        "task": cell.task, "demos": cell.demos, "source": cell.demos == SOURCE_DEMOS, "frames": 1234,
        "success_rate": rate, "wilson_95": [rate - 0.1, rate + 0.1], "policies": policies, "cpu_s": 7.0,
        "key": json.loads(json.dumps(cell.key())),
    }  # fmt: skip


def test_the_source_demos_and_the_largest_number_come_first():
    cells = list(Size().cells())
    assert len(cells) == 12
    assert [cell.demos for cell in cells[:6]] == [10, 10, 10, 1000, 1000, 1000]
    assert {cell.task for cell in cells[:3]} == {"pick", "stack", "square"}


def test_every_number_of_gradient_steps_and_every_scene_is_the_same():
    keys = [cell.key() for cell in Size().cells()]
    assert all(key["training"] == keys[0]["training"] and key["rollouts"] == keys[0]["rollouts"] for key in keys)
    seeds = {cell._config().seed for cell in Size().cells()}
    assert keys[0]["rollouts"]["seed"] not in seeds


def test_smaller_data_are_the_first_demos_of_the_same_run():
    hashes = {cell.demos: cell._config().hash() for cell in Size().cells() if cell.task == "stack"}
    assert hashes[100] == hashes[300] == hashes[1000] != hashes[10]
    replayed = Cell("stack", SOURCE_DEMOS, Size())._config()
    assert (replayed.num_demos, replayed.max_attempts) == (SOURCE_DEMOS, SOURCE_DEMOS)
    assert replayed.generator["_target_"].endswith("ReplayGenerator")


def test_what_is_measured_is_not_measured_again():
    size = Size()
    cells = list(size.cells())
    rows = [row(cells[0]), row(cells[4])]
    assert missing(rows, size) == [cell for i, cell in enumerate(cells) if i not in (0, 4)]
    longer = replace(size, training=replace(size.training, steps=9))
    assert len(missing(rows, longer)) == 12
    assert not same(rows[0], cells[1])


def test_the_table_is_ordered_and_shows_each_policy(tmp_path):
    size = Size()
    rows = [row(cell) for cell in size.cells() if cell.task != "square"]
    lines = cli.table(rows).splitlines()[2:]
    assert [line.split("|")[2].strip() for line in lines[:4]] == [
        "10 source", "100 generated", "300 generated", "1,000 generated",
    ]  # fmt: skip
    assert "| 40.0 % | 30.0 to 50.0 % | 30, 50 | 104 |" in lines[0]
    draw(rows, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_the_committed_results_are_of_these_cells():
    rows = read_json(RESULTS / "policy_learning.json")["rows"]
    cells = list(Size().cells())
    assert rows
    for found in rows:
        assert any((found["task"], found["demos"]) == (cell.task, cell.demos) for cell in cells)
        assert sum(p["successes"] for p in found["policies"]) == pytest.approx(
            found["success_rate"] * sum(p["episodes"] for p in found["policies"])
        )
    assert (RESULTS / "policy_learning.md").read_text().count("\n| ") == len(rows) + 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_toy_size_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    command = ["--smoke", f"--out={tmp_path / 'out'}", f"--runs={tmp_path / 'runs'}"]
    assert cli.main(command) == 0
    file = tmp_path / "out" / "policy_learning.json"
    before = read_json(file)["rows"]
    assert [(r["task"], r["demos"], len(r["policies"])) for r in before] == [("pick", 10, 2), ("pick", 12, 2)]
    file.write_text(json.dumps({**read_json(file), "rows": before[:1]}))
    assert cli.main(command) == 0
    again = read_json(file)["rows"]
    assert again[0] == before[0]
    assert again[1]["policies"] == before[1]["policies"]
    assert missing(again, TOY) == []
    assert "| pick D0 | 12 generated |" in capsys.readouterr().out
