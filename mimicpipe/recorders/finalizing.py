"""Completes a recorder's dataset in a thread, and does not wait for ever: a dead disk must not hold a sweep up."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mimicpipe.errors import StallError

_BUSY = 0.01
"""Share of a processor from which on the finalizing thread counts as working; one that polls uses less."""
_LOOKS = 4
"""How often signs of life are looked for within the timeout."""
_QUEUE_STATS = ("queue_size", "queue_bytes", "mb_per_s")
"""What changes when a writer has written something."""


class Finalizable(Protocol):
    """What completes a dataset: a recorder, for one."""

    def finalize(self) -> Path | None:
        """As `Recorder.finalize`."""
        ...

    def stats(self) -> dict[str, float]:
        """As `Recorder.stats`."""
        ...


class PatientExecutor(ThreadPoolExecutor):
    """Threads for an event loop; its end waits for them a few seconds, and leaves those that do not answer."""

    def __init__(self, grace_s: float = 2.0) -> None:
        super().__init__(thread_name_prefix="mimicpipe-worker")
        self._grace_s = grace_s

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As the base class, with a limit."""
        super().shutdown(wait=False, cancel_futures=cancel_futures or wait)
        deadline = time.monotonic() + self._grace_s
        for thread in list(self._threads) if wait else []:
            thread.join(max(0.0, deadline - time.monotonic()))


@dataclass
class _Life:
    """Signs of life of a recorder that is being finalized."""

    recorder: Finalizable
    thread: int | None = None
    at: float = 0.0
    cpu_s: float = 0.0
    stats: tuple[float | None, ...] = ()

    def seen(self) -> bool:
        """Whether there was any since the last call."""
        now, stats = time.monotonic(), self.recorder.stats()
        cpu_s = _cpu_s(self.thread) if self.thread is not None else 0.0
        found = tuple(stats.get(name) for name in _QUEUE_STATS)
        alive = cpu_s - self.cpu_s > _BUSY * (now - self.at) or found != self.stats
        self.at, self.cpu_s, self.stats = now, cpu_s, found
        return alive


def _cpu_s(thread: int) -> float:
    """Processor time of a thread that lives, seconds."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


async def finalize(recorder: Finalizable, stall_timeout_s: float) -> Path | None:
    """`recorder.finalize()`; slow work has no limit, as long as there is a sign of it.

    Raises:
        StallError: nothing was written, and the thread did not compute, for `stall_timeout_s`; the thread is left.
        Exception: what the recorder raises.
    """
    life = _Life(recorder)

    def work() -> Path | None:
        life.thread = threading.get_ident()
        try:
            return recorder.finalize()
        finally:
            life.thread = None

    task = asyncio.create_task(asyncio.to_thread(work), name="finalize")
    quiet_since = time.monotonic()
    while True:
        done, _ = await asyncio.wait([task], timeout=min(1.0, stall_timeout_s / _LOOKS))
        if done:
            return task.result()
        if life.seen():
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > stall_timeout_s:
            raise StallError(
                f"the recorder shows no sign of life for {stall_timeout_s:g} s while it completes the dataset; what is "
                "durable can be recovered with python -m mimicpipe.tools.recover"
            )
