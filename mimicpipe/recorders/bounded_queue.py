"""A first-in, first-out queue bounded by items and by bytes, which accounts for the time its producers wait."""

import threading
import time
from collections import deque

from mimicpipe.pipeline.telemetry import QueueMeter


class BoundedQueue[T]:
    """Hands items from any number of producers to consumers, in the order in which the producers asked.

    A producer that has to wait is served before any that comes later, so a large item is not overtaken by small ones.
    An item larger than `max_bytes` is taken when the queue is empty: refusing it would be a deadlock.

    Args:
        max_items: most items that wait; 0 is no limit.
        max_bytes: most bytes that wait; 0 is no limit.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._waiting: deque[float] = deque()  # when each waiting producer began to wait; a time is its ticket
        self._changed = threading.Condition()
        self._closed = False
        self._meter = QueueMeter()
        self._events = 0
        self._waited_s = 0.0

    def put(self, item: T, nbytes: int) -> None:
        """Append an item, waiting for room.

        Raises:
            RuntimeError: the queue was closed before the call.
        """
        with self._changed:
            self._require_open()
            if not self._has_room(nbytes) or self._waiting:
                self._wait_for_room(nbytes)
            self._append(item, nbytes)

    def try_put(self, item: T, nbytes: int) -> bool:
        """Append an item if there is room and nobody waits for it; False changes nothing, nor is it accounted."""
        with self._changed:
            self._require_open()
            if not self._has_room(nbytes) or self._waiting:
                return False
            self._append(item, nbytes)
            return True

    def get(self) -> T | None:
        """Remove the oldest item, waiting for one; None once the queue is closed and empty."""
        items = self.get_many(1)
        return items[0] if items else None

    def get_many(self, max_items: int, max_bytes: int = 0) -> list[T]:
        """Remove the oldest items, waiting for one; [] once the queue is closed and empty.

        Args:
            max_items: most items.
            max_bytes: most bytes of them together; a single larger one is taken, too.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or (self._closed and not self._waiting))
            taken: list[T] = []
            total = 0
            while len(taken) < max_items and self._items:
                item, nbytes = self._items[0]
                if taken and total + nbytes > max_bytes:
                    break
                self._items.popleft()
                taken.append(item)
                total += nbytes
            self._bytes -= total
            self._meter.change(len(self._items))
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Refuse further items; producers that wait already are still served."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def clear(self) -> int:
        """Remove every item and return how many there were."""
        with self._changed:
            count = len(self._items)
            self._items.clear()
            self._meter.change(0)
            self._bytes = 0
            self._changed.notify_all()
            return count

    def stats(self) -> dict[str, float]:
        """Where the queue stands and what it has cost.

        Returns:
            `queue_size` and `queue_bytes` that wait, `queue_peak`, the most items that ever did, `queue_wait_s`, how
            long items have waited, summed over items, and how often and long (s) producers waited for room.
        """
        with self._changed:
            now = time.perf_counter()
            return {
                "queue_size": len(self._items),
                "queue_bytes": self._bytes,
                "queue_peak": self._meter.peak,
                "queue_wait_s": self._meter.wait_s,
                "backpressure_events": self._events,
                "backpressure_s": self._waited_s + sum(now - since for since in self._waiting),
            }

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the queue is closed")

    def _has_room(self, nbytes: int) -> bool:
        if not self._items:
            return True
        if self.max_items and len(self._items) >= self.max_items:
            return False
        return not self.max_bytes or self._bytes + nbytes <= self.max_bytes

    def _wait_for_room(self, nbytes: int) -> None:
        ticket = time.perf_counter()
        while ticket in self._waiting:  # two producers within one clock tick
            ticket += 1e-9
        self._waiting.append(ticket)
        self._events += 1
        try:
            self._changed.wait_for(lambda: self._waiting[0] == ticket and self._has_room(nbytes))
        finally:
            self._waiting.remove(ticket)
            self._waited_s += time.perf_counter() - ticket
            self._changed.notify_all()

    def _append(self, item: T, nbytes: int) -> None:
        self._items.append((item, nbytes))
        self._bytes += nbytes
        self._meter.change(len(self._items))
        self._changed.notify_all()
