"""One thread that does a simulator's step while the caller goes on."""

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

_Job = Callable[[], None]


class BackgroundThread:
    """Does one job at a time; the job should spend its time without the GIL.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[_Job | None] = SimpleQueue()
        self._done: SimpleQueue[Exception | None] = SimpleQueue()
        self._begun = threading.Semaphore(0)
        # It knows nothing of this object, which may so be dropped without `close`.
        serving = (self._work, self._begun, self._done)
        self._thread = threading.Thread(target=_serve, args=serving, name=name, daemon=True)
        self._thread.start()
        self._leave = weakref.finalize(self, self._work.put, None)
        self._running = False
        self._closed = False

    def start(self, job: _Job) -> Callable[[], None]:
        """Begin a job.

        Returns:
            A function to call once: it waits for the job's end, and raises what the job has raised.

        Raises:
            RuntimeError: a job is still running, or the thread has ended.
        """
        if self._running:
            raise RuntimeError("a step is still running; end it before the next")
        if self._closed:
            raise RuntimeError("step after close")
        self._running = True
        self._work.put(job)
        # Until this thread waits, the other one cannot have the GIL, which it needs to begin.
        self._begun.acquire()

        def end() -> None:
            error = self._done.get()
            self._running = False
            if error is not None:
                raise error

        return end

    def close(self) -> None:
        """End the thread, after the job it does; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._leave()
        self._thread.join()


def _serve(work: SimpleQueue[_Job | None], begun: threading.Semaphore, done: SimpleQueue[Exception | None]) -> None:
    """The thread: job after job, until it gets None."""
    while (job := work.get()) is not None:
        begun.release()
        try:
            job()
        except Exception as error:  # noqa: BLE001 - raised where the job is ended
            done.put(error)
        else:
            done.put(None)
        del job
