"""mimicpipe.rng: a value depends on (key, stream, position) alone, and the values look random."""

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import rng
from mimicpipe.rng import Stream

SEEDS = st.integers(0, 2**63 - 1)
FAST = settings(deadline=None, max_examples=100)
DRAWS = {
    "uniforms": lambda keys, count, offset: rng.uniforms(keys, Stream.NOISE, count, offset),
    "normals": lambda keys, count, offset: rng.normals(keys, Stream.NOISE, count, offset),
    "integers": lambda keys, count, offset: rng.integers(keys, Stream.NOISE, count, -3, 17, offset),
}

PINNED_KEYS = [2361914194345833045, 4351202191640979899]
PINNED_UNIFORMS = [[0.5316322535593454, 0.7042531619618547], [0.09658021150075724, 0.5951297610723395]]
PINNED_INTEGERS = [[6, 1, 5, 7, 3, 5], [8, 8, 0, 7, 9, 8]]
PINNED_NORMALS = [[2.0949149, 0.9548843], [0.5968927, 1.4514409]]


# --- what a value depends on ------------------------------------------------------------------------------------------


@FAST
@given(SEEDS, st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_an_attempts_seed_does_not_depend_on_the_others(seed, attempts):
    together = rng.attempt_seeds(seed, attempts)
    assert together.dtype == np.int64
    assert together.tolist() == [int(rng.attempt_seeds(seed, k)) for k in attempts]
    assert (together >= 0).all()
    assert np.array_equal(rng.attempt_seeds(seed, np.asarray(attempts).reshape(-1, 1)), together[:, None])


@pytest.mark.parametrize("name", DRAWS)
def test_bits_do_not_depend_on_the_batch(name):
    draw = DRAWS[name]
    keys = rng.attempt_seeds(3, np.arange(70))
    for count in (1, 2, 3, 6, 7, 33):
        alone = np.concatenate([draw(keys[i : i + 1], count, 4) for i in range(70)])
        assert np.array_equal(alone[5:6], draw(keys[5], count, 4))
        assert np.array_equal(alone[5:6], draw(int(keys[5]), count, 4))
        for size in range(1, 71):
            for start in (0, size % 7, 70 - size):
                got = draw(keys[start : start + size], count, 4)
                assert np.array_equal(got, alone[start : start + size]), f"{count=} {size=} {start=}"
        assert np.array_equal(draw(keys[::3], count, 4), alone[::3])
        assert np.array_equal(draw(keys[::-1], count, 4), alone[::-1])
        assert np.array_equal(draw(np.asfortranarray(keys.reshape(7, 10)), count, 4), alone.reshape(7, 10, count))
        assert np.array_equal(draw(keys.tolist(), count, 4), alone)


@pytest.mark.parametrize("name", DRAWS)
@FAST
@given(data=st.data())
def test_a_range_is_the_same_values_however_it_is_cut(name, data):
    draw, key = DRAWS[name], rng.attempt_seeds(data.draw(SEEDS), [data.draw(st.integers(0, 10**6))])
    # Normals come in pairs, which a range must not split at its start.
    cuts = data.draw(st.lists(st.integers(0, 60).map(lambda n: 2 * n), max_size=5).map(sorted))
    base = data.draw(st.integers(0, 2**50).map(lambda n: 2 * n))
    whole = draw(key, 121, base)
    bounds = [0, *cuts, 121]
    parts = [draw(key, end - start, base + start) for start, end in itertools.pairwise(bounds)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("name", ["uniforms", "normals"])
@FAST
@given(data=st.data())
def test_offsets_of_rows_are_as_if_each_row_were_alone(name, data):
    keys = rng.attempt_seeds(0, np.arange(9))
    offsets = 2 * np.array(data.draw(st.lists(st.integers(0, 2**55), min_size=9, max_size=9)))
    together = DRAWS[name](keys, 5, offsets)
    alone = [DRAWS[name](keys[i], 5, int(offsets[i])) for i in range(9)]
    assert np.array_equal(together, np.concatenate(alone))


def test_values_are_pinned():
    """A change of these makes every seed of every user another dataset."""
    keys = rng.attempt_seeds(0, [0, 1])
    assert keys.tolist() == PINNED_KEYS
    assert rng.uniforms(keys, Stream.SCENE, 2).tolist() == PINNED_UNIFORMS
    assert rng.integers(keys, Stream.SELECTION, 6, 0, 9).tolist() == PINNED_INTEGERS
    np.testing.assert_allclose(rng.normals(keys, Stream.NOISE, 2), PINNED_NORMALS, rtol=2e-6)


def test_nothing_warns_and_another_process_draws_the_same():
    code = (
        "from mimicpipe import rng; k = rng.attempt_seeds(2**63 - 1, 2**62);"
        "print(int(k), rng.uniforms(k, 6, 2, 2**62).tolist(), rng.normals([k], 4, 3).tobytes().hex())"
    )
    run = [sys.executable, "-W", "error", "-c", code]
    printed = [
        subprocess.run(run, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": h}).stdout
        for h in "12"
    ]
    assert printed[0] == printed[1]
    key = rng.attempt_seeds(2**63 - 1, 2**62)
    assert printed[0].startswith(f"{int(key)} {rng.uniforms(key, 6, 2, 2**62).tolist()} ")


# --- how the values are distributed -----------------------------------------------------------------------------------

KEYS = rng.attempt_seeds(12345, np.arange(1000))
N = 1000
"""Values per key: a million in all, of one fixed seed, so that the bounds below either hold or do not."""


def deviation_from_uniform(values: np.ndarray) -> float:
    """Kolmogorov and Smirnov's statistic, times sqrt(n); above 1.95 with probability 0.001."""
    ordered = np.sort(values.ravel())
    n = ordered.size
    steps = np.arange(1, n + 1) / n
    return math.sqrt(n) * float(np.maximum(steps - ordered, ordered - steps + 1 / n).max())


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's, in standard deviations of what independent values would give."""
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) * math.sqrt(a.size)


@pytest.mark.parametrize("stream", Stream)
def test_uniforms_are_uniform_along_and_across_keys(stream):
    u = rng.uniforms(KEYS, stream, N)
    assert u.dtype == np.float64
    assert 0 <= u.min() < 1e-5
    assert 1 - 1e-5 < u.max() < 1
    assert deviation_from_uniform(u) < 1.95
    assert deviation_from_uniform(u[:, 0]) < 1.95  # the first value of a thousand attempts
    assert deviation_from_uniform(u[0]) < 1.95
    assert len(np.unique(u)) == u.size
    assert abs(correlation(u[:, :-1], u[:, 1:])) < 4
    assert abs(correlation(u[:-1], u[1:])) < 4
    pairs, _, _ = np.histogram2d(u[:, ::2].ravel(), u[:, 1::2].ravel(), bins=32)
    expected = u.size / 2 / 1024
    chi2 = float(((pairs - expected) ** 2 / expected).sum())
    assert abs(chi2 - 1023) < 4 * math.sqrt(2 * 1023)


def test_uniforms_have_53_random_bits():
    words = (rng.uniforms(KEYS, Stream.SCENE, N) * 2.0**53).astype(np.uint64).ravel()
    for bit in range(53):
        ones = int((words >> np.uint64(bit) & np.uint64(1)).sum())
        assert abs(ones - words.size / 2) < 4.5 * math.sqrt(words.size / 4), f"bit {bit}"


def test_streams_and_runs_are_independent():
    drawn = [rng.uniforms(KEYS, stream, N) for stream in Stream]
    drawn.append(rng.uniforms(rng.attempt_seeds(12346, np.arange(1000)), Stream.SCENE, N))
    for a, b in itertools.combinations(drawn, 2):
        assert abs(correlation(a, b)) < 4
    some = np.concatenate([d[:, :200] for d in drawn])
    assert len(np.unique(some)) == some.size


def test_keys_of_runs_and_attempts_are_distinct():
    keys = np.concatenate([rng.attempt_seeds(seed, np.arange(50_000)) for seed in (*range(8), 2**62, 2**63 - 1)])
    assert len(np.unique(keys)) == keys.size
    assert deviation_from_uniform(keys / 2.0**63) < 1.95


@FAST
@given(SEEDS, st.integers(0, 62), st.integers(0, 10**6))
def test_one_bit_of_the_seed_changes_half_of_the_keys(seed, bit, attempt):
    attempts = np.arange(attempt, attempt + 64)
    changed = rng.attempt_seeds(seed, attempts) ^ rng.attempt_seeds(seed ^ 1 << bit, attempts)
    share = sum(int(c).bit_count() for c in changed) / (64 * 63)
    assert abs(share - 0.5) < 6 * 0.5 / math.sqrt(64 * 63)


def test_normals_are_normal():
    x = rng.normals(KEYS, Stream.NOISE, N)
    assert x.dtype == np.float32
    assert bool(np.isfinite(x).all())
    n = x.size
    wide = x.astype(np.float64)
    assert abs(wide.mean()) < 4 / math.sqrt(n)
    assert abs(wide.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs((wide**3).mean()) < 4 * math.sqrt(15 / n)
    assert abs((wide**4).mean() - 3) < 4 * math.sqrt(96 / n)
    cdf = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in wide[::10].ravel()])
    assert deviation_from_uniform(cdf) < 1.95
    assert abs(correlation(x[:, ::2], x[:, 1::2])) < 4  # the two of a pair
    assert abs(correlation(x[:, ::2] ** 2, x[:, 1::2] ** 2)) < 4
    assert abs(correlation(x[:-1], x[1:])) < 4
    assert 4 < np.abs(x).max() < 6


@pytest.mark.parametrize(("word", "radius"), [(0, math.sqrt(48 * math.log(2))), (2**64 - 1, 0.0)])
def test_normals_stay_finite_at_the_ends_of_a_word(word, radius):
    """The smallest and the largest 64-bit word, which no seed is known to give."""
    assert math.hypot(*rng._normal_pair(np.uint64(word))) == pytest.approx(radius, abs=1e-6)


@FAST
@given(st.integers(-(2**40), 2**40), st.integers(0, 2**50), SEEDS)
def test_integers_stay_in_their_range(low, span, seed):
    drawn = rng.integers([seed], Stream.SELECTION, 50, low, low + span)
    assert drawn.dtype == np.int64
    assert low <= drawn.min() <= drawn.max() <= low + span


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-2, 4), (5, 14), (0, 99)])
def test_integers_are_equally_likely_with_both_ends(low, high):
    drawn = rng.integers(KEYS, Stream.OFFSETS, 100, low, high)
    kinds = high - low + 1
    counts = np.bincount(drawn.ravel() - low, minlength=kinds)
    assert len(counts) == kinds
    expected = drawn.size / kinds
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    assert chi2 < kinds - 1 + 4 * math.sqrt(2 * kinds)


