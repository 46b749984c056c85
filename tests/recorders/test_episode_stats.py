"""Statistics against LeRobot's own functions, and against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.recorders.episode_stats import STATISTICS, episode_stats
from mimicpipe.recorders.frame_stats import QUANTILES
from mimicpipe.recorders.pixel_stats import CameraSum, pixel_stats
from mimicpipe.recorders.staged import EncodedCamera

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)


def columns_of(seed, length, scale, offset):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((length, 3)) * scale + offset
    return {
        "float32": normal.astype(np.float32),
        "float64": normal,
        "alone": normal[:, 0].astype(np.float32),
        "bool": rng.random(length) > 0.5,
        "int64": rng.integers(-(2**62), 2**62, (length, 2)),
        "uint8": rng.integers(0, 256, (length, 2)).astype(np.uint8),
        "constant": np.full((length, 2), offset, np.float32),
        "rounded": np.round(normal, 1).astype(np.float32),
        "gripper": np.where(rng.random(length) > 0.5, 1, -1).astype(np.float32),
        "timestamp": np.arange(length) / 20,
        "index": np.arange(length) + 10**8,
    }


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    length=st.sampled_from([1, 2, 3, 7, 100, 125, 300]),
    scale=st.sampled_from([1e-12, 1e-5, 0.1, 1.0, 1e6]),
    offset=st.sampled_from([0.0, 1.0, -0.3, 1e6]),
)
def test_they_are_lerobots_to_the_bit(seed, length, scale, offset):
    from lerobot.datasets.compute_stats import compute_episode_stats

    columns = columns_of(seed, length, scale, offset)
    features = {name: {"dtype": str(c.dtype), "shape": c.shape[1:] or (1,)} for name, c in columns.items()}
    expected = compute_episode_stats(columns, features)
    for name, rows in episode_stats(columns).items():
        for row, key in zip(rows, STATISTICS, strict=True):
            assert np.array_equal(row, np.asarray(expected[name][key], np.float64).reshape(-1)), (name, key)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 50), levels=st.integers(1, 256))
def test_those_of_pixels_are_exact(seed, size, levels):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, levels, (3, size))
    counts = np.stack([np.bincount(channel, minlength=256) for channel in pixels])
    values = pixels / 255.0
    rows = pixel_stats(counts)
    expected = [values.min(1), values.max(1), values.mean(1), values.std(1)]
    expected += list(np.quantile(values, list(QUANTILES.values()), axis=1))
    np.testing.assert_allclose(rows, np.stack(expected), rtol=0, atol=1e-12)


def test_a_cameras_sum_is_that_of_all_pixels_or_lerobots_average():
    from lerobot.datasets.compute_stats import aggregate_stats

    rng = np.random.default_rng(0)
    parts = [np.stack([np.bincount(rng.integers(0, top, 500), minlength=256) for _ in range(3)]) for top in (90, 250)]
    known, unknown = CameraSum(), CameraSum()
    for counts, sampled in zip(parts, (3, 5), strict=True):
        known.add(EncodedCamera([], pixel_stats(counts), sampled, counts))
        unknown.add(EncodedCamera([], pixel_stats(counts), sampled))
    assert np.array_equal(known.stats()["q50"].reshape(3), pixel_stats(parts[0] + parts[1])[STATISTICS.index("q50")])
    assert known.stats()["count"].tolist() == [8]
    episodes = []
    for counts, sampled in zip(parts, (3, 5), strict=True):
        rows = pixel_stats(counts).reshape(-1, 3, 1, 1)
        episodes.append({"image": {**dict(zip(STATISTICS, rows, strict=True)), "count": np.array([sampled])}})
    expected = aggregate_stats(episodes)["image"]
    for key, value in unknown.stats().items():
        np.testing.assert_allclose(value, expected[key], atol=1e-12)
