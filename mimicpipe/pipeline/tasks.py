"""Ends the tasks of a run, also those that do not want to."""

import asyncio
import logging
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from mimicpipe.errors import StallError

_log = logging.getLogger("mimicpipe")

_GRACE_S = 1.0
"""What a task has to end once it is asked to, before it is asked in a harder way, seconds."""


def is_cancelled() -> bool:
    """Whether somebody has asked the current task to end; else a CancelledError is that of something it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end_tasks(
    tasks: "Collection[asyncio.Task[Any]]", on_stuck: Callable[[StallError], None] | None = None
) -> None:
    """Cancel tasks and wait for their end; a task that swallows its cancellation is closed.

    consumes: tasks, of slots. waits for: each of them, a limited time.

    Args:
        tasks: what to end.
        on_stuck: called if one goes on all the same: nothing in this process can end it.
    """
    for task in tasks:
        task.cancel()
    left = await _after_grace(tasks)
    for task in left:
        _log.warning("%s swallows its cancellation and is closed: it %s", task.get_name(), awaits(task))
        _close(task)
    left = await _after_grace(left)
    if left:
        lines = [f"{task.get_name()} cannot be ended, it swallows everything: it {awaits(task)}" for task in left]
        for line in lines:
            _log.error("%s", line)
        if on_stuck is not None:
            on_stuck(StallError("\n".join(lines)))


async def _after_grace(tasks: "Collection[asyncio.Task[Any]]") -> "list[asyncio.Task[Any]]":
    if not tasks:
        return []
    _, left = await asyncio.wait(tasks, timeout=_GRACE_S)
    return sorted(left, key=lambda task: task.get_name())


def _close(task: "asyncio.Task[Any]") -> None:
    """Raise GeneratorExit in what the task's coroutine awaits; the coroutine itself then goes on, and ends."""
    coroutine: Any = task.get_coro()
    inner = getattr(coroutine, "cr_await", None)
    if hasattr(inner, "close"):
        try:
            inner.close()
        except RuntimeError as error:  # "coroutine ignored GeneratorExit"
            _log.error("%s: %s", task.get_name(), error)
    task.cancel()


def awaits(task: "asyncio.Task[Any]") -> str:
    """Where a task stands: its innermost coroutine, and the generator's, if that is another."""
    coroutine: Any = task.get_coro()
    frames: list[FrameType] = []
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        frames.append(coroutine.cr_frame)
        coroutine = coroutine.cr_await
    if not frames:
        return "has finished"
    by = f", called by {_place(frames[1])}" if len(frames) > 2 else ""  # frames[0] is ours, and calls the generator
    return f"awaits in {_place(frames[-1])}{by}"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
