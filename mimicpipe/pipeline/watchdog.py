"""Notices that a run has stopped moving, and says who waits for what.

A thread of its own, because a blocking call in a coroutine stops the event loop and everything that runs on it.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from mimicpipe.errors import StallError
from mimicpipe.pipeline.batches import ALL_SLOTS
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pipeline.tasks import awaits

_TASKS_NAMED = 12
"""Tasks listed one by one in a report; the rest are counted."""
_GRACE_S = 5.0
"""What the event loop has to act on a stall before it counts as stuck, seconds."""


class Watchdog:
    """Calls `on_stall(StallError)` once, from its own thread, after `stall_timeout_s` without progress.

    Progress is a step, an episode that a recorder has taken, or a slot that comes back from where it was away: what is
    slow but lives holds the simulator up, and is no stall. Nor is a run that is allowed no more attempts for now.

    If the run has not ended some seconds later, the event loop itself is blocked, and nothing that runs on it can end
    it: `on_stuck`, if given, is called with the same error.
    """

    def __init__(
        self,
        run: RunState,
        loop: asyncio.AbstractEventLoop,
        on_stall: Callable[[StallError], None],
        on_stuck: Callable[[StallError], None] | None = None,
    ) -> None:
        self._run = run
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._on_stall = on_stall
        self._on_stuck = on_stuck
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mimicpipe-watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        """Start watching; call in the event loop's thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        timeout, seen = self._run.options.stall_timeout_s, self._progress()
        while not self._stop.wait(timeout):
            if self._progress() == seen and not self._run.budget.on_hold:
                self._report()
                return
            seen = self._progress()

    def _progress(self) -> tuple[int | None, ...]:
        counters = self._run.counters
        return counters.batch_steps, counters.frames_committed, self._run.returns, self._run.budget.allowed

    def _report(self) -> None:
        error = StallError(stall_report(self._run, self._loop, self._loop_thread))
        self._on_stall(error)
        if not self._stop.wait(_GRACE_S) and self._on_stuck is not None:
            self._on_stuck(error)


def stall_report(run: RunState, loop: asyncio.AbstractEventLoop, loop_thread: int) -> str:
    """What every task waits for, and the depth of each queue, as text of several lines."""
    board = run.board
    lines = [
        f"no progress for {run.options.stall_timeout_s:g} s at batch step {run.counters.batch_steps}: "
        f"{board.thinking} of {board.num_envs} slots have no request",
        f"  queues: env_reset_queue {run.reset_queue.qsize()}, env_action_queue {run.action_queue.qsize()}, "
        f"episodes waiting for earlier attempts {run.ledger.backlog}",
    ]
    if run.ledger.committing is not None:
        lines.append(f"  the recorder has not taken the episode of attempt {run.ledger.committing}")
    blocked = _blocking_frame(loop, loop_thread)
    if blocked:
        lines.append(f"  the event loop is blocked: {blocked}")
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    waiting = [task for task in tasks if _is_suspect(run, task)]
    lines.extend(f"  {task.get_name()}: {awaits(task)}" for task in waiting[:_TASKS_NAMED])
    if len(waiting) > _TASKS_NAMED:
        lines.append(f"  and {len(waiting) - _TASKS_NAMED} more tasks")
    return "\n".join(lines)


def _is_suspect(run: RunState, task: "asyncio.Task[Any]") -> bool:
    """A generator task whose slot has a request is waiting for the others, not holding them up."""
    name = task.get_name()
    if not name.startswith("generator["):
        return True
    if name == ALL_SLOTS:
        return run.board.thinking > 0
    return run.board.is_thinking(int(name[len("generator[") : -1]))


def _blocking_frame(loop: asyncio.AbstractEventLoop, loop_thread: int) -> str | None:
    """The function that keeps the event loop from running, and the task that called it; None if the loop is idle."""
    running = asyncio.current_task(loop)
    frame = sys._current_frames().get(loop_thread)
    if running is None or frame is None:
        return None
    innermost = traceback.extract_stack(frame)[-1]
    return f"task {running.get_name()} runs {innermost.name} ({innermost.filename}:{innermost.lineno})"
