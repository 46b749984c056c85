import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.recorders.episode_rows import PREFIX, arrow_schema, episode_row, read_episode_metadata

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: _encodable(value))


def _encodable(value):
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def write(root, rows, columns=None):
    file = root / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"episode_index": range(len(rows)), "length": [4] * len(rows), "tasks": [["t"]] * len(rows)})
    for field in arrow_schema():
        values = [row[field.name.removeprefix(PREFIX)] for row in rows]
        table = table.append_column(field, pa.array(values, field.type))
    pq.write_table(table, file)


@given(
    attempt=st.integers(0, 2**40),
    seed=st.integers(-(2**63), 2**63 - 1),
    success=st.booleans(),
    reason=st.sampled_from(["success", "timeout", "error:ValueError"]),
    demos=st.lists(st.dictionaries(st.text("abc"), st.integers(0, 9), max_size=2), max_size=3),
    state=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6),
    metadata=st.dictionaries(st.text("abc"), json_values, max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_what_goes_in_comes_out(tmp_path_factory, attempt, seed, success, reason, demos, state, metadata):
    root = tmp_path_factory.mktemp("rows")
    outcome = Outcome(attempt, 3, seed, success, reason, 4, demos)
    episode = Episode(outcome, {}, "t", torch.tensor(state, dtype=torch.float64), metadata)
    write(root, [episode_row(episode), episode_row(replace(episode, metadata={}))])
    first, second = read_episode_metadata(root)
    restored = first.pop("initial_state")
    assert restored.dtype == torch.float64
    assert np.array_equal(restored.numpy().view(np.int64), np.array(state, dtype=np.float64).view(np.int64))
    assert first == {
        "episode_index": 0,
        "length": 4,
        "tasks": ["t"],
        "attempt": attempt,
        "seed": seed,
        "success": success,
        "reason": reason,
        "source_demos": demos,
        "metadata": metadata,
    }
    assert second["metadata"] == {}


def test_tensors_and_arrays_in_the_metadata_become_lists(make_episode):
    metadata = {"goal": torch.eye(2), "n": np.int64(3), "pair": (1, np.array([2.5])), "deep": {"a": [None, True]}}
    row = episode_row(make_episode(0, **metadata))
    assert json.loads(row["metadata"]) == {
        "goal": [[1.0, 0.0], [0.0, 1.0]],
        "n": 3,
        "pair": [1, [2.5]],
        "deep": {"a": [None, True]},
    }


def test_a_row_shares_nothing_with_its_episode(make_episode):
    episode = make_episode(0, notes=[1])
    row = episode_row(episode)
    before = dict(row)
    episode.metadata["notes"].append(2)
    episode.outcome.source_demos.clear()
    episode.outcome.success = False
    episode.initial_state.zero_()
    assert row == before
    assert json.loads(row["metadata"]) == {"notes": [1]}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"a": {"b": [1.0, float("nan")]}}, r"metadata\.a\.b\[1\]: nan is not finite"),
        ({"a": torch.tensor([float("inf")])}, r"metadata\.a\[0\]: inf is not finite"),
        ({"a": {1: 2}}, r"metadata\.a: the key 1 is not a string"),
        ({"a": object()}, r"metadata\.a: object cannot be kept"),
        ({"a": {1, 2}}, r"metadata\.a: set cannot be kept"),
    ],
)
def test_metadata_that_cannot_be_kept_is_named(make_episode, metadata, message):
    with pytest.raises(ValueError, match=message):
        episode_row(make_episode(0, **metadata))


def test_seeds_beyond_int64_and_states_that_are_not_finite_are_refused(make_episode):
    episode = make_episode(0)
    with pytest.raises(ValueError, match="initial_state: NaN"):
        episode_row(replace(episode, initial_state=torch.tensor([0.0, float("nan")])))
    episode.outcome.seed = 2**63
    with pytest.raises(ValueError, match="does not fit in int64"):
        episode_row(episode)


def test_folders_without_a_dataset_or_without_the_columns_are_named(tmp_path, make_episode):
    with pytest.raises(ConfigError, match="no LeRobot v3 dataset"):
        read_episode_metadata(tmp_path)
    write(tmp_path, [episode_row(make_episode(0))])
    file = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    pq.write_table(pq.read_table(file).drop([PREFIX + "seed"]), file)
    with pytest.raises(ConfigError, match="no column 'mimicpipe/seed'"):
        read_episode_metadata(tmp_path)
