"""A file that the HDF5 library can write without ever hearing of an error.

HDF5 does not recover from a write that fails: objects can no longer be closed, each prints an error, and the process
may crash when it ends. Here a failure is noted, and the library goes on in memory until it can be told to stop.
"""

import io
import os
from collections.abc import Buffer
from pathlib import Path


class Hdf5Sink(io.RawIOBase):
    """A new file, for h5py to write through (`h5py.File(sink, "w")`).

    Attributes:
        error: the first failure; what was written after it exists in memory only.

    Args:
        path: the file, which does not exist.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.error: OSError | None = None
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._at = 0
        self._end = 0
        self._kept: list[tuple[int, bytes]] = []

    def check(self) -> None:
        """Raise the failure, if there was one, naming the file."""
        if self.error is not None:
            raise OSError(self.error.errno, self.error.strerror, str(self._path))

    def close(self) -> None:
        """Let go of the file; idempotent."""
        super().close()
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    # ---- what h5py calls

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of any file."""
        self._at = offset if whence == os.SEEK_SET else offset + (self._at if whence == os.SEEK_CUR else self._end)
        return self._at

    def tell(self) -> int:
        """As of any file."""
        return self._at

    def write(self, data: Buffer, /) -> int:
        """Write everything; never fails."""
        view = memoryview(data).cast("B")
        at, self._at = self._at, self._at + len(view)
        self._end = max(self._end, self._at)
        while len(view) and self.error is None:
            try:
                written = os.pwrite(self._handle, view, at)
            except OSError as error:
                self.error = error
                break
            view, at = view[written:], at + written
        if len(view):
            self._kept.append((at, bytes(view)))
        return memoryview(data).nbytes

    def readinto(self, buffer: Buffer, /) -> int:
        """Read as much as fits and is there."""
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._end - self._at))
        found = os.pread(self._handle, count, self._at)
        view[:count] = found.ljust(count, b"\0")
        for start, data in self._kept:
            low, high = max(start, self._at), min(start + len(data), self._at + count)
            if low < high:
                view[low - self._at : high - self._at] = data[low - start : high - start]
        self._at += count
        return count

    def truncate(self, size: int | None = None) -> int:
        """Set the file's length."""
        self._end = self._at if size is None else size
        if self.error is None:
            try:
                os.ftruncate(self._handle, self._end)
            except OSError as error:
                self.error = error
        return self._end

    def flush(self) -> None:
        """Nothing is held back."""
