"""A process that does nothing but plan: `python -m mimicpipe.planners.worker SOCKET`, started by `workers.Worker`.

consumes: pickled messages of its own run over a socket: first (Scenes, Settings), then MotionRequests. produces: for
each an answer, ("targets", (T, 4, 4)), ("no way", why) or ("error", traceback). It ends when the socket does, so also
when the run is killed. Torch is not imported.
"""

import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.planners.collision import Scenes
from mimicpipe.planners.joint_motion import NoWayError, Search, Settings


def serve(connection: Connection) -> None:
    """Plan until the other side closes."""
    scenes, settings = connection.recv()
    connection.send(("ready", None))
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        connection.send(answer(scenes, request, settings))


def answer(scenes: Scenes, request: MotionRequest, settings: Settings) -> tuple[str, Any]:
    """What is sent back for a request."""
    try:
        return "targets", Search(scenes, request, settings).run().targets
    except NoWayError as error:
        return "no way", str(error)
    except Exception:  # noqa: BLE001 - told to the other side, which raises it
        return "error", traceback.format_exc()


if __name__ == "__main__":
    try:
        serve(Connection(int(sys.argv[1])))
    except (BrokenPipeError, ConnectionResetError, EOFError):
        os._exit(0)  # the run has ended
