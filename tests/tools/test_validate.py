import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mimicpipe.tools import validate
from mimicpipe.tools.column_values import ColumnSummary, column_values


@pytest.fixture
def run(recorded_run, tmp_path):
    return shutil.copytree(recorded_run, tmp_path / "run")


def checked(root, capsys, *flags):
    code = validate.main([str(root), *flags])
    lines = capsys.readouterr().out.splitlines()
    return code, {line[6:].split()[0]: line for line in lines}


def change_info(root, **changes):
    path = root / "meta" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_column(root, name, change):
    """Write the one data file again with another column."""
    path = next((root / "data").glob("*/*.parquet"))
    table = pq.read_table(path)
    rows = np.array(table[name].to_pylist())
    change(rows)
    column = pa.array(rows.tolist(), table.schema.field(name).type)
    pq.write_table(table.set_column(table.schema.get_field_index(name), table.schema.field(name), column), path)


def test_a_dataset_of_ours_passes(run, capsys):
    code, lines = checked(run / "dataset", capsys)
    assert code == 0
    assert list(lines) == ["structure", "counts", "shapes", "timestamps", "finite", "stats", "videos", "replay",
                           "observations"]  # fmt: skip
    assert all(line.startswith("ok ") for line in lines.values())
    assert "4 episodes played again, each to the end that was recorded" in lines["replay"]
    assert "largest difference 0.0e+00" in lines["observations"]


def test_without_its_run_nothing_is_replayed(run, tmp_path, capsys):
    root = shutil.copytree(run / "dataset", tmp_path / "elsewhere")
    code, lines = checked(root, capsys)
    assert (code, "name it with --run" in lines["replay"]) == (0, True)
    code, lines = checked(root, capsys, "--run", str(run), "--replay", "2")
    assert (code, "2 episodes played again" in lines["replay"]) == (0, True)


@given(arrays(np.float64, (5, 6), elements=st.floats(-1e3, 1e3)))
def test_rows_of_arrays_are_summarized_as_frames_of_their_own(values):
    whole, rows = ColumnSummary(), ColumnSummary()
    whole.add(values)
    rows.add(values.reshape(-1, 3))
    again = whole.of_rows(3)
    assert (again.rows, again.width) == (rows.rows, rows.width)
    for key in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(getattr(again, key), getattr(rows, key), rtol=1e-12, atol=1e-9)


def wrong_action(rows):
    rows[3, 0] += 0.5


def damage_number(rows):
    rows[3] = np.nan


def late(rows):
    rows[7] += 0.01


def renumbered(rows):
    rows[2] = 7


@pytest.mark.parametrize(
    ("name", "change", "check", "words"),
    [
        ("observation.state", damage_number, "finite", "NaN or infinite"),
        ("timestamp", late, "timestamps", "row 7 is 0.0100 s off"),
        ("frame_index", renumbered, "timestamps", "frame_index of row 2 is 7"),
        ("action", wrong_action, "stats", "action: "),
        ("task_index", renumbered, "counts", "task_index outside 0 .. 0"),
    ],
)
def test_damage_is_found(run, capsys, name, change, check, words):
    change_column(run / "dataset", name, change)
    code, lines = checked(run / "dataset", capsys)
    assert code == 1
    assert lines[check].startswith("FAIL")
    assert words in lines[check]
    assert "replay" not in lines


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"total_frames": 3}, "counts", "3 frames in info.json"),
        ({"total_episodes": 3}, "counts", "5 episodes, 3 in info.json"),
        ({"codebase_version": "v2.1"}, "structure", "codebase_version is v2.1"),
        ({"fps": 21}, "timestamps", "off the grid of 21 Hz"),
    ],
)
def test_info_that_is_not_so_is_found(run, capsys, changes, check, words):
    change_info(run / "dataset", **changes)
    code, lines = checked(run / "dataset", capsys)
    assert code == 1
    assert lines[check].startswith("FAIL")
    assert words in lines[check]


def test_observations_that_the_actions_do_not_lead_to_are_found(run, capsys):
    root = run / "dataset"

    def shift(rows):
        rows[20] = rows[20] + np.float32(0.001)

    change_column(root, "observation.eef_pose", shift)
    stats = json.loads((root / "meta" / "stats.json").read_text())
    rows = np.array(pq.read_table(next((root / "data").glob("*/*.parquet")))["observation.eef_pose"].to_pylist())
    stats["observation.eef_pose"] |= {
        "min": rows.min(0).tolist(), "max": rows.max(0).tolist(), "mean": rows.mean(0).tolist(),
        "std": rows.std(0).tolist(),
    }  # fmt: skip
    (root / "meta" / "stats.json").write_text(json.dumps(stats))
    code, lines = checked(root, capsys)
    assert code == 1
    assert lines["replay"].startswith("ok")
    assert "observation.eef_pose in frame 20 of episode 0" in lines["observations"]


def test_no_dataset_is_one_line(tmp_path, capsys):
    assert validate.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@settings(deadline=None, max_examples=60)
@given(arrays(np.float32, st.tuples(st.integers(2, 40), st.integers(1, 4)), elements=st.floats(-1e3, 1e3, width=32)),
       st.integers(1, 39))  # fmt: skip
def test_a_summary_in_parts_is_that_of_the_whole(values, cut):
    cut = min(cut, len(values) - 1)
    summary = ColumnSummary()
    summary.add(values[:cut])
    summary.add(values[cut:])
    whole = values.astype(np.float64)
    assert summary.rows == len(values)
    for name in ("min", "max", "mean", "std"):
        assert getattr(summary, name) == pytest.approx(getattr(whole, name)(axis=0), rel=1e-9, abs=1e-6)


def test_columns_of_any_shape_are_rows_of_numbers():
    matrix = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    for kind in (pa.list_(pa.list_(pa.float32())), pa.list_(pa.list_(pa.float32(), 2), 2)):
        found = column_values(pa.array(matrix, kind))
        assert found is not None
        assert found.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert column_values(pa.array(["a", "b"])) is None
    flags = column_values(pa.array([True, False]))
    assert flags is not None
    assert flags.tolist() == [[1], [0]]
