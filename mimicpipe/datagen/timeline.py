"""Source demos end to end on one time axis, so that a segment of any demo is a slice of the same table.

Tables are component-major, (W, time), and live on the host, where plans are made. Room is doubled when it runs out, so
adding D demos costs O(D) in all.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from torch import Tensor

_Floats = npt.NDArray[np.float32]
_Ints = npt.NDArray[np.int64]

_INITIAL_STEPS = 1024


class Timeline:
    """Named tables of one width each over a shared time axis.

    Args:
        widths: {table: components W}.
    """

    def __init__(self, widths: Mapping[str, int]) -> None:
        self._used = 0
        self._capacity = _INITIAL_STEPS
        self._tables = {name: np.zeros((width, self._capacity), dtype=np.float32) for name, width in widths.items()}

    def __getitem__(self, name: str) -> _Floats:
        """(W, >= T) a table, with room behind what is used."""
        return self._tables[name]

    def append(self, columns: Mapping[str, Tensor]) -> int:
        """Add one demo, {table: (T, W)}; returns the time of its first step."""
        start = self._used
        end = start + next(iter(columns.values())).shape[0]
        self._reserve(end)
        for name, column in columns.items():
            self._tables[name][:, start:end] = column.t().cpu().numpy()
        self._used = end
        return start

    def _reserve(self, steps: int) -> None:
        if steps <= self._capacity:
            return
        self._capacity = max(steps, 2 * self._capacity)
        for name, table in self._tables.items():
            grown = np.zeros((table.shape[0], self._capacity), dtype=np.float32)
            grown[:, : table.shape[1]] = table
            self._tables[name] = grown

    def rows(self, name: str, times: _Ints, part: _Ints | None = None, parts: int = 1) -> _Floats:
        """(W / parts, *times.shape) values at times, of any shape.

        Args:
            name: a table whose components are W / parts groups of `parts` values.
            times: when.
            part: which value of each group, broadcastable to times; None where there is one.
            parts: values of a group.
        """
        flat = self._tables[name].reshape(-1, parts * self._capacity)
        return flat.take(times if part is None else part * self._capacity + times, axis=1)


class GrowingRows:
    """int64 rows of fixed width, appended one at a time, read as one array."""

    def __init__(self, width: int) -> None:
        self._data = np.zeros((16, width), dtype=np.int64)
        self._count = 0

    def append(self, row: npt.ArrayLike) -> None:
        """Add one row."""
        if self._count == self._data.shape[0]:
            self._data = np.concatenate((self._data, np.zeros_like(self._data)))
        self._data[self._count] = row
        self._count += 1

    @property
    def array(self) -> _Ints:
        """(rows, width)."""
        return self._data[: self._count]
