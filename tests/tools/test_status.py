import json
import os
import time

import pytest

from mimicpipe.tools import status
from mimicpipe.tools.status import EXIT_CODES, last_row, read_status
from mimicpipe.trackers.jsonl import JsonlTracker

ROW = {
    "generation/successes": 30.0, "generation/attempts": 40.0, "throughput/demos_per_hour": 3600.0,
    "time/step_s": 20.0, "time/plan_s": 10.0, "queue/action_depth": 2.0,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text("num_demos: 120\nmax_attempts: null\ntask: {name: pick}\n")
    return tmp_path / "run"


def said(folder, capsys, *flags):
    code = status.main([str(folder), *flags])
    return code, capsys.readouterr().out


def test_a_run_that_lives_says_how_far_it_is(folder, capsys):
    tracker = JsonlTracker(folder / "metrics.jsonl")
    tracker.log(ROW, 100, 30.0)
    code, text = said(folder, capsys)
    assert code == 0
    assert "running" in text.splitlines()[0]
    assert "30 of 120, 75.0 % of 40 attempts, ETA 1:30" in text
    assert "3,600 demos/h" in text
    assert "bottleneck  step (66.7 %)" in text
    assert "queues      action 2" in text
    tracker.close({}, 0)


def test_one_that_has_gone_without_a_word_was_killed(folder, capsys):
    tracker = JsonlTracker(folder / "metrics.jsonl")
    tracker.log(ROW, 100, 30.0)
    tracker.close({}, 0)
    code, text = said(folder, capsys)
    assert code == EXIT_CODES["killed"]
    assert "killed" in text.splitlines()[0]
    assert f"resume={folder}" in text
    assert "mimicpipe.tools.recover" in text


@pytest.mark.parametrize(
    ("record", "state", "code"),
    [
        ({"exit_reason": "num_demos", "exit_code": 0}, "ended", 0),
        ({"exit_reason": "SIGINT", "exit_code": 130}, "ended", 0),
        ({"exit_reason": "ValueError: x", "exit_code": 1}, "failed", 1),
        ({"exit_reason": "killed", "exit_code": 137}, "killed", 3),
    ],
)
def test_one_that_has_ended_says_how(folder, capsys, record, state, code):
    (folder / "run.json").write_text(json.dumps(record))
    assert read_status(folder).state == state
    assert said(folder, capsys)[0] == code


def test_a_run_that_is_being_set_up_is_not_yet_dead(folder):
    assert read_status(folder).state == "setting up"
    long_ago = time.time() - 3600
    os.utime(folder, (long_ago, long_ago))
    assert read_status(folder).state == "killed"


def test_the_last_whole_row_counts(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_row(path) == {}
    path.write_text('{"a": 1}\n{"a": 2, "b": null}\n{"a": 3')
    assert last_row(path) == {"a": 2}
    path.write_text("".join(f'{{"a": {k}, "pad": "{"x" * 500}"}}\n' for k in range(500)))
    assert last_row(path)["a"] == 499


def test_watching_ends_with_the_run(recorded_run, capsys):
    code, text = said(recorded_run, capsys, "--watch")
    assert code == 0
    assert "ended by num_demos" in text
    assert "5 of 5" in text


def test_jobs_of_a_sweep(folder, capsys):
    for job in ("0", "1"):
        (folder.parent / "sweep" / job / ".hydra").mkdir(parents=True)
    (folder.parent / "sweep" / "0" / "run.json").write_text('{"exit_reason": "num_demos", "exit_code": 0}')
    code, text = said(folder.parent / "sweep", capsys)
    assert (code, len(text.splitlines())) == (0, 2)


def test_no_run_is_one_line(tmp_path, capsys):
    assert status.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
