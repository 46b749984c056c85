"""Statistics of a camera from the counts of its pixels' values, in [0, 1], exactly.

LeRobot 0.6 sums millions of pixels in float32, and averages the quantiles of episodes; both are off in the fourth
decimal or worse. Counts are whole numbers, and those of a dataset are the sum of those of its episodes.
"""

import numpy as np

from mimicpipe.recorders.frame_stats import QUANTILES

_VALUES = np.arange(256, dtype=np.float64)


def pixel_stats(pixels: np.ndarray) -> np.ndarray:
    """(9, 3) float64, rows as `episode_stats.STATISTICS`, from counts (3, 256); quantiles are linear, as numpy's."""
    total = pixels.sum(axis=1)
    seen = pixels > 0
    low = seen.argmax(axis=1).astype(np.float64)
    high = 255.0 - seen[:, ::-1].argmax(axis=1)
    mean = (pixels * _VALUES).sum(axis=1) / total
    variance = (pixels * (_VALUES - mean[:, None]) ** 2).sum(axis=1) / total
    through = pixels.cumsum(axis=1)
    quantiles = [[_quantile(*channel, q) for channel in zip(through, total, strict=True)] for q in QUANTILES.values()]
    return np.stack([low, high, mean, np.sqrt(variance), *np.array(quantiles)]) / 255.0


def _quantile(through: np.ndarray, total: int, q: float) -> float:
    position = q * (int(total) - 1)
    rank = int(position)
    lower, upper = np.searchsorted(through, [rank, min(rank + 1, int(total) - 1)], side="right")
    return float(lower + (position - rank) * (upper - lower))
