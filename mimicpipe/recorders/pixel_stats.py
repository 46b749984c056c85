"""Statistics of a camera, in [0, 1], mostly from counts of its pixels' values.

Those of an episode are LeRobot 0.6's, to the bit, and a dataset's are made of them as LeRobot does it. Only a dataset's
quantiles are its own: LeRobot averages those of the episodes, which is no quantile of anything. Counts are whole
numbers, and those of a dataset are the sum of those of its episodes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from mimicpipe.recorders.episode_stats import BINS, PADDING, STATISTICS
from mimicpipe.recorders.frame_stats import QUANTILES

if TYPE_CHECKING:
    from mimicpipe.recorders.staged import EncodedCamera

_VALUES = np.arange(256)


def pixel_stats(pixels: np.ndarray, mean_and_std: np.ndarray) -> np.ndarray:
    """An episode's statistics, as LeRobot has them.

    Args:
        pixels: (3, 256), how often each value occurs in each channel.
        mean_and_std: (2, 3), as `pixel_sums.mean_and_std`.

    Returns:
        (9, 3) float64, rows as `episode_stats.STATISTICS`.
    """
    seen = pixels > 0
    ends = np.stack([seen.argmax(axis=1), 255 - seen[:, ::-1].argmax(axis=1)]).astype(np.float32)
    quantiles = [_from_histogram(*channel) for channel in zip(pixels, *ends, strict=True)]
    return np.concatenate([ends / np.float32(255), mean_and_std, np.transpose(quantiles) / 255]).astype(np.float64)


def _from_histogram(pixels: np.ndarray, low: np.float32, high: np.float32) -> list[float]:
    """Quantiles of one channel, from a histogram between its ends, as `episode_stats` has them of other columns."""
    edges = np.linspace(low - np.float32(PADDING), high + np.float32(PADDING), BINS + 1)
    through = pixels.cumsum()
    total = through[-1]
    found = []
    for q in QUANTILES.values():
        target = q * total
        value = np.searchsorted(through, target)
        at = min(np.searchsorted(edges, np.float32(value), side="right") - 1, BINS - 1)
        lower, upper = edges[at], edges[at + 1]
        before = pixels[lower > _VALUES].sum()
        inside = (total if at == BINS - 1 else pixels[upper > _VALUES].sum()) - before
        found.append(float(lower if at == 0 else lower + (target - before) / inside * (upper - lower)))
    return found


def _exact_quantiles(pixels: np.ndarray) -> np.ndarray:
    """(5, 3) from counts (3, 256): linear, as numpy's, in [0, 1]."""
    found = []
    for through in pixels.cumsum(axis=1):
        last = int(through[-1]) - 1
        positions = np.array(list(QUANTILES.values())) * last
        ranks = positions.astype(np.int64)
        lower, upper = np.searchsorted(through, [ranks, np.minimum(ranks + 1, last)], side="right")
        found.append(lower + (positions - ranks) * (upper - lower))
    return np.transpose(found) / 255


class CameraSum:
    """A camera's statistics over a dataset, from those of its episodes.

    Args:
        others: counts (3, 256) over all episodes that do not bring their own; None if nobody knows.

    Attributes:
        pixels: counts over all episodes; None as soon as those of one are not known.
    """

    def __init__(self, others: np.ndarray | None = None) -> None:
        self.pixels: np.ndarray | None = np.zeros((3, 256), np.int64) if others is None else others
        self._others_known = others is not None
        self._stats: list[np.ndarray] = []
        self._sampled: list[int] = []

    def add(self, camera: "EncodedCamera") -> None:
        """Count an episode."""
        if camera.pixels is None:
            self.pixels = self.pixels if self._others_known else None
        elif self.pixels is not None:
            self.pixels = self.pixels + camera.pixels
        self._stats.append(camera.stats)
        self._sampled.append(camera.sampled)

    def stats(self) -> dict[str, Any]:
        """{statistic: (channels, 1, 1)}, and `count` (1,); quantiles are means where `pixels` are not known."""
        stats = np.stack(self._stats)
        weights = np.array(self._sampled, np.float64)[:, None] / sum(self._sampled)
        mean = (stats[:, 2] * weights).sum(axis=0)
        variance = ((stats[:, 3] ** 2 + (stats[:, 2] - mean) ** 2) * weights).sum(axis=0)
        averaged = (stats[:, 4:] * weights[:, None]).sum(axis=0)
        quantiles = averaged if self.pixels is None else _exact_quantiles(self.pixels)
        rows = np.stack([stats[:, 0].min(axis=0), stats[:, 1].max(axis=0), mean, np.sqrt(variance), *quantiles])
        count = {"count": np.array([sum(self._sampled)])}
        return dict(zip(STATISTICS, rows.reshape(len(rows), -1, 1, 1), strict=True)) | count

    def described(self) -> dict[str, Any]:
        """As meta/mimicpipe.json keeps them, so that datasets can be joined."""
        return {"frames": sum(self._sampled), "counts": [] if self.pixels is None else self.pixels.tolist()}
