"""Source demos end to end on one time axis, so that a batch of segments of any demos is one gather.

Tables are component-major, (W, time): a segment's values of one component are contiguous, and arithmetic over many
segments runs along time. Tables live on the host; those that whole segments are read from also live on the device.
Room is doubled when it runs out, so adding D demos costs O(D) in all.
"""

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_Floats = npt.NDArray[np.float32]
_Ints = npt.NDArray[np.int64]

_INITIAL_STEPS = 1024


class Timeline:
    """Named tables of one width each over a shared time axis.

    Args:
        widths: {table: components W}.
        windowed: tables that `windows` is asked of.
        lead: steps that a window may begin before its demo, or end behind it (their values are those of other demos).
        device: where windows are wanted.
    """

    def __init__(self, widths: Mapping[str, int], windowed: Collection[str], lead: int, device: torch.device) -> None:
        self._lead = lead
        self._device = device
        self._used = lead
        self._longest = 0
        self._capacity = _INITIAL_STEPS
        self._tables = {name: np.zeros((width, self._capacity), dtype=np.float32) for name, width in widths.items()}
        self._mirrors = {name: self._mirror(name) for name in windowed}

    def _mirror(self, name: str) -> Tensor:
        """The table on the device; on the CPU it is the same memory."""
        return torch.from_numpy(self._tables[name]).to(self._device)

    def append(self, columns: Mapping[str, Tensor]) -> int:
        """Add one demo, {table: (T, W)}; returns the time of its first step."""
        start = self._used
        end = start + next(iter(columns.values())).shape[0]
        self._longest = max(self._longest, end - start)
        self._reserve(end + self._longest + 2 * self._lead)
        for name, column in columns.items():
            self._tables[name][:, start:end] = column.t().cpu().numpy()
        for name, mirror in self._mirrors.items():
            if mirror.device.type != "cpu":
                mirror[:, start:end] = columns[name].t().to(mirror.device)
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
        self._mirrors = {name: self._mirror(name) for name in self._mirrors}

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

    def windows(self, name: str, starts: Tensor, steps: int) -> Tensor:
        """(W, M, steps) values at the `steps` times from each of `starts` (M,) on, a tensor on the device."""
        table = self._mirrors[name]
        sliding = table.as_strided((table.shape[0], self._capacity - steps + 1, steps), (self._capacity, 1, 1))
        return sliding[:, starts]


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
