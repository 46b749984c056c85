"""A process that does nothing but write episodes: `python -m mimicpipe.recorders.writer_process SOCKET MEMORY`.

Started by `remote_writer.RemoteWriter`, which says in JSON over a socket what is in the shared memory. It ends when the
socket does, so also when the run is killed. Neither torch nor lerobot is imported.
"""

import json
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mimicpipe.recorders.arena import Arena
from mimicpipe.recorders.episode_writer import EpisodeWriter
from mimicpipe.recorders.layout import columns_of


def serve(connection: Connection, memory: int) -> None:
    """Open the log that the first message names, then write groups of episodes until the other side closes."""
    begin = _receive(connection)
    header = begin["header"]
    arena = Arena(columns_of(header["features"]), memory)
    try:
        writer = EpisodeWriter(Path(begin["path"]), header, begin["camera_threads"], arena.advance)
    except Exception as error:  # noqa: BLE001 - told to the other side, which raises it
        _send(connection, _described(error))
        return
    _send(connection, {})
    try:
        while True:
            group = _receive(connection)["episodes"]
            try:
                failed = writer.write(arena.get(group))
            except Exception as error:  # noqa: BLE001 - as above
                _send(connection, _described(error))
            else:
                _send(connection, {"failed": {str(place): str_of(error) for place, error in failed.items()}})
    except EOFError:
        writer.close()


def str_of(error: BaseException) -> str:
    """One line about an exception."""
    return f"{type(error).__name__}: {error}"


def _receive(connection: Connection) -> Any:
    return json.loads(connection.recv_bytes())


def _send(connection: Connection, message: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(message).encode())


def _described(error: Exception) -> dict[str, Any]:
    if isinstance(error, OSError) and error.errno is not None:
        return {"os_error": [error.errno, error.strerror, error.filename]}
    return {"error": str_of(error)}


if __name__ == "__main__":
    try:
        serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
    except (BrokenPipeError, ConnectionResetError, EOFError):
        os._exit(0)  # the run has ended
