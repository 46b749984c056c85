"""Which slots act, which think, which are parked: the one counter that tells the env loop when it may step.

A slot *thinks* while its coroutine runs or awaits anything but the two queues; it is *settled* once it has put a
request or is parked (no attempt to do). The loop steps when no slot thinks. Nothing polls: the last slot to settle
wakes the loop. A slot that is *away* waits for work done elsewhere: it is parked in the middle of its attempt.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor

from mimicpipe.pipeline.ends import Flags, Ints
from mimicpipe.pipeline.transfer import uploader

current_slot: ContextVar[int | None] = ContextVar("current_slot", default=None)
"""The slot whose coroutine is running; child tasks of a generator inherit it."""


def flags(count: int) -> tuple[bytearray, Flags]:
    """So many flags, all false, as bytes and as an array in the same memory: one for a slot, one for many at once."""
    single = bytearray(count)
    return single, np.frombuffer(single, dtype=np.bool_)


class SlotBoard:
    """States of N slots. Every slot starts thinking (its coroutine is about to run)."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.num_envs = num_envs
        self.device = device
        self._settled, self._is_settled = flags(num_envs)
        self._active = np.ones(num_envs, dtype=np.bool_)
        self.thinking = num_envs
        self.num_parked = 0
        self.num_away = 0
        self._waiter: asyncio.Future[None] | None = None
        self._active_ids: tuple[Ints, Tensor] | None = None
        self._sitting_out: list[Callable[[], None]] = []
        self._over = False
        self._upload = uploader(device)

    def settle(self, slot: int) -> None:
        """The slot has a request in a queue."""
        if not self._settled[slot]:
            self._settled[slot] = True
            self._fewer_think(1)

    def settle_all(self, slots: Ints) -> None:
        """The slots (K,) have requests."""
        thinking = slots[~self._is_settled[slots]]
        self._is_settled[thinking] = True
        self._fewer_think(len(thinking))

    def _fewer_think(self, count: int) -> None:
        self.thinking -= count
        if self.thinking == 0:
            self._wake()

    def think_all(self, slots: Ints) -> None:
        """The requests of the slots (K,) were served."""
        settled = slots[self._is_settled[slots]]
        self._is_settled[settled] = False
        self.thinking += len(settled)

    def think(self, slot: int) -> None:
        """The slot's request was served: its coroutine goes on."""
        if self._settled[slot]:
            self._settled[slot] = False
            self.thinking += 1

    def park(self, slot: int) -> None:
        """The slot has no attempt to do; it is not stepped and holds nobody up."""
        if self._active[slot]:
            self._active[slot] = False
            self._more_park(1)
        self.settle(slot)

    def unpark(self, slot: int) -> None:
        """The slot has an attempt again."""
        if not self._active[slot]:
            self._active[slot] = True
            self._more_park(-1)
        self.think(slot)
        self._wake()

    def park_all(self, slots: Ints) -> None:
        """As `park`, of slots (K,)."""
        acting = slots[self._active[slots]]
        if len(acting):
            self._active[acting] = False
            self._more_park(len(acting))
        self.settle_all(slots)

    def unpark_all(self, slots: Ints) -> None:
        """As `unpark`, of slots (K,)."""
        parked = slots[~self._active[slots]]
        if len(parked):
            self._active[parked] = True
            self._more_park(-len(parked))
        self.think_all(slots)
        self._wake()

    def _more_park(self, count: int) -> None:
        self.num_parked += count
        self._active_ids = None

    def leave(self, slot: int) -> None:
        """The slot waits for something slow, which the others need not wait for; its state stands still meanwhile."""
        self.num_away += 1
        self.park(slot)

    def come_back(self, slot: int) -> None:
        """The slot goes on with its attempt."""
        self.num_away -= 1
        self.unpark(slot)

    async def someone_is_back(self) -> None:
        """Where every slot is parked or away: wait until one changes that, or the run ends."""
        if self.num_parked == self.num_envs and not self._over:
            await self._wait()

    def _wake(self) -> None:
        """Let the env loop, if it waits, look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def is_thinking(self, slot: int) -> bool:
        """Whether the slot's coroutine is running or awaits something of its own."""
        return not self._settled[slot]

    def active_ids(self, resting: Ints) -> tuple[Ints, Tensor]:
        """(K,) ascending indices of the slots that are neither parked nor `resting` (R,), on host and device."""
        if len(resting):
            active = self._active.copy()
            active[resting] = False
            return self._ids(active)
        if self._active_ids is None:
            self._active_ids = self._ids(self._active)
        return self._active_ids

    def _ids(self, mask: Flags) -> tuple[Ints, Tensor]:
        ids = np.flatnonzero(mask)
        return ids, self._upload(ids)

    async def next_step(self, slot: int) -> None:
        """Park the slot until the others have stepped, or until there is no other."""
        self.park(slot)
        future = asyncio.get_running_loop().create_future()
        self.at_next_step(lambda: None if future.done() else future.set_result(None))
        await future

    def at_next_step(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once the slots that are not parked have stepped, or where there is none."""
        self._sitting_out.append(go_on)

    def release(self) -> bool:
        """Let the slots that sit out a step go on; False if there are none."""
        released, self._sitting_out = self._sitting_out, []
        for go_on in released:
            go_on()
        return bool(released)

    def stop(self) -> None:
        """The run ends: nobody waits for a slot any more, however long it thinks."""
        self._over = True
        self._wake()

    async def all_settled(self) -> None:
        """Wait until no slot thinks, or the run ends."""
        while self.thinking and not self._over:
            await self._wait()
