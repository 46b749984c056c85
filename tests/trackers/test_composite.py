import logging

from mimicpipe.trackers.base import Tracker
from mimicpipe.trackers.composite import CompositeTracker


class Memory(Tracker):
    """Keeps what it gets; raises where it is told to."""

    def __init__(self, fail_at: str = "") -> None:
        self.fail_at = fail_at
        self.calls: list[tuple] = []

    def log(self, metrics, env_steps, wall_s):
        self.calls.append(("log", dict(metrics), env_steps, wall_s))
        if self.fail_at == "log":
            raise OSError("the disk is full\nand more")

    def close(self, summary, exit_code):
        self.calls.append(("close", dict(summary), exit_code))
        if self.fail_at == "close":
            raise ValueError


def test_everything_is_passed_on():
    first, second = Memory(), Memory()
    both = CompositeTracker([first], [lambda: second])
    both.log({"a": 1.0}, 2, 3.0)
    both.close({"why": "done"}, 0)
    both.close({"why": "done"}, 0)
    assert first.calls == second.calls == [("log", {"a": 1.0}, 2, 3.0), ("close", {"why": "done"}, 0)]


def test_a_tracker_that_fails_is_closed_and_the_others_go_on(caplog):
    bad, good = Memory(fail_at="log"), Memory()
    both = CompositeTracker([bad, good])
    for step in range(3):
        both.log({}, step, 0.0)
    both.close({}, 1)
    assert bad.calls == [("log", {}, 0, 0.0), ("close", {}, 1)]
    assert [call[0] for call in good.calls] == ["log", "log", "log", "close"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Memory.log failed" in record.getMessage()
    assert record.getMessage().endswith("the disk is full")


def test_a_failing_close_stops_nobody(caplog):
    good = Memory()
    CompositeTracker([Memory(fail_at="close"), good]).close({}, 0)
    assert good.calls == [("close", {}, 0)]
    assert "ValueError" in caplog.text
