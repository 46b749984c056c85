"""experiments/ablations at a toy size."""

import hydra.version
import pytest

from experiments.ablations import __main__ as entry
from experiments.ablations.cells import BASE, CELLS, SETTINGS, Cell
from experiments.ablations.plot import RESULTS, draw
from experiments.harness import compose, read_json


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


def test_a_setting_changes_what_it_says_and_nothing_else():
    base = compose(*Cell(BASE, "stack", "D0").overrides()).to_dict()
    assert base["num_demos"] == base["max_attempts"] == 150
    same = []
    for setting in SETTINGS:
        cell = Cell(setting, "stack", "D0")
        config = compose(*cell.overrides()).to_dict()
        changed = {group for group in base if base[group] != config[group]} - {"dataset"}
        group = {"source demos": "pool", "error of objects' poses": "generator"}.get(setting.factor, "task")
        assert changed <= {group}, setting
        if not changed:
            same.append((setting.factor, setting.value))
    assert same == [
        (BASE.factor, BASE.value),
        ("a source demo for each", "subtask"),
        ("source demos", "10"),
        ("interpolation steps", "5"),
        ("action noise", "0.03"),
        ("offset of the segment's end", "10 to 20"),
        ("error of objects' poses", "0 mm, 0°"),
    ]


@pytest.mark.slow
def test_what_is_known_is_not_measured_again(tmp_path, monkeypatch):
    base, one = (next(c for c in CELLS if c.setting.value == value) for value in (BASE.value, "1"))
    file = tmp_path / "ablations.json"
    monkeypatch.setattr(entry, "source_hash", lambda: "these")
    first = entry.measure([base], 2, file)
    (row,) = first["rows"]
    assert (row["attempts"], row["task"], row["variant"], row["factor"]) == (2, "pick", "D0", BASE.factor)
    assert row["successes"] + sum(row["failures"].values()) == 2
    both = entry.measure([base, one], 2, file)
    assert both["rows"][0] == row
    assert [r["value"] for r in both["rows"]] == [BASE.value, "1"]

    def never(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(Cell, "measure", never)
    assert entry.measure([base, one], 2, file)["rows"] == both["rows"]
    monkeypatch.setattr(entry, "source_hash", lambda: "others")
    with pytest.raises(AssertionError, match="measured again"):
        entry.measure([base, one], 2, file)
    assert read_json(file)["rows"] == both["rows"]  # what was measured with other sources stays
    assert "| as configured | – | 100 (34–100) | – |" in entry.render(both)
    draw(both["rows"], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_the_committed_page_is_that_of_the_committed_figures():
    results = read_json(RESULTS / "ablations.json")
    assert len(results["rows"]) == len(CELLS)
    assert {row["attempts"] for row in results["rows"]} == {150}
    assert (RESULTS / "ablations.md").read_text() == entry.render(results)
