"""Columns of a dataset that is being assembled, on the disk for statistics that need all their values at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mimicpipe.recorders.frame_stats import column_stats


class ColumnSpill:
    """Appends episodes to one raw file for each column.

    Args:
        folder: an empty folder, which the caller removes.
        names: the columns.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._paths = {name: folder / f"{number}.raw" for number, name in enumerate(names)}
        self._files: dict[str, BinaryIO] = {name: path.open("wb") for name, path in self._paths.items()}
        self._kinds: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        """Append an episode, {column: (T, D) or (T,)}."""
        for name, file in self._files.items():
            column = columns[name]
            self._kinds[name] = column.dtype, column.shape[1:]
            file.write(np.ascontiguousarray(column).data)

    def close(self) -> None:
        """Complete the files."""
        for file in self._files.values():
            file.close()

    def stats(self) -> dict[str, dict[str, np.ndarray]]:
        """`frame_stats.numeric_stats` of all that was written, after `close`; one element of a column in memory."""
        found = {}
        for name, path in self._paths.items():
            dtype, shape = self._kinds[name]
            # Mapped, not read: `column_stats` copies one element of the frames' values at a time.
            found[name] = column_stats(np.asarray(np.memmap(path, dtype, mode="r")).reshape(-1, *shape))
        return found
