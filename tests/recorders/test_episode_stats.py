"""Statistics against LeRobot's own functions, and against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.recorders.camera_encoder import count_pixels, sample_of
from mimicpipe.recorders.episode_stats import STATISTICS, episode_stats
from mimicpipe.recorders.frame_stats import QUANTILES
from mimicpipe.recorders.pixel_stats import CameraSum, pixel_stats
from mimicpipe.recorders.pixel_sums import mean_and_std
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


def pixels_of(kind, seed, shape):
    """(S, H, W, 3) uint8: noise, a few values, one value, or a smooth picture."""
    rng = np.random.default_rng(seed)
    if kind == "smooth":
        ramp = np.linspace(30, 220, shape[2])[:, None] + rng.uniform(-9, 9, (shape[0], 1, 1, 3))
        return np.broadcast_to(ramp, shape).astype(np.uint8)
    low, high = {"noise": (0, 256), "few": (100, 104), "one": (77, 78), "black": (0, 1)}[kind]
    return rng.integers(low, high, shape).astype(np.uint8)


@settings(deadline=None, max_examples=25)
@given(
    kind=st.sampled_from(["noise", "few", "one", "black", "smooth"]),
    seed=st.integers(0, 2**32),
    # The sums of the larger ones are beyond what float32 can hold exactly.
    shape=st.sampled_from([(1, 16, 17, 3), (4, 40, 30, 3), (30, 64, 64, 3)]),
)
def test_those_of_pixels_are_lerobots_to_the_bit(kind, seed, shape):
    from lerobot.datasets.compute_stats import get_feature_stats

    frames = pixels_of(kind, seed, shape)
    # Its images are channels first in memory, which decides in what order numpy sums those of a single frame.
    images = np.ascontiguousarray(frames.transpose(0, 3, 1, 2))
    expected = get_feature_stats(images, axis=(0, 2, 3), keepdims=True)
    rows = pixel_stats(count_pixels(frames), mean_and_std(frames))
    for row, key in zip(rows, STATISTICS, strict=True):
        theirs = np.asarray(expected[key] / 255.0).reshape(3)
        if key in QUANTILES:
            np.testing.assert_allclose(row, theirs, rtol=1e-7, atol=1e-12)  # where all are the lowest, in float32
        else:
            assert np.array_equal(row, theirs), key


@pytest.mark.parametrize(("height", "width", "length"), [(20, 30, 7), (20, 30, 300), (320, 200, 3), (310, 400, 101)])
def test_the_frames_and_pixels_are_those_that_lerobot_samples(tmp_path, height, width, length):
    from lerobot.datasets.compute_stats import sample_images
    from PIL import Image

    frames = np.random.default_rng(length).integers(0, 256, (length, height, width, 3)).astype(np.uint8)
    paths = [str(tmp_path / f"{i}.bmp") for i in range(length)]
    for path, frame in zip(paths, frames, strict=True):
        Image.fromarray(frame).save(path)
    assert np.array_equal(sample_of(frames).transpose(0, 3, 1, 2), sample_images(paths))


def camera(frames, sampled, known=True):
    counts = count_pixels(frames)
    return EncodedCamera([], pixel_stats(counts, mean_and_std(frames)), sampled, counts if known else None)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), tops=st.lists(st.integers(1, 256), min_size=1, max_size=4))
def test_a_cameras_are_lerobots_but_for_quantiles_which_are_those_of_all_pixels(seed, tops):
    from lerobot.datasets.compute_stats import aggregate_stats

    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, top, (3 + top % 5, 16, 16, 3)).astype(np.uint8) for top in tops]
    known, unknown, episodes = CameraSum(), CameraSum(), []
    for frames in parts:
        known.add(camera(frames, len(frames)))
        unknown.add(camera(frames, len(frames), known=False))
        rows = camera(frames, len(frames)).stats.reshape(-1, 3, 1, 1)
        episodes.append({"image": {**dict(zip(STATISTICS, rows, strict=True)), "count": np.array([len(frames)])}})
    expected = aggregate_stats(episodes)["image"]
    pixels = np.concatenate([frames.reshape(-1, 3) for frames in parts]) / 255.0
    for key, value in known.stats().items():
        np.testing.assert_allclose(unknown.stats()[key], expected[key], rtol=0, atol=1e-12)
        wanted = np.quantile(pixels, QUANTILES[key], axis=0).reshape(3, 1, 1) if key in QUANTILES else expected[key]
        np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-12, err_msg=key)


def test_the_sums_are_as_wrong_as_lerobots_and_no_more_than_the_design_says():
    """docs/design.md tells how far from the truth LeRobot's statistics of a camera are."""
    frames = pixels_of("smooth", 0, (100, 128, 128, 3))
    mean, std = mean_and_std(frames)
    values = frames.reshape(-1, 3) / 255.0
    off = max(np.abs(mean - values.mean(axis=0)).max(), np.abs(std - values.std(axis=0)).max())
    assert 1e-4 < off < 5e-3
