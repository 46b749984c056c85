"""The two request queues between generators and the env loop, with `asyncio.Queue`'s words.

Producer (a generator's coroutine): `await queue.put(item)`, then `await queue.join()`, which waits for the requests of
the calling slot only. Consumer (the env loop): `drain()` everything, serve it in one batch, then `task_done(env_id)`
for each slot.

One slot has at most one request at a time. A request is checked where it is made, so that the exception is raised in
the coroutine that made the mistake and ends that attempt only.
"""

import asyncio
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
import torch

from mimicpipe.errors import RequestError
from mimicpipe.pipeline.checks import RequestChecks
from mimicpipe.pipeline.ends import NO_SLOTS, Ints
from mimicpipe.pipeline.protocol import Plan
from mimicpipe.pipeline.slots import SlotBoard, current_slot, flags
from mimicpipe.pipeline.telemetry import QueueMeter


class OwnedLock(Protocol):
    """A lock that knows whether the current task holds it."""

    def held_by_current_task(self) -> bool:
        """Whether the calling task holds the lock."""
        ...


class Served:
    """What has become of the requests that one task has put for many slots."""

    def __init__(self) -> None:
        self._slots: list[Ints] = []
        self._errors: dict[int, Exception] = {}
        self._waiter: asyncio.Future[None] | None = None

    def note(self, slots: Ints, error: Exception | None = None) -> None:
        """The requests of slots (K,) are served, or have failed."""
        self._slots.append(slots)
        if error is not None:
            self._errors |= dict.fromkeys(slots.tolist(), error)
        self.wake()

    def wake(self) -> None:
        """Let the task go on that waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> tuple[Ints, dict[int, Exception]]:
        """Wait until a request is served, or for `wake`.

        Returns:
            Slots (K,), ascending, whose requests were served since the last call; {slot: error} of those that failed.
        """
        if not self._slots:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        slots, errors = self._slots, self._errors
        self._slots, self._errors = [], {}
        return np.sort(np.concatenate((NO_SLOTS, *slots))), errors


class RequestQueue:
    """Requests of slots, served in batches.

    consumes: `env_id`, or `(env_id, state)` to begin in a given state (reset queue),
    or `(env_id, payload)` (action queue) from the slots' coroutines.
    produces: lists of `(env_id, payload)` for the env loop.
    waits for: nothing; `put` never blocks, `join` waits until the env loop has served the slot.
    """

    def __init__(self, name: str, board: SlotBoard, *, lock: OwnedLock | None = None) -> None:
        self.name = name
        self.meter = QueueMeter()
        self._board = board
        self._lock = lock
        self._items: list[tuple[int, Any]] = []
        self._batches: list[tuple[Ints, Any]] = []
        self._pending, self._is_pending = flags(board.num_envs)
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._late_errors: dict[int, Exception] = {}
        self._taken: list[int] = []
        self._unfinished = 0
        self._all_done: asyncio.Future[None] | None = None
        self._closed: BaseException | None = None
        self.not_during: RequestQueue | None = None
        """A queue whose requests come after those of this one: a slot may put both, in this order, before it waits."""
        self.served: Served | None = None
        """Where what has become of requests from `put_all` is noted; None where nobody asks."""

    def _check_slot(self, env_id: Any) -> int:
        try:
            env_id = env_id.__index__()
        except AttributeError:
            raise RequestError(f"{self.name}: env_id must be an integer, got {type(env_id).__name__}") from None
        if not 0 <= env_id < self._board.num_envs:
            raise RequestError(f"{self.name}: no slot {env_id}; this env has slots 0 to {self._board.num_envs - 1}")
        caller = current_slot.get()
        if caller is not None and caller != env_id:
            raise RequestError(f"{self.name}: slot {caller} put a request for slot {env_id}; use your own env_id")
        if self._pending[env_id]:
            raise RequestError(f"{self.name}: slot {env_id} has a request already; await join() before the next put()")
        other = self.not_during
        if other is not None and other.is_pending(env_id):
            raise RequestError(
                f"{self.name}: slot {env_id} has a request in {other.name}; await {other.name}.join() first"
            )
        return env_id

    def put_nowait(self, item: Any) -> None:
        """Submit a request; raises RequestError if it cannot be served."""
        if self._closed is not None:
            raise self._closed
        env_id, payload = self._unpack(item)
        self._pending[env_id] = True
        self._late_errors.pop(env_id, None)
        self._items.append((env_id, payload))
        self.meter.change(self.qsize())
        self._unfinished += 1
        self._board.settle(env_id)

    def _unpack(self, item: Any) -> tuple[int, Any]:
        if not isinstance(item, tuple):
            return self._check_slot(item), None
        if len(item) != 2 or not isinstance(item[1], torch.Tensor) or item[1].ndim != 1:
            raise RequestError(f"{self.name}: put env_id, or (env_id, state) with a state (S,) from get_state")
        return self._check_slot(item[0]), item[1]

    async def put(self, item: Any) -> None:
        """Submit a request; never blocks (there is at most one per slot)."""
        if self._closed is not None:
            await asyncio.sleep(0)  # or a generator that catches everything and tries again would block the loop
        self.put_nowait(item)

    def put_all(self, slots: Ints, payload: Any = None) -> None:
        """Submit one request for each of slots (K,), none of which has one; `payload` holds all of them.

        That they are served is noted in `served`.
        """
        if self._closed is not None:
            raise self._closed
        self._is_pending[slots] = True
        self._batches.append((slots, payload))
        self._unfinished += len(slots)
        self.meter.change(self.qsize())
        self._board.settle_all(slots)

    async def join(self) -> None:
        """Wait until the calling slot's request is served; outside a slot, until every request is.

        Raises:
            RequestError: the caller holds the pool's lock, which would stop every generator that needs it.
        """
        if self._lock is not None and self._lock.held_by_current_task():
            raise RequestError(f"{self.name}: join() while holding the pool's asyncio_lock; leave the lock first")
        slot = current_slot.get()
        if slot is None:
            await self._join_all()
            return
        if not self._pending[slot]:
            if slot in self._late_errors:
                raise self._late_errors.pop(slot)
            return
        future = self._futures.get(slot)
        if future is None:
            future = self._futures[slot] = asyncio.get_running_loop().create_future()
        await future

    async def _join_all(self) -> None:
        while self._unfinished:
            if self._all_done is None or self._all_done.done():
                self._all_done = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_done)

    def qsize(self) -> int:
        """Requests not yet taken by the env loop."""
        return len(self._items) + sum(len(slots) for slots, _ in self._batches)

    def empty(self) -> bool:
        """Whether no request waits."""
        return not self._items and not self._batches

    def waiting(self) -> Ints:
        """Slots whose request is not yet taken by the env loop."""
        single = np.asarray([slot for slot, _ in self._items], dtype=np.int64)
        return np.concatenate((single, *(slots for slots, _ in self._batches)))

    def is_pending(self, env_id: int) -> bool:
        """Whether the slot has a request that has not been served."""
        return bool(self._pending[env_id])

    def drain(self) -> list[tuple[int, Any]]:
        """Take every request from `put`, ordered by slot (so that batches do not depend on who came first)."""
        items, self._items = sorted(self._items, key=itemgetter(0)), []
        self.meter.change(self.qsize())
        return items

    def drain_all(self) -> list[tuple[Ints, Any]]:
        """Take every batch of requests from `put_all`: slots (K,), and what holds them."""
        batches, self._batches = self._batches, []
        self.meter.change(self.qsize())
        return batches

    def get_nowait(self) -> Any:
        """Take the oldest request as it was put; raises asyncio.QueueEmpty."""
        if not self._items:
            raise asyncio.QueueEmpty
        env_id, payload = self._items.pop(0)
        self.meter.change(self.qsize())
        self._taken.append(env_id)
        return env_id if payload is None else (env_id, payload)

    def task_done(self, env_id: int | None = None, error: Exception | None = None) -> None:
        """The request of `env_id` (None: the oldest from `get_nowait`) is served: `join` returns, or raises `error`."""
        if env_id is None:
            if not self._taken:
                raise ValueError("task_done() called too many times")
            env_id = self._taken.pop(0)
        if not self._pending[env_id]:
            return
        future = self._end(env_id)
        if self.not_during is None or not self.not_during.is_pending(env_id):
            self._board.think(env_id)
        if future is None:
            if self.served is not None:
                self.served.note(np.asarray([env_id]), error)
            elif error is not None:
                self._late_errors[env_id] = error
        elif not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                # A coroutine that has stopped waiting must not leave "exception was never retrieved" behind.
                future.exception()

    def all_done(self, slots: Ints) -> None:
        """The requests of slots (K,) are served."""
        if self._futures:
            for slot in slots.tolist():
                self.task_done(slot)
            return
        self._is_pending[slots] = False
        self._finish(len(slots))
        other = self.not_during
        self._board.think_all(slots if other is None else slots[~other._is_pending[slots]])
        if self.served is not None:
            self.served.note(slots)

    def discard(self, env_id: int) -> None:
        """Forget the slot's request, whose attempt is over."""
        self._late_errors.pop(env_id, None)
        if not self._pending[env_id]:
            return
        self._items = [item for item in self._items if item[0] != env_id]
        self.meter.change(self.qsize())
        future = self._end(env_id)
        if future is not None:
            future.cancel()
        self._board.think(env_id)

    def _end(self, env_id: int) -> asyncio.Future[None] | None:
        """The slot has no request any more; the future that somebody waits for, if anybody does."""
        self._pending[env_id] = False
        self._finish(1)
        return self._futures.pop(env_id, None)

    def _finish(self, count: int) -> None:
        self._unfinished -= count
        if self._unfinished == 0 and self._all_done is not None and not self._all_done.done():
            self._all_done.set_result(None)

    def close(self, error: BaseException) -> None:
        """Every later `put` raises `error`: the run is over."""
        self._closed = error


class ActionQueue(RequestQueue):
    """Action requests `(env_id, action | Plan | PlanRequest)`."""

    def __init__(self, board: SlotBoard, checks: RequestChecks, *, lock: OwnedLock | None = None) -> None:
        super().__init__("env_action_queue", board, lock=lock)
        self._checks = checks

    def _unpack(self, item: Any) -> tuple[int, Any]:
        if not isinstance(item, tuple) or len(item) != 2:
            raise RequestError(f"{self.name}: put (env_id, action) or (env_id, plan), got {type(item).__name__}")
        env_id, payload = self._check_slot(item[0]), item[1]
        if getattr(payload, "planner", None) is not None:
            return env_id, payload
        if isinstance(payload, torch.Tensor):
            fault = self._checks.of_action(payload)
        elif isinstance(payload, Plan):
            fault = self._checks.of_plan(payload)
        else:
            fault = (
                f"a {type(payload).__name__}; valid are a tensor ({self._checks.action_dim},), a Plan, "
                "or a request with a planner"
            )
        if fault is not None:
            raise RequestError(f"{self.name}: slot {env_id} put {fault}")
        return env_id, payload
