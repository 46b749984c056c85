"""SIGINT and SIGTERM during a run: the first one asks it to end well, the second one ends it at once."""

import asyncio
import os
import signal
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
    """Handle both signals in the event loop.

    Args:
        loop: the running loop.
        stop: called with the signal's name at the first one.
        leave: called at the second one, just before the process ends without any further clean-up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's business
        return
    seen: list[str] = []

    def handle(number: signal.Signals) -> None:
        if seen:
            leave()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        seen.append(number.name)
        stop(number.name)

    numbers = [signal.Signals[name] for name in EXIT_CODES]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


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
