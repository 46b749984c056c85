"""`cluster=ray`: workers are actors of a Ray cluster, of one that runs or of one for this run alone."""

import asyncio
import contextlib
import fcntl
import glob
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from mimicpipe.cluster.messages import Assignment, Order, Report, WorkerLostError
from mimicpipe.errors import ClusterError, ConfigError

_WAIT_S = 0.25
"""How long a worker waits for news before it answers."""
_STORE_BYTES = 80 * 1024**2
"""Of Ray's object store, which hardly holds anything; Ray wants no less."""
_MOST_WORDS = 400
"""Characters of an error of Ray's that are shown."""
_PREFIX = "mimicpipe-ray-"
_SETTLED_AFTER_S = 60.0
"""A folder that is older than this is locked, or abandoned."""
_LONGEST_PLACE = 20
"""Characters. Ray appends up to 64 to its folder, and the path of a socket has 107 at most."""
_REMOVED_WITHIN_S = 5.0
"""How long Ray's processes may write after its end."""
_REACHED_WITHIN_S = 10.0
"""How long the head of a Ray cluster may take to be reached."""


class RayLauncher:
    """Workers on a Ray cluster.

    Args:
        num_workers: processes that make the run's attempts.
        address: of a Ray cluster that runs, as `ray.init` takes it; None: one on this machine, which ends with the run.
        cpus_per_worker: processors that Ray reserves for a worker.
        gpus_per_worker: likewise of GPUs.
        max_retries, worker_timeout_s: as `messages.Launcher`.
    """

    def __init__(
        self,
        num_workers: int = 2,
        address: str | None = None,
        cpus_per_worker: int = 1,
        gpus_per_worker: float = 0.0,
        max_retries: int = 3,
        worker_timeout_s: float = 120.0,
    ) -> None:
        self.num_workers = num_workers
        self.max_retries = max_retries
        self.worker_timeout_s = worker_timeout_s
        self.threads: int | None = cpus_per_worker
        self._address = address
        self._gpus = gpus_per_worker
        self._folder: _Folder | None = None
        self._actor: Any = None
        self._ray: Any = None

    def open(self) -> None:
        """Start a cluster, or connect to one.

        Raises:
            ClusterError: it cannot be started or reached.
            ConfigError: it has fewer processors or GPUs than the workers ask for.
        """
        where = "cluster=ray" if self._address is None else f"cluster.address={self._address}"
        try:
            if self._address not in (None, "auto"):
                _reach(self._address)
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
            import ray

            self._ray = ray
            with _own_signal_handlers():
                ray.init(**self._arguments())
        except SystemExit:  # a handler that Ray has while it starts; what SIGTERM means here, ours knows
            signal.raise_signal(signal.SIGTERM)
            raise
        except Exception as error:
            raise ClusterError(f"{where}: no Ray cluster: {_one_line(error)}") from error
        self._check_size(ray.cluster_resources())
        options: dict[str, Any] = {"num_cpus": self.threads, "num_gpus": self._gpus, "max_restarts": 0}
        self._actor = ray.remote(**options)(WorkerActor)

    def _arguments(self) -> dict[str, Any]:
        """Of `ray.init`."""
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._address is not None:
            return {"address": self._address, **quiet}
        self._folder = _Folder()
        return {
            "address": "local",  # not one that happens to run here
            "num_cpus": self.num_workers * (self.threads or 1),
            "object_store_memory": _STORE_BYTES,
            "include_dashboard": False,
            "_temp_dir": self._folder.path,
            **quiet,
        }

    def _check_size(self, has: dict[str, float]) -> None:
        wanted = {"CPU": ("cpus_per_worker", self.threads or 1), "GPU": ("gpus_per_worker", self._gpus)}
        for kind, (key, each) in wanted.items():
            if self.num_workers * each > has.get(kind, 0.0):
                raise ConfigError(
                    f"cluster.num_workers={self.num_workers}: each takes cluster.{key}={each:g}, and the Ray cluster "
                    f"has {has.get(kind, 0.0):g} {kind}s; ask for less"
                )

    def start(self, number: int, assignment: Assignment) -> "RayWorker":
        """Start worker `number`; returns at once."""
        del number
        return RayWorker(self._actor.remote(assignment, os.getcwd()))

    def close(self) -> None:
        """End the workers, and the cluster if it is this run's; idempotent."""
        ray, self._ray = self._ray, None
        if ray is not None:
            ray.shutdown()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()


class RayWorker:
    """The driver's side of a worker.

    Args:
        actor: handle of a `WorkerActor`.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def poll(self, order: Order) -> Report:
        """Give the worker its orders, and wait for news, or a moment.

        Raises:
            WorkerLostError: its process or its machine is gone.
        """
        from ray.exceptions import RayError, RayTaskError

        try:
            return await asyncio.wrap_future(self._actor.poll.remote(order).future())
        except RayTaskError:
            raise  # of `poll` itself, which has no excuse
        except RayError as error:
            raise WorkerLostError(_one_line(error)) from error

    def kill(self) -> None:
        """End the worker's process; idempotent."""
        import ray

        ray.kill(self._actor)


class WorkerActor:
    """A worker's process.

    Args:
        assignment: its part of the run.
        folder: where the driver runs, which relative paths of the config are meant from; it need not exist here.
    """

    def __init__(self, assignment: Assignment, folder: str) -> None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        from mimicpipe.cluster.worker import ShareRun

        self._run = ShareRun(assignment)
        logging.getLogger("mimicpipe").addHandler(_Forward(self._run.warn))
        self._run.start()

    def poll(self, order: Order) -> Report:
        """As `ShareRun.poll`."""
        return self._run.poll(order, _WAIT_S)


class _Forward(logging.Handler):
    """Hands warnings to a function, with their tracebacks."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        """As the base class."""
        self._warn(self.format(record))


class _Folder:
    """A new folder for Ray's sockets and logs, and its lock; folders of runs that were killed are removed.

    It is in /tmp where the usual place would make the sockets' paths too long.
    """

    def __init__(self) -> None:
        usual = tempfile.gettempdir()
        place = "/tmp" if len(usual) > _LONGEST_PLACE else usual
        for left in glob.glob(f"{place}/{_PREFIX}*"):
            with contextlib.suppress(OSError):  # it is held, another user's, or has just gone
                _remove_abandoned(left)
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=place)
        self._lock = _locked(self.path)

    def remove(self) -> None:
        """Remove it with everything in it; Ray's processes may still write while they end."""
        deadline = time.monotonic() + _REMOVED_WITHIN_S
        shutil.rmtree(self.path, ignore_errors=True)
        while os.path.exists(self.path) and time.monotonic() < deadline:
            time.sleep(0.05)
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _locked(folder: str) -> int:
    """An open folder that no other process can lock as long as this one lives; OSError where one has."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _remove_abandoned(folder: str) -> None:
    """Remove a folder of this user's that no process has locked, nor is about to lock."""
    status = os.stat(folder)
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < _SETTLED_AFTER_S:
        return
    lock = _locked(folder)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


@contextlib.contextmanager
def _own_signal_handlers() -> Generator[None]:
    """Put this process's signal handlers back: Ray installs its own, and a signal is to end the run well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reach(address: str) -> None:
    """Raise OSError unless something answers at host:port: Ray itself would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _REACHED_WITHIN_S).close()


def _one_line(error: BaseException) -> str:
    """Ray's words without its advice, which fills half a page."""
    text = " ".join(str(error).split()).partition("Some common causes")[0].strip()
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]} ..."
