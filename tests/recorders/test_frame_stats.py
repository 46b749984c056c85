import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.recorders.frame_stats import QUANTILES, numeric_stats


def write_columns(folder, parts):
    files = []
    for number, part in enumerate(parts):
        arrays = {}
        for name, values in part.items():
            flat = pa.array(values.reshape(-1))
            arrays[name] = flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        files.append(folder / f"file-{number:03d}.parquet")
        pq.write_table(pa.table(arrays), files[-1])
    return files


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=3), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_statistics_are_those_of_all_frames(tmp_path_factory, lengths, seed):
    rng = np.random.default_rng(seed)
    parts = [
        {
            "vector": (1e4 + rng.standard_normal((n, 3))).astype(np.float32),
            "scalar": rng.integers(-50, 50, n),
            "flag": rng.random(n) > 0.3,
        }
        for n in lengths
    ]
    stats = numeric_stats(write_columns(tmp_path_factory.mktemp("stats"), parts), ["vector", "scalar", "flag"])
    for name in parts[0]:
        values = np.concatenate([part[name] for part in parts]).astype(np.float64).reshape(sum(lengths), -1)
        assert stats[name]["count"].tolist() == [sum(lengths)]
        for statistic, expected in {
            "min": values.min(0),
            "max": values.max(0),
            "mean": values.mean(0),
            "std": values.std(0),
            **{key: np.quantile(values, q, axis=0) for key, q in QUANTILES.items()},
        }.items():
            np.testing.assert_allclose(stats[name][statistic], expected, rtol=1e-12, atol=1e-12)
            assert stats[name][statistic].shape == (values.shape[1],)


def test_a_small_spread_around_a_large_value_keeps_its_digits(tmp_path):
    values = (1000.0 + np.linspace(-1e-2, 1e-2, 101)).astype(np.float32)
    (file,) = write_columns(tmp_path, [{"joint": values}])
    stats = numeric_stats([file], ["joint"])["joint"]
    assert abs(stats["std"][0] - values.astype(np.float64).std()) < 1e-12
