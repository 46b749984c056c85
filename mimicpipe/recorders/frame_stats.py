"""Statistics of a dataset's numeric columns, computed from the frames themselves.

LeRobot 0.6 averages the quantiles of single episodes, weighted by length, which is not a quantile of the dataset, and
takes the variance in the column's own precision. Policies normalise with these numbers, so here they are exact.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

ORDER = ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99")
"""Of the statistics in LeRobot's files."""
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


def numeric_stats(files: Iterable[Path], names: Iterable[str]) -> dict[str, dict[str, np.ndarray]]:
    """Min, max, mean, std (population), count and quantiles (linear) of columns, in float64.

    Args:
        files: data files (parquet) of the dataset, in order.
        names: numeric columns; each row of an array with more axes than one counts as a value (D,), as in LeRobot.

    Returns:
        {column: {statistic: (D,)}}; `count` is (1,), the number of frames.
    """
    files, found = list(files), {}
    for name in names:
        counts, values = zip(*[_read(file, name) for file in files], strict=True)
        found[name] = {**column_stats(np.concatenate(values)), "count": np.array([sum(counts)])}
    return found


def column_stats(values: np.ndarray) -> dict[str, np.ndarray]:
    """The same for one column's values (T, D) or (T,), one element at a time, so as to need little memory."""
    values = values.reshape(len(values), -1)
    elements = [_element_stats(values[:, element].astype(np.float64)) for element in range(values.shape[1])]
    stats = {key: np.array([element[key] for element in elements]) for key in elements[0]}
    count = {"count": np.array([len(values)])}
    return {key: (count | stats)[key] for key in ORDER}


def _read(file: Path, name: str) -> tuple[int, np.ndarray]:
    """T, and (T, D) values of one column, or the rows of its arrays; one column at a time bounds the memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pq.read_table(file, columns=[name]).column(name).combine_chunks()
    rows = len(column)
    width = 1
    while isinstance(column, pa.FixedSizeListArray | pa.ListArray | pa.ExtensionArray):
        if not isinstance(column, pa.ExtensionArray):
            width = len(column.flatten()) // len(column)
        column = column.storage if isinstance(column, pa.ExtensionArray) else column.flatten()
    return rows, column.to_numpy(zero_copy_only=False).reshape(-1, width)


def _element_stats(values: np.ndarray) -> dict[str, float]:
    stats = {"min": values.min(), "max": values.max(), "mean": values.mean(), "std": values.std()}
    return stats | dict(zip(QUANTILES, np.quantile(values, list(QUANTILES.values())), strict=True))
