"""Numbers of a parquet column, whatever their shape, and what statistics need of them."""

from typing import Any

import numpy as np

from mimicpipe.pools.lerobot_files import flattened, holds_numbers


def column_values(column: Any) -> np.ndarray | None:
    """(rows, numbers) of an arrow column of numbers or (nested) lists of them; None of anything else."""
    numbers = flattened(column)
    return numbers.to_numpy(zero_copy_only=False).reshape(len(column), -1) if holds_numbers(numbers) else None


class ColumnSummary:
    """Count, extremes, mean and standard deviation of a column, in float64, from parts of it.

    Attributes:
        rows: frames so far.
        width: numbers a frame.
        nonfinite: numbers that are NaN or infinite.
        min, max: (width,) extremes.
    """

    def __init__(self) -> None:
        self.rows = self.width = self.nonfinite = 0
        self.min = self.max = self._mean = self._squares = np.zeros(0)

    def add(self, values: np.ndarray) -> None:
        """Take in (rows, width) numbers; Chan et al. (1983) put parts together without cancellation."""
        part = values.astype(np.float64)
        self.nonfinite += int((~np.isfinite(part)).sum())
        with np.errstate(invalid="ignore", over="ignore"):
            mean = part.mean(axis=0)
            squares = ((part - mean) ** 2).sum(axis=0)
            if self.rows == 0:
                self.width = part.shape[1]
                self.min, self.max, self._mean, self._squares = part.min(axis=0), part.max(axis=0), mean, squares
            else:
                total, gap = self.rows + len(part), mean - self._mean
                self.min, self.max = np.minimum(self.min, part.min(axis=0)), np.maximum(self.max, part.max(axis=0))
                self._squares = self._squares + squares + gap**2 * self.rows * len(part) / total
                self._mean = self._mean + gap * len(part) / total
        self.rows += len(part)

    def of_rows(self, width: int) -> "ColumnSummary":
        """The same of arrays' rows of `width` numbers, each a frame of its own."""
        rows = ColumnSummary()
        rows.rows, rows.width, rows.nonfinite = self.rows * self.width // width, width, self.nonfinite
        rows.min, rows.max = self.min.reshape(-1, width).min(axis=0), self.max.reshape(-1, width).max(axis=0)
        means = self._mean.reshape(-1, width)
        rows._mean = means.mean(axis=0)
        within = self._squares.reshape(-1, width).sum(axis=0)
        rows._squares = within + self.rows * ((means - rows._mean) ** 2).sum(axis=0)
        return rows

    @property
    def mean(self) -> np.ndarray:
        """(width,)."""
        return self._mean

    @property
    def std(self) -> np.ndarray:
        """(width,), of the whole population."""
        return np.sqrt(self._squares / max(1, self.rows))
