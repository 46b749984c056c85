"""SIGINT and SIGTERM during a run: the first one asks it to end well, the second one ends it at once."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143}
"""128 + the signal's number, as shells have it."""
_GRACE_S = 2.0
"""What threads have to end in, once the job is over, seconds."""


@contextmanager
def stop_on_signal(
    loop: asyncio.AbstractEventLoop, stop: Callable[[str], None], leave: Callable[[], None], seen: list[str]
) -> Generator[None]:
    """Handle both signals, also while a coroutine keeps the event loop from running.

    Args:
        loop: the running loop.
        stop: called in the loop, with the signal's name, at the first one.
        leave: called at the second one, just before the process ends without any further clean-up.
        seen: names of the signals that came; `noted_signals` gives it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's business
        return
    if seen:  # it came before, and its exception was lost in a callback or an import
        loop.call_soon(stop, seen[0])

    def handle(number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        if seen:
            leave()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        seen.append(name)
        loop.call_soon_threadsafe(stop, name)

    # Not the loop's own handlers: they run in the loop, so a coroutine that blocks it would make a run unstoppable.
    before = {number: signal.signal(number, handle) for number in (signal.Signals[name] for name in EXIT_CODES)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def noted_signals() -> Generator[list[str]]:
    """Note each signal, and turn it into an exception, so that a job that has not begun or is just ending cleans up.

    Yields:
        Names of the signals that came, which tells them from a program's own KeyboardInterrupt or SystemExit.
    """
    seen: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def leave(number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        seen.append(name)
        raise KeyboardInterrupt if name == "SIGINT" else SystemExit(EXIT_CODES[name])

    before = {number: signal.signal(number, leave) for number in (signal.Signals[name] for name in EXIT_CODES)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(exit_code: int) -> NoReturn:
    """End the process, also where threads are left that do not answer; Python would wait for them for ever."""
    deadline = time.monotonic() + _GRACE_S
    for thread in _our_threads():
        thread.join(max(0.0, deadline - time.monotonic()))
    if left := _our_threads():
        names = ", ".join(sorted({thread.name for thread in left}))
        print(f"left without waiting for threads that do not answer: {names}", file=sys.stderr)
        leave_at_once(exit_code)
    sys.exit(exit_code)


def leave_at_once(exit_code: int) -> NoReturn:
    """End the process without any clean-up but that of the output."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(exit_code)


def _our_threads() -> list[threading.Thread]:
    """Threads of ours that live; once a job is over there are none, but for those that hang."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("mimicpipe")]