def test_one_integer_and_no_values():
    assert (rng.integers(KEYS, Stream.OFFSETS, 5, 7, 7) == 7).all()
    assert rng.uniforms(KEYS, Stream.SCENE, 0).shape == (1000, 0)
    assert rng.normals(KEYS, Stream.SCENE, 0).shape == (1000, 0)
    assert rng.uniforms(KEYS[:0], Stream.SCENE, 3).shape == (0, 3)


def test_wrong_ranges_are_refused():
    with pytest.raises(ValueError, match="offset must be even, got 3"):
        rng.normals(KEYS, Stream.NOISE, 2, offset=3)
    with pytest.raises(ValueError, match="offset must be even"):
        rng.normals(KEYS[:2], Stream.NOISE, 2, offset=[2, 3])
    with pytest.raises(ValueError, match=r"empty range \[3, 2\]"):
        rng.integers(KEYS, Stream.OFFSETS, 1, 3, 2)


def test_of_each_seeds_normals_only_so_many_are_drawn():
    whole = rng.normals(KEYS[:4], Stream.NOISE, 7)
    some = rng.normals(KEYS[:4], Stream.NOISE, 7, wanted=[7, 0, 3, 4])
    for row, wanted in enumerate([7, 0, 3, 4]):
        np.testing.assert_array_equal(some[row, :wanted], whole[row, :wanted])
