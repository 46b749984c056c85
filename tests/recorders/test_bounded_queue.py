import threading
import time
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.recorders.bounded_queue import BoundedQueue

sizes = st.integers(0, 12)


def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


@given(
    max_items=st.integers(0, 4),
    max_bytes=st.sampled_from([0, 5, 10, 20]),
    operations=st.lists(st.one_of(sizes, st.just("get")), max_size=60),
)
@settings(deadline=None, max_examples=100)
def test_one_thread_agrees_with_a_model(max_items, max_bytes, operations):
    queue: BoundedQueue[int] = BoundedQueue(max_items, max_bytes)
    model: deque[tuple[int, int]] = deque()
    peak = 0
    for number, operation in enumerate(operations):
        if operation == "get":
            if model:
                assert queue.get() == model.popleft()[0]
        else:
            total = sum(nbytes for _, nbytes in model)
            fits = (not max_items or len(model) < max_items) and (not max_bytes or total + operation <= max_bytes)
            room = fits or not model
            assert queue.try_put(number, operation) is room
            if room:
                model.append((number, operation))
        peak = max(peak, len(model))
        stats = queue.stats()
        assert stats["queue_size"] == len(model)
        assert stats["queue_bytes"] == sum(nbytes for _, nbytes in model)
        assert stats["queue_peak"] == peak
        assert stats["backpressure_events"] == stats["backpressure_s"] == 0


@given(
    max_items=st.integers(0, 3),
    max_bytes=st.sampled_from([0, 6, 15]),
    loads=st.lists(st.lists(sizes, min_size=1, max_size=25), min_size=1, max_size=4),
    close_early=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_many_producers_lose_nothing_keep_their_order_and_stay_within_the_bounds(
    max_items, max_bytes, loads, close_early
):
    queue: BoundedQueue[tuple[int, int]] = BoundedQueue(max_items, max_bytes)
    violations = []

    def check():
        stats = queue.stats()
        if max_items and stats["queue_size"] > max_items:
            violations.append(stats)
        if max_bytes and stats["queue_bytes"] > max_bytes and stats["queue_size"] > 1:
            violations.append(stats)

    accepted: list[list[int]] = [[] for _ in loads]

    def produce(producer, load):
        for number, nbytes in enumerate(load):
            try:
                queue.put((producer, number), nbytes)
            except RuntimeError:
                return
            accepted[producer].append(number)
            check()

    taken = []

    def consume():
        while (item := queue.get()) is not None:
            taken.append(item)
            check()

    producers = [in_thread(produce, producer, load) for producer, load in enumerate(loads)]
    consumer = in_thread(consume)
    if not close_early:
        for thread in producers:
            thread.join()
    queue.close()
    for thread in (*producers, consumer):
        thread.join()

    for producer, numbers in enumerate(accepted):
        assert [number for source, number in taken if source == producer] == numbers
        if not close_early:
            assert numbers == list(range(len(loads[producer])))
    assert violations == []
    assert not max_items or queue.stats()["queue_peak"] <= max_items


def test_a_full_queue_makes_the_producer_wait_and_accounts_for_it(wait_until):
    queue: BoundedQueue[str] = BoundedQueue(1, 0)
    queue.put("first", 1)
    assert queue.try_put("refused", 1) is False
    producer = in_thread(queue.put, "second", 1)
    wait_until(lambda: queue.stats()["backpressure_events"] == 1)
    waiting = queue.stats()["backpressure_s"]
    assert 0 < waiting < queue.stats()["backpressure_s"]  # a wait counts while it lasts
    assert producer.is_alive()
    assert queue.get() == "first"
    producer.join()
    assert queue.get() == "second"
    final = queue.stats()
    assert final["backpressure_s"] == queue.stats()["backpressure_s"] > waiting
    assert (final["queue_size"], final["queue_peak"], final["backpressure_events"]) == (0, 1, 1)


def test_an_item_beyond_the_byte_limit_waits_for_an_empty_queue(wait_until):
    queue: BoundedQueue[str] = BoundedQueue(0, 10)
    assert queue.try_put("small", 1)
    producer = in_thread(queue.put, "huge", 1000)
    wait_until(lambda: queue.stats()["backpressure_events"] == 1)
    assert queue.try_put("small, later", 1) is False  # does not overtake
    assert queue.get() == "small"
    producer.join()
    assert queue.stats()["queue_bytes"] == 1000
    assert queue.get() == "huge"


def test_closing_serves_those_who_wait_and_refuses_the_rest(wait_until):
    queue: BoundedQueue[str] = BoundedQueue(1, 0)
    queue.put("first", 0)
    producer = in_thread(queue.put, "second", 0)
    wait_until(lambda: queue.stats()["backpressure_events"] == 1)
    queue.close()
    with pytest.raises(RuntimeError, match="closed"):
        queue.put("third", 0)
    with pytest.raises(RuntimeError, match="closed"):
        queue.try_put("third", 0)
    assert queue.get() == "first"
    assert queue.get() == "second"
    producer.join()
    assert queue.get() is None
    assert queue.get() is None


def test_clear_removes_everything():
    queue: BoundedQueue[str] = BoundedQueue(0, 0)
    queue.put("a", 3)
    queue.put("b", 4)
    assert queue.clear() == 2
    assert queue.stats()["queue_size"] == queue.stats()["queue_bytes"] == 0


def test_waiting_is_summed_over_items():
    queue = BoundedQueue[str](0, 0)
    queue.put("a", 1)
    queue.put("b", 1)
    time.sleep(0.02)
    queue.get()
    time.sleep(0.02)
    stats = queue.stats()
    assert stats["queue_wait_s"] >= 2 * 0.02 + 0.02
    queue.clear()
    waited = queue.stats()["queue_wait_s"]
    time.sleep(0.02)
    assert queue.stats()["queue_wait_s"] == waited
