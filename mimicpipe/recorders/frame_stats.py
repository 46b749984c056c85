"""Statistics of a dataset's numeric columns, computed from the frames themselves.

LeRobot 0.6 averages the quantiles of single episodes, weighted by length, which is not a quantile of the dataset, and
takes the variance in the column's own precision. Policies normalise with these numbers, so here they are exact.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


def numeric_stats(files: Iterable[Path], names: Iterable[str]) -> dict[str, dict[str, np.ndarray]]:
    """Min, max, mean, std (population), count and quantiles (linear) of columns, in float64.

    Args:
        files: data files (parquet) of the dataset, in order.
        names: numeric columns, each (D,) or scalar.

    Returns:
        {column: {statistic: (D,)}}; `count` is (1,), the number of frames.
    """
    files = list(files)
    return {name: _column_stats(np.concatenate([_read(file, name) for file in files])) for name in names}


def _read(file: Path, name: str) -> np.ndarray:
    """(T, D) float64 values of one column; one column at a time bounds the memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pq.read_table(file, columns=[name]).column(name).combine_chunks()
    rows = len(column)
    values = column.flatten() if isinstance(column, pa.FixedSizeListArray | pa.ListArray) else column
    return values.to_numpy(zero_copy_only=False).astype(np.float64).reshape(rows, -1)


def _column_stats(values: np.ndarray) -> dict[str, np.ndarray]:
    stats = {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "count": np.array([len(values)]),
    }
    quantiles = np.quantile(values, list(QUANTILES.values()), axis=0)
    return stats | dict(zip(QUANTILES, quantiles, strict=True))
