import itertools
import json
import random

import pytest

from mimicpipe.pipeline.episode import Outcome
from mimicpipe.report import tally as module
from mimicpipe.report.attempts import AttemptsLog
from mimicpipe.report.tally import tally


def row(attempt, success, demos=("demo_0",), reason=None):
    reason = reason or ("success" if success else "timeout")
    sources = [{"eef": "panda", "subtask": i, "demo": demo} for i, demo in enumerate(demos)]
    return {"attempt": attempt, "slot": 0, "seed": 1000 + attempt, "success": success, "reason": reason, "length": 10,
            "source_demos": sources, "episode_index": None, "detail": ""}  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_attempts_are_added_up_by_reason_and_by_demo(tmp_path):
    path = write(tmp_path / "a", [row(0, True, ("a", "b")), row(1, False, ("a", "a")), row(2, True, ("b",))])
    found = tally(path)
    assert (found.attempts, found.successes) == (3, 2)
    assert dict(found.reasons) == {"success": 2, "timeout": 1}
    assert {name: (use.attempts, use.successes) for name, use in found.demos.items()} == {"a": (2, 1), "b": (2, 2)}
    assert found.starts == {True: [(0, 1000), (2, 1002)], False: [(1, 1001)]}
    assert (found.steps[True], found.steps[False]) == (20, 10)


@pytest.mark.parametrize(("cut", "left"), [(1, 10), (2, 9), (40, 9), (200, 8)])
def test_a_file_that_was_cut_off_counts_as_far_as_it_goes(tmp_path, cut, left):
    path = write(tmp_path / "a", [row(k, True) for k in range(10)])
    path.write_bytes(path.read_bytes()[:-cut])
    assert tally(path).attempts == left


def test_there_may_be_no_file(tmp_path):
    assert tally(tmp_path / "none").attempts == 0


def test_a_long_file_is_thinned_evenly(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_STARTS", 20)
    monkeypatch.setattr(module, "_LINES", 7)
    monkeypatch.setattr(module, "_MOST_KINDS", 1)
    draw = random.Random(1)
    rows = [row(k, draw.random() < 0.9) for k in range(1000)]
    found = tally(write(tmp_path / "a", rows))
    assert found.attempts == 1000
    for success in (True, False):
        kind = [(r["attempt"], r["seed"]) for r in rows if r["success"] == success]
        shown = found.starts[success]
        assert 20 <= len(shown) < 40
        strides = {kind.index(b) - kind.index(a) for a, b in itertools.pairwise(shown)}
        assert len(strides) == 1
        assert shown[0] == kind[0]
        assert len(kind) - kind.index(shown[-1]) <= strides.pop()


def test_a_row_is_read_the_same_whoever_has_written_it(tmp_path):
    rows = [row(k, k % 3 > 0, (f"demo_{k % 2}", "b"), 'error:\\"}, "episode_index": 3') for k in range(9)]
    odd = [{**r, "detail": 'a "quoted" \\ word, "episode_index": 4'} for r in rows]
    ours = tally(write(tmp_path / "ours", [*rows, *odd]))
    (tmp_path / "others").write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in [*rows, *odd]))
    assert tally(tmp_path / "others") == ours
    assert ours.attempts == 18
    assert dict(ours.reasons) == {rows[0]["reason"]: 18}


def test_what_is_written_is_read_without_looking_at_each_row(tmp_path, monkeypatch):
    log = AttemptsLog(tmp_path / "attempts.jsonl")
    for k in range(50):
        sources = [{"eef": "panda", "subtask": 0, "demo": f"demo_{k % 2}"}]
        log.settled(Outcome(k, 0, 1000 + k, True, "success", 10, sources))
    log.close()
    parsed = []
    loads = json.loads
    monkeypatch.setattr(module.json, "loads", lambda text: parsed.append(text) or loads(text))
    assert tally(tmp_path / "attempts.jsonl").successes == 50
    assert len(parsed) == 2
