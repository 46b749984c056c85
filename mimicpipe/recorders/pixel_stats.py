"""Statistics of a camera from the counts of its pixels' values, in [0, 1], exactly.

LeRobot 0.6 sums millions of pixels in float32, and averages the quantiles of episodes; both are off in the fourth
decimal or worse. Counts are whole numbers, and those of a dataset are the sum of those of its episodes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from mimicpipe.recorders.frame_stats import QUANTILES

if TYPE_CHECKING:
    from mimicpipe.recorders.staged import EncodedCamera

_ROWS = ("min", "max", "mean", "std", *QUANTILES)
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


class CameraSum:
    """A camera's statistics over a dataset, from those of its episodes.

    Args:
        pixels: counts (3, 256) to begin with; None as soon as an episode does not bring its own.
        sampled: frames that were counted.
    """

    def __init__(self, pixels: np.ndarray | None = None, sampled: int = 0) -> None:
        self.pixels = np.zeros((3, 256), np.int64) if pixels is None else pixels
        self._sampled = sampled
        self._episodes: list[tuple[np.ndarray, int]] = []

    def add(self, camera: "EncodedCamera") -> None:
        """Count an episode."""
        self.pixels = None if self.pixels is None or camera.pixels is None else self.pixels + camera.pixels
        self._sampled += camera.sampled
        self._episodes.append((camera.stats, camera.sampled))

    def stats(self) -> dict[str, Any]:
        """{statistic: (3, 1, 1)}, and `count` (1,)."""
        rows = pixel_stats(self.pixels) if self.pixels is not None else self._averaged()
        return {**dict(zip(_ROWS, rows.reshape(-1, 3, 1, 1), strict=True)), "count": np.array([self._sampled])}

    def described(self) -> dict[str, Any]:
        """As meta/mimicpipe.json keeps them, so that datasets can be joined."""
        return {"frames": self._sampled, "counts": [] if self.pixels is None else self.pixels.tolist()}

    def _averaged(self) -> np.ndarray:
        """(9, 3) from the episodes' own, as LeRobot has them: what it takes for quantiles are their means."""
        stats = np.stack([stats for stats, _ in self._episodes])
        weights = np.array([sampled for _, sampled in self._episodes], np.float64)[:, None] / self._sampled
        mean = (stats[:, 2] * weights).sum(axis=0)
        variance = ((stats[:, 3] ** 2 + (stats[:, 2] - mean) ** 2) * weights).sum(axis=0)
        quantiles = (stats[:, 4:] * weights[:, None]).sum(axis=0)
        return np.stack([stats[:, 0].min(axis=0), stats[:, 1].max(axis=0), mean, np.sqrt(variance), *quantiles])
