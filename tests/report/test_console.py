import io
import logging
import re
import sys

import pytest

from mimicpipe.report import console
from mimicpipe.report.console import ProgressView, bottleneck, stage_shares

SNAPSHOT = {
    "wall_s": 30.0,
    "generation/successes": 25.0,
    "generation/attempts": 26.0,
    "throughput/demos_per_hour": 3000.0,
    "throughput/env_steps_per_s": 3412.4,
    "queue/action_depth": 3.0,
    "queue/reset_depth": 0.0,
    "recorder/queue_size": 2.0,
    "recorder/queue_maxsize": 64.0,
    "recorder/queue_bytes": 11e6,
    "time/step_s": 20.0,
    "time/plan_s": 5.0,
    "time/wait_s": 0.0,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def plain_text(stream: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_a_plain_line_says_everything():
    stream = io.StringIO()
    with ProgressView("pick D0", 100, stream=stream) as view:
        view.update(SNAPSHOT)
    assert stream.getvalue() == (
        "[0:30] pick D0: 25/100 demos | 96.2 % of 26 attempts | 3,000 demos/h | 3,412 env-steps/s | "
        "queues: action 3, reset 0, recorder 2/64, 11 MB | bottleneck step (80.0 %) | ETA 1:30\n"
    )


def test_plain_lines_come_now_and_then(monkeypatch):
    stream, clock = io.StringIO(), iter([0.0, 1.0, 4.9, 5.0, 9.0, 10.1])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    view = ProgressView("pick D0", 100, stream=stream)
    for _ in range(6):
        view.update(SNAPSHOT)
    assert stream.getvalue().count("\n") == 3


def test_the_live_view_fits_eighty_columns_and_leaves_nothing_behind(terminal):
    with ProgressView("pick D0, mujoco x 16", 100, max_attempts=200, stream=terminal) as view:
        view.update(SNAPSHOT)
        drawn = plain_text(terminal)
    lines = [line for line in drawn.replace("\r", "").splitlines() if line.strip()]
    assert lines[0].rstrip() == "pick D0, mujoco x 16   0:30 gone, ETA 1:30"
    assert lines[1].rstrip().endswith("25/100 demos")
    assert lines[2].rstrip() == "96.2 % of 26/200 attempts   3,000 demos/h   3,412 env-steps/s"
    assert lines[3].rstrip().startswith("queues: action 3, reset 0, recorder 2/64, 11 MB   bottleneck step")
    assert max(map(len, lines)) <= 80
    after = terminal.getvalue()
    assert after.endswith("\x1b[2K") or after.rstrip("\r\n").endswith("\x1b[2K")
    assert "\x1b[?25h" in after


def test_a_phase_takes_the_place_of_the_eta(terminal):
    with ProgressView("pick", 100, stream=terminal) as view:
        view.update(SNAPSHOT, "writing the last episodes")
        assert "writing the last episodes" in plain_text(terminal)
        assert "ETA" not in plain_text(terminal)


def test_log_lines_go_above_the_live_view(terminal):
    handler = logging.StreamHandler(sys.__stderr__)
    logging.getLogger().addHandler(handler)
    try:
        with ProgressView("pick", 100, stream=terminal) as view:
            view.update(SNAPSHOT)
            assert handler.stream is not sys.__stderr__
            logging.getLogger().warning("a slot failed")
            assert "a slot failed" in plain_text(terminal)
        assert handler.stream is sys.__stderr__
    finally:
        logging.getLogger().removeHandler(handler)


def test_nothing_is_needed_of_a_snapshot():
    stream = io.StringIO()
    ProgressView("pick", 100, stream=stream).update({})
    assert stream.getvalue() == "[0:00] pick: 0/100 demos | - of 0 attempts | ETA -\n"


def test_eta_is_that_of_the_nearer_limit():
    view = ProgressView("pick", 100, max_attempts=52, stream=io.StringIO())
    assert view._eta_s(SNAPSHOT) == pytest.approx(30.0)


def test_shares_are_of_the_time_that_was_measured():
    assert stage_shares(SNAPSHOT) == {"step": 0.8, "plan": 0.2}
    assert bottleneck(SNAPSHOT) == "bottleneck step (80.0 %)"
    assert bottleneck({}) == ""
