"""SIGINT and SIGTERM during a run: the first one asks it to end well, the second one ends it at once."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143}
"""128 + the signal's number, as shells have it."""


@contextmanager
def stop_on_signal(
    loop: asyncio.AbstractEventLoop, stop: Callable[[str], None], leave: Callable[[], None]
) -> Generator[None]:
    """Handle both signals, also while a coroutine keeps the event loop from running.

    Args:
        loop: the running loop.
        stop: called in the loop, with the signal's name, at the first one.
        leave: called at the second one, just before the process ends without any further clean-up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's business
        return
    seen: list[str] = []

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
def sigterm_as_exit() -> Generator[None]:
    """Turn SIGTERM into SystemExit(143), so that a run that has not begun or is just ending still cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_: int, __: FrameType | None) -> None:
        raise SystemExit(EXIT_CODES["SIGTERM"])

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def end_stuck_process(error: Exception) -> None:
    """Say why, and end the process at once: its event loop is blocked, so it cannot end in any other way."""
    print(f"error: {error}\nthe event loop does not answer; the process ends here", file=sys.stderr, flush=True)
    os._exit(1)
