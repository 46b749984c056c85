"""Memory that a run shares with one of its writer processes: the columns of the episodes that are being written.

A memory file without a name, which both processes have mapped: nothing is copied through a pipe, and the kernel frees
it when both have ended, however that happens. The first bytes count the writer's progress.
"""

import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from mimicpipe.recorders.layout import Column, PackedEpisode

_ALIGNMENT = 64
_HEAD = 64


class Arena:
    """A view of the shared memory, which grows with the largest group of episodes.

    Args:
        handle: the memory file's descriptor, which the arena owns; None makes one.
        columns: the dataset's.
    """

    def __init__(self, columns: Sequence[Column], handle: int | None = None) -> None:
        self.handle = os.memfd_create("mimicpipe-writer") if handle is None else handle
        self._columns = columns
        self._memory: mmap.mmap | None = None
        self._reserve(_HEAD)

    def put(self, episodes: list[PackedEpisode]) -> list[dict[str, Any]]:
        """Copy episodes in, and take them off the list one by one; returns what `get` needs to find them."""
        described = [{"meta": episode.meta, "state": len(episode.state)} for episode in episodes]
        self._reserve(_HEAD + sum(_size(entry, self._columns) for entry in described))
        for target in self.get(described):
            source = episodes.pop(0)
            target.state[...] = source.state
            for column, values in zip(target.columns, source.columns, strict=True):
                column[...] = values
        return described

    def get(self, described: Sequence[dict[str, Any]]) -> list[PackedEpisode]:
        """The episodes, as views of the memory: the next `put` overwrites them."""
        self._reserve(os.fstat(self.handle).st_size)
        found, at = [], _HEAD

        def take(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
            nonlocal at
            assert self._memory is not None
            values = np.frombuffer(self._memory, dtype, int(np.prod(shape)), at).reshape(shape)
            at += _padded(values.nbytes)
            return values

        for entry in described:
            length = entry["meta"]["length"]
            state = take("<f8", (entry["state"],))
            columns = tuple(take(column.numpy_dtype, (length, *column.shape)) for column in self._columns)
            found.append(PackedEpisode(entry["meta"], state, columns))
        return found

    @property
    def progress(self) -> int:
        """How often `advance` was called."""
        assert self._memory is not None
        return int.from_bytes(self._memory[:8], "little")

    def advance(self) -> None:
        """Note that something was done; for the writer's process."""
        assert self._memory is not None
        self._memory[:8] = (self.progress + 1).to_bytes(8, "little")

    def close(self) -> None:
        """Let go of the memory; idempotent."""
        if self._memory is not None:
            self._memory = None
            os.close(self.handle)

    def _reserve(self, size: int) -> None:
        if os.fstat(self.handle).st_size < size:
            os.ftruncate(self.handle, size)
        if self._memory is None or len(self._memory) < size:
            self._memory = mmap.mmap(self.handle, size)  # the old map goes with the last view of it


def _size(entry: dict[str, Any], columns: Sequence[Column]) -> int:
    length = entry["meta"]["length"]
    return _padded(8 * entry["state"]) + sum(_padded(column.nbytes(length)) for column in columns)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
