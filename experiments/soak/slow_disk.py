"""`recorder=async` on a disk of limited speed, which hangs now and then. Everything but the waiting is real."""

import time
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.layout import PackedEpisode
from mimicpipe.recorders.staged_storage import StagedStorage


class SlowDiskRecorder(AsyncLeRobotRecorder):
    """Episodes are durable, and the writer takes more from the queue, only once the disk would have taken them.

    Args:
        mb_per_s: speed of the disk, 1e6 column bytes per second.
        hang_every_s: the disk hangs this long after it last hung, seconds; 0: never.
        hang_s: for so long.
        others: as of `AsyncLeRobotRecorder`.
    """

    def __init__(self, *, mb_per_s: float, hang_every_s: float = 0.0, hang_s: float = 0.0, **others: Any) -> None:
        if mb_per_s <= 0:
            raise ConfigError(f"mb_per_s={mb_per_s}: a number > 0")
        super().__init__(**others)
        disk = _Disk(mb_per_s, hang_every_s, hang_s)
        self._staged = _SlowStorage(disk, self._spec, self._settings, others.get("resume"))


class _Disk:
    """Sleeps for as long as a disk would be at work."""

    def __init__(self, mb_per_s: float, hang_every_s: float, hang_s: float) -> None:
        self._rate = mb_per_s * 1e6
        self._hang_every_s, self._hang_s = hang_every_s, hang_s
        self._hung = time.monotonic()

    def take(self, nbytes: int, began: float) -> None:
        """Return once so many bytes, whose real writing began at `began`, would have been written."""
        time.sleep(max(0.0, began + nbytes / self._rate - time.monotonic()))
        if self._hang_every_s and time.monotonic() - self._hung > self._hang_every_s:
            time.sleep(self._hang_s)
            self._hung = time.monotonic()


class _SlowStorage(StagedStorage):
    def __init__(self, disk: _Disk, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self._disk = disk

    def writer(self, number: int) -> Any:
        """As the base class's, on the slow disk."""
        return _SlowWriter(super().writer(number), self._disk)


class _SlowWriter:
    def __init__(self, writer: Any, disk: _Disk) -> None:
        self._writer = writer
        self._disk = disk

    def write(self, episodes: list[PackedEpisode]) -> dict[int, Exception]:
        """Write each of them, and let the disk take its time for it."""
        failed: dict[int, Exception] = {}
        for place in range(len(episodes)):
            began = time.monotonic()
            episode = episodes.pop(0)
            nbytes = episode.state.nbytes + sum(column.nbytes for column in episode.columns)
            for error in self._writer.write([episode]).values():
                failed[place] = error
            self._disk.take(nbytes, began)
        return failed

    def close(self) -> None:
        """Let go of the log."""
        self._writer.close()
