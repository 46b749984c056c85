"""The run's side of the processes that plan: hands out requests, and survives a process's death.

Each process has a thread here, which sends it a request and waits for the answer, so nothing waits on the event loop.
All that a process answers is a function of the request, so it does not matter which one gets it, nor whether it is
asked twice.
"""

import asyncio
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.planners.collision import Scenes
from mimicpipe.planners.joint_motion import Settings

_log = logging.getLogger("mimicpipe")

_POLL_S = 0.2
_START_S = 60.0
"""A process imports MuJoCo and compiled loops, which a busy machine takes long for; behind this it is taken to hang."""
_PACKAGES = Path(__file__).parents[2]


class WorkerLostError(RuntimeError):
    """A process that plans has died, or could not be started; the message names it."""


class TooSlowError(Exception):
    """A process has planned for longer than the limit, and was ended."""


class Worker:
    """One process.

    Args:
        number: of the process, for messages.
        begin: the first message.
    """

    def __init__(self, number: int, begin: tuple[Scenes, Settings]) -> None:
        self.number = number
        self._begin = begin
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._over = False

    @property
    def pid(self) -> int | None:
        """The process; None before its first request."""
        return None if self._process is None else self._process.pid

    def ask(self, request: MotionRequest, timeout_s: float) -> tuple[str, Any]:
        """The answer to a request; a process that dies over it is replaced, and the next one asked, once.

        Raises:
            WorkerLostError: two have died.
            TooSlowError: it took longer than `timeout_s`.
        """
        try:
            return self._ask(request, timeout_s)
        except WorkerLostError as error:
            if self._over:
                raise
            _log.warning("%s; another one is started, and asked again", error)
            self.kill()
        return self._ask(request, timeout_s)

    def _ask(self, request: MotionRequest, timeout_s: float) -> tuple[str, Any]:
        if self._process is None:
            self._start()
        self._send(request)
        return self._receive(timeout_s)

    def _start(self) -> None:
        own, its = socket.socketpair()
        with its:
            self._connection = Connection(own.detach())
            paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mimicpipe.planners.worker", str(its.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(),),
                # One request is one thread's work; what BLAS would start for itself only competes with the simulator.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C is the run's business
            )
        self._send(self._begin)
        self._receive(_START_S)

    def _send(self, message: Any) -> None:
        assert self._connection is not None
        try:
            self._connection.send(message)
        except (OSError, ValueError):
            raise WorkerLostError(self._epitaph()) from None

    def _receive(self, timeout_s: float) -> tuple[str, Any]:
        connection = self._connection
        assert connection is not None
        since = time.monotonic()
        try:
            while not connection.poll(_POLL_S):
                if self._over:
                    raise WorkerLostError(f"planner process {self.number} was ended with the run")
                if time.monotonic() - since > timeout_s:
                    self.kill()
                    raise TooSlowError
            return connection.recv()
        except (EOFError, OSError):
            raise WorkerLostError(self._epitaph()) from None

    def _epitaph(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"planner process {self.number} (pid {self._process.pid}) was {how}"

    def kill(self) -> None:
        """End the process; the next request starts another. Call from the thread that asks."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def end(self) -> None:
        """End the process for good, from any thread: whoever waits for it gets WorkerLostError."""
        self._over = True
        if (process := self._process) is not None:
            process.kill()


class Workers:
    """A number of processes that plan, started when they are first needed.

    Args:
        count: how many.
        begin: what they get to know first.
        timeout_s: what one request may take.
    """

    def __init__(self, count: int, begin: tuple[Scenes, Settings], timeout_s: float) -> None:
        self._workers = [Worker(number, begin) for number in range(count)]
        self._timeout_s = timeout_s
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="mimicpipe-planner")
        self._closing = threading.Lock()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Processes that live."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    async def ask(self, request: MotionRequest) -> tuple[str, Any]:
        """The answer of whichever process is free next; raises as `Worker.ask`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, request)

    def _ask(self, request: MotionRequest) -> tuple[str, Any]:
        worker = self._free.get()  # there are as many as threads
        try:
            if self._closed:
                raise WorkerLostError("the run is over")
            return worker.ask(request, self._timeout_s)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End processes and threads, and wait for them. Safe to call twice."""
        with self._closing:
            self._closed = True
            for worker in self._workers:
                worker.end()
            self._threads.shutdown(wait=True, cancel_futures=True)
            for worker in self._workers:
                worker.kill()
