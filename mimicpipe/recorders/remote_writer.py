"""The run's side of a writer process: hands over groups of episodes, and survives the process's death."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mimicpipe.errors import RecorderError
from mimicpipe.recorders.arena import Arena
from mimicpipe.recorders.layout import PackedEpisode, columns_of

_POLL_S = 0.2
_END_S = 10.0
_PACKAGES = Path(__file__).parents[2]


class RemoteWriter:
    """An `EpisodeWriter` in a process of its own.

    A process that dies or hangs is replaced, and its episodes are written by the next one: they are in the shared
    memory still. The second time in a row, they are given up.

    Args:
        path: the log, which is continued if it exists.
        header: the dataset's description.
        camera_threads: cameras that are encoded at once; 0 is one after the other.
        hang_timeout_s: the process is taken to hang after this long without an encoded frame or a written group.
        keep: descriptors that the process holds on to: as long as it lives, the staging folder is not another run's.

    Raises:
        RecorderError, OSError: as `SegmentLog`, or the process cannot be started.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        camera_threads: int,
        hang_timeout_s: float,
        keep: Sequence[int] = (),
    ) -> None:
        self._path = path
        self._hang_timeout_s = hang_timeout_s
        self._keep = tuple(keep)
        self._begin = {"path": str(path), "header": dict(header), "camera_threads": camera_threads}
        self._arena = Arena(columns_of(header["features"]))
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        """The process."""
        return None if self._process is None else self._process.pid

    def write(self, episodes: list[PackedEpisode]) -> dict[int, Exception]:
        """As `EpisodeWriter.write`, but takes the episodes off the list, so that their memory can be let go of.

        Raises:
            OSError: none of them could be written.
            RecorderError: likewise, because the process died or hung, twice.
        """
        group = {"episodes": self._arena.put(episodes)}
        try:
            reply = self._ask(group)
        except _LostError:
            self._kill()
            try:
                self._start()
                reply = self._ask(group)
            except _LostError as error:
                self._kill()
                raise RecorderError(f"{self._path}: {error}, and so did the one before it") from None
        return {int(place): RecorderError(text) for place, text in reply["failed"].items()}

    def close(self) -> None:
        """End the process, which lets go of its log; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._kill()
        self._process = None
        self._arena.close()

    def _start(self) -> None:
        own, its = socket.socketpair()
        with its:
            self._connection = Connection(own.detach())
            paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
            handles = [str(its.fileno()), str(self._arena.handle)]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mimicpipe.recorders.writer_process", *handles],
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(), self._arena.handle, *self._keep),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,  # Ctrl-C is the run's business
            )
        self._ask(self._begin)

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message and wait for its answer, as long as there is progress."""
        connection = self._connection
        assert connection is not None
        try:
            connection.send_bytes(json.dumps(message).encode())
            progress, since = self._arena.progress, time.monotonic()
            while not connection.poll(_POLL_S):
                if (now := self._arena.progress) != progress:
                    progress, since = now, time.monotonic()
                elif time.monotonic() - since > self._hang_timeout_s:
                    raise _LostError(f"a writer process has done nothing for {self._hang_timeout_s:g} s")
            reply = json.loads(connection.recv_bytes())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise _LostError(f"a writer process has died ({self._how()})") from None
        if "os_error" in reply:
            raise OSError(*reply["os_error"])
        if "error" in reply:
            raise RecorderError(reply["error"])
        return reply

    def _how(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def _kill(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None


class _LostError(Exception):
    """The process is gone, or does not answer."""
