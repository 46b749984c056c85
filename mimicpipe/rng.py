"""Counter-based random numbers: a value depends only on (key, stream, position), never on who asked before.

Attempt k of a run with seed s draws everything (scene, offsets, selection, noise) from the key `attempt_seeds(s, k)`:
the same attempt is the same episode in every slot and at every num_envs, and K attempts are drawn in one batched call.
The mixing function is SplitMix64's finalizer (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014, fig. 20), applied to an arithmetic sequence of counters, which is how that paper's generator itself runs.
Integer arithmetic makes the uniforms identical on every machine; the normals add one log, sqrt, sin and cos.
"""

import enum
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_I64 = npt.NDArray[np.int64]
Seeds = npt.NDArray[np.int64]


class Stream(enum.IntEnum):
    """What a random number is for; streams of one key are independent."""

    SCENE = 1
    OFFSETS = 2
    SELECTION = 3
    NOISE = 4
    EXPERT = 5
    COORDINATION = 6
    PERTURBATION = 7
    MOTION = 8
    POLICY = 9
    POSE_NOISE = 10


@compiled
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@compiled
def _word(seed: int, salt: np.uint64, position: np.uint64) -> np.uint64:
    """The hashed 64-bit word at one position of a seed's stream."""
    base = _mix(np.uint64(seed) * _GAMMA + salt)
    return _mix(base + (position + np.uint64(1)) * _GAMMA)


@compiled
def _fill_seeds(seed: int, attempts: _I64, out: _I64) -> None:
    base = _mix(np.uint64(seed) * _GAMMA + _MIX_2)
    for i in range(len(attempts)):
        out[i] = np.int64(_mix(base + (np.uint64(attempts[i]) + np.uint64(1)) * _GAMMA) >> np.uint64(1))


@compiled
def _fill_uniforms(seeds: _I64, stream: int, offset: _I64, out: npt.NDArray[np.float64]) -> None:
    salt = np.uint64(stream) * _MIX_1
    for k in range(len(seeds)):
        for i in range(out.shape[1]):
            word = _word(seeds[k], salt, np.uint64(offset[k]) + np.uint64(i))
            out[k, i] = np.float64(word >> np.uint64(11)) * 2.0**-53


@compiled
def _normal_pair(word: np.uint64) -> tuple[np.float32, np.float32]:
    # u1 in (0, 1]: log must not see zero.
    u1 = (np.float32(word >> np.uint64(40)) + np.float32(1.0)) * np.float32(2.0**-24)
    angle = np.float32(2.0 * np.pi) * (np.float32(word & np.uint64(0xFFFFFF)) * np.float32(2.0**-24))
    radius = np.sqrt(np.float32(-2.0) * np.log(u1))
    return radius * np.cos(angle), radius * np.sin(angle)


@compiled
def _fill_normals(counts: _I64, seeds: _I64, stream: int, offset: _I64, out: npt.NDArray[np.float32]) -> None:
    salt = np.uint64(stream) * _MIX_1
    for k in range(len(seeds)):
        count = counts[k]
        for i in range((count + 1) // 2):
            word = _word(seeds[k], salt, np.uint64(offset[k] // 2) + np.uint64(i))
            out[k, 2 * i], second = _normal_pair(word)
            if 2 * i + 1 < count:
                out[k, 2 * i + 1] = second


def _filled[T: np.generic](
    fill: Callable[[_I64, int, _I64, npt.NDArray[T]], None],
    seeds: npt.ArrayLike, stream: int, count: int, offset: npt.ArrayLike, dtype: type[T],
) -> npt.NDArray[T]:  # fmt: skip
    """(*K, count) values at positions offset .. offset + count of each seed's stream; offset () or (*K,)."""
    keys = np.atleast_1d(np.asarray(seeds, dtype=np.int64))
    out = np.empty((keys.size, count), dtype=dtype)
    fill(np.ascontiguousarray(keys).ravel(), int(stream), _for_each(offset, keys.shape), out)
    return out.reshape(*keys.shape, count)


def _for_each(values: npt.ArrayLike, shape: tuple[int, ...]) -> _I64:
    """One for all, or (*K,), as a flat array of a value each."""
    out = np.empty(shape, dtype=np.int64)  # numpy.broadcast_to costs more than the numbers here
    out[...] = values
    return out.ravel()


def attempt_seeds(seed: int, attempts: npt.ArrayLike) -> Seeds:
    """Seeds of the attempts of one run.

    Args:
        seed: the run's seed, 0 <= seed < 2**63.
        attempts: attempt indices, any shape.

    Returns:
        int64 seeds in [0, 2**63), same shape: the keys of every other function here, also written to attempts.jsonl.
    """
    numbers = np.asarray(attempts, dtype=np.int64)
    out = np.empty(numbers.size, dtype=np.int64)
    _fill_seeds(seed, np.ascontiguousarray(numbers.reshape(-1)), out)
    return out.reshape(numbers.shape)


def uniforms(seeds: npt.ArrayLike, stream: int, count: int, offset: npt.ArrayLike = 0) -> npt.NDArray[np.float64]:
    """(K, count) float64 uniforms in [0, 1) with 53 bits.

    Args:
        seeds: (K,) seeds from `attempt_seeds`; a single one counts as K = 1.
        stream: a `Stream`.
        count: values per seed.
        offset: position of the first value in the stream, one for all or (K,) (disjoint ranges are independent).
    """
    return _filled(_fill_uniforms, seeds, stream, count, offset, np.float64)


def integers(
    seeds: npt.ArrayLike, stream: int, count: int, low: int, high: int, offset: int = 0
) -> npt.NDArray[np.int64]:
    """(K, count) integers in [low, high], both ends included."""
    span = high - low + 1
    if span < 1:
        raise ValueError(f"empty range [{low}, {high}]")
    return low + np.minimum((uniforms(seeds, stream, count, offset) * span).astype(np.int64), span - 1)


def normals(
    seeds: npt.ArrayLike, stream: int, count: int, offset: npt.ArrayLike = 0, wanted: npt.ArrayLike | None = None
) -> npt.NDArray[np.float32]:
    """(K, count) standard normals, float32, by Box and Muller's transform (1958); two per 64-bit word.

    `offset`, one for all or (K,), counts values and must be even, so that a range does not split a pair. Of each seed's
    values only the first `wanted` (K,) are drawn, at most `count` (None: all); what stands behind them means nothing.
    """
    if np.any(np.asarray(offset) % 2):
        raise ValueError(f"offset must be even, got {offset}")
    counts = _for_each(count if wanted is None else wanted, (np.size(seeds),))
    return _filled(partial(_fill_normals, counts), seeds, stream, count, offset, np.float32)
