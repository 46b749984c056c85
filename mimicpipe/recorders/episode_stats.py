"""Statistics of one episode, bit for bit those of LeRobot 0.6 (`compute_episode_stats`), for all columns at once.

LeRobot takes a quantile from a histogram of 5,000 bins between a column's minimum and maximum, interpolating within the
bin. The bins that matter are those of five order statistics, so no histogram is needed: the bin's edges are found by
bisection, and its count by comparison.
"""

import math
from collections.abc import Mapping

import numpy as np

from mimicpipe.recorders.frame_stats import QUANTILES

STATISTICS = ("min", "max", "mean", "std", *QUANTILES)
"""Rows of the arrays below; `count` is the number of frames."""
BINS = 5000
PADDING = 1e-10


def episode_stats(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Statistics of an episode's columns.

    Args:
        columns: {name: (T,) or (T, D)} numeric columns.

    Returns:
        {name: (9, D) float64}, rows as in STATISTICS; D is 1 for a column (T,).
    """
    groups: dict[tuple[np.dtype, bool, int], list[str]] = {}
    for name, column in columns.items():
        # A sum over T is pairwise where a column stands alone, so (T,) and (T, D) are kept apart.
        precision = np.result_type(column.dtype, np.float32)
        groups.setdefault((precision, column.size == len(column), len(column)), []).append(name)
    found: dict[str, np.ndarray] = {}
    for (precision, alone, _), names in groups.items():
        parts = [columns[name].reshape(len(columns[name]), -1) for name in names]
        stats = _stats(np.concatenate(parts, axis=1, dtype=precision), alone)
        at = 0
        for name, part in zip(names, parts, strict=True):
            found[name] = stats[:, at : at + part.shape[1]]
            at += part.shape[1]
    return {name: found[name] for name in columns}


def _stats(values: np.ndarray, alone: bool) -> np.ndarray:
    """(9, D) float64 of values (T, D)."""
    if len(values) < 2:  # LeRobot takes no quantiles here
        mean = values.mean(axis=0)
        return np.stack([values[0], values[0], mean, values.std(axis=0), *[mean] * len(QUANTILES)]).astype(np.float64)
    ordered = np.sort(values, axis=0)
    low, high = ordered[0], ordered[-1]
    mean, squares = _mean(values, alone), _mean(values**2, alone)
    std = np.sqrt(np.maximum(0, squares - mean**2))
    return np.concatenate([np.stack([low, high, mean, std]).astype(np.float64), _quantiles(ordered)])


def _mean(values: np.ndarray, alone: bool) -> np.ndarray:
    return np.ascontiguousarray(values.T).mean(axis=1) if alone else values.mean(axis=0)


def _quantiles(ordered: np.ndarray) -> np.ndarray:
    """(5, D) float64 from values (T, D) sorted along T."""
    count = len(ordered)
    kind = ordered.dtype.type
    targets = np.array([q * count for q in QUANTILES.values()])
    ranks = [math.ceil(target) - 1 for target in targets]
    start, stop = ordered[0] - kind(PADDING), ordered[-1] + kind(PADDING)
    step = (stop - start) / kind(BINS)

    def edge(bins: np.ndarray) -> np.ndarray:
        # As numpy.linspace does it, in the column's own precision.
        return np.where(bins == BINS, stop, bins.astype(kind) * step + start)

    at = ordered[ranks]
    below, above = np.zeros(at.shape, np.int64), np.full(at.shape, BINS)
    for _ in range(BINS.bit_length()):  # the last bin whose lower edge is not above the value
        middle = (below + above) // 2
        left = edge(middle) <= at
        below, above = np.where(left, middle, below), np.where(left, above, middle)
    lower, upper = edge(below), edge(below + 1)
    before = (ordered[None] < lower[:, None]).sum(axis=1)
    through = np.where(below == BINS - 1, count, (ordered[None] < upper[:, None]).sum(axis=1))
    within = (targets[:, None] - before) / (through - before)
    inside = lower + within * (upper - lower)
    return np.where(below == 0, lower, inside)
