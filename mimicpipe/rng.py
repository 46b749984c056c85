"""Counter-based random numbers: a value depends only on (key, stream, position), never on who asked before.

Attempt k of a run with seed s draws everything (scene, offsets, selection, noise) from the key `attempt_seeds(s, k)`:
the same attempt is the same episode in every slot and at every num_envs, and K attempts are drawn in one batched call.
The mixing function is SplitMix64's finalizer (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014, fig. 20), applied to an arithmetic sequence of counters, which is how that paper's generator itself runs.
Integer arithmetic makes the uniforms identical on every machine; the normals add one log, sqrt, sin and cos.
"""

import enum

import numpy as np
import numpy.typing as npt

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U64 = npt.NDArray[np.uint64]
Seeds = npt.NDArray[np.int64]


class Stream(enum.IntEnum):
    """What a random number is for; streams of one key are independent."""

    SCENE = 1
    OFFSETS = 2
    SELECTION = 3
    NOISE = 4
    EXPERT = 5


def _mix(z: _U64) -> _U64:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def attempt_seeds(seed: int, attempts: npt.ArrayLike) -> Seeds:
    """Seeds of the attempts of one run.

    Args:
        seed: the run's seed, 0 <= seed < 2**63.
        attempts: attempt indices, any shape.

    Returns:
        int64 seeds in [0, 2**63), same shape: the keys of every other function here, also written to attempts.jsonl.
    """
    base = _mix(np.asarray([seed], dtype=np.uint64) * _GAMMA + _MIX_2)[0]
    with np.errstate(over="ignore"):  # numpy warns of wrap-around for 0-d input only
        keys = _mix(base + (np.asarray(attempts, dtype=np.uint64) + np.uint64(1)) * _GAMMA)
    return (keys >> np.uint64(1)).astype(np.int64)


def _bits(seeds: npt.ArrayLike, stream: int, count: int, offset: npt.ArrayLike) -> _U64:
    """(K, count) hashed 64-bit words at positions offset .. offset + count of each seed's stream; offset () or (K,)."""
    salt = np.asarray([stream], dtype=np.uint64) * _MIX_1
    base = _mix(np.asarray(seeds).astype(np.uint64) * _GAMMA + salt)
    first = np.asarray(offset).astype(np.uint64)[..., None]
    counters = (first + np.arange(1, count + 1, dtype=np.uint64)) * _GAMMA
    return _mix(base[..., None] + counters)


def uniforms(seeds: npt.ArrayLike, stream: int, count: int, offset: npt.ArrayLike = 0) -> npt.NDArray[np.float64]:
    """(K, count) float64 uniforms in [0, 1) with 53 bits.

    Args:
        seeds: (K,) seeds from `attempt_seeds`; a single one counts as K = 1.
        stream: a `Stream`.
        count: values per seed.
        offset: position of the first value in the stream, one for all or (K,) (disjoint ranges are independent).
    """
    return (_bits(seeds, stream, count, offset) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(
    seeds: npt.ArrayLike, stream: int, count: int, low: int, high: int, offset: int = 0
) -> npt.NDArray[np.int64]:
    """(K, count) integers in [low, high], both ends included."""
    span = high - low + 1
    if span < 1:
        raise ValueError(f"empty range [{low}, {high}]")
    return low + np.minimum((uniforms(seeds, stream, count, offset) * span).astype(np.int64), span - 1)


def normals(seeds: npt.ArrayLike, stream: int, count: int, offset: npt.ArrayLike = 0) -> npt.NDArray[np.float32]:
    """(K, count) standard normals, float32, by Box and Muller's transform (1958); two per 64-bit word.

    `offset`, one for all or (K,), counts values and must be even, so that a range does not split a pair.
    """
    first = np.asarray(offset)
    if np.any(first % 2):
        raise ValueError(f"offset must be even, got {offset}")
    pairs = (count + 1) // 2
    bits = _bits(seeds, stream, pairs, first // 2)
    # u1 in (0, 1]: log must not see zero.
    u1 = ((bits >> np.uint64(40)).astype(np.float32) + np.float32(1.0)) * np.float32(2.0**-24)
    u2 = (bits & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)
    radius = np.sqrt(np.float32(-2.0) * np.log(u1))
    angle = np.float32(2.0 * np.pi) * u2
    out = np.empty((*bits.shape, 2), dtype=np.float32)
    np.multiply(radius, np.cos(angle), out=out[..., 0])
    np.multiply(radius, np.sin(angle), out=out[..., 1])
    return out.reshape(*bits.shape[:-1], 2 * pairs)[..., :count]
