import dataclasses
import json
import tracemalloc

import torch

from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.report.attempts import AttemptsLog


def outcome(attempt: int, episode_index: int | None, reason: str = "success") -> Outcome:
    sources = [{"eef": "panda", "subtask": 0, "demo": "demo_1"}]
    return Outcome(attempt, attempt % 4, 100 + attempt, reason == "success", reason, 7, sources, episode_index)


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_recorded_episodes_row_waits_until_it_is_durable(tmp_path):
    path = tmp_path / "attempts.jsonl"
    log = AttemptsLog(path)
    recorded = outcome(0, 0)
    log.settled(recorded)
    log.settled(outcome(1, None, "timeout"))
    assert [row["attempt"] for row in rows(path)] == [1]
    log.durable(Episode(recorded, {}, "", torch.zeros(0)), 0)
    assert [row["attempt"] for row in rows(path)] == [1, 0]
    log.close()
    first, second = rows(path)
    assert first == {
        "attempt": 0,
        "slot": 0,
        "seed": 100,
        "success": True,
        "reason": "success",
        "length": 7,
        "source_demos": [{"eef": "panda", "subtask": 0, "demo": "demo_1"}],
        "episode_index": 0,
        "detail": "",
    }
    assert (second["attempt"], second["reason"], second["episode_index"]) == (1, "timeout", None)
    assert [p.name for p in tmp_path.iterdir()] == ["attempts.jsonl"]


def test_an_episode_that_never_was_durable_has_no_row(tmp_path):
    log = AttemptsLog(tmp_path / "attempts.jsonl")
    log.settled(outcome(0, 0))
    log.close()
    assert rows(tmp_path / "attempts.jsonl") == []


def test_rows_are_put_in_order_at_the_end(tmp_path):
    kept = [vars_of(outcome(attempt, None, "timeout")) for attempt in range(3)]
    log = AttemptsLog(tmp_path / "attempts.jsonl", kept)
    for attempt in (5, 3, 7, 4, 6):
        log.settled(outcome(attempt, None, "timeout"))
    assert [row["attempt"] for row in rows(log.path)] == [0, 1, 2, 5, 3, 7, 4, 6]
    log.close()
    assert rows(log.path) == [vars_of(outcome(attempt, None, "timeout")) for attempt in range(8)]
    log.close()
    assert [p.name for p in tmp_path.iterdir()] == ["attempts.jsonl"]


def test_a_long_log_takes_no_memory(tmp_path):
    log = AttemptsLog(tmp_path / "attempts.jsonl")
    log.settled(outcome(0, None))
    tracemalloc.start()
    try:
        for attempt in range(1, 5000):
            log.settled(outcome(attempt, None))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    log.close()
    assert grown < 100_000
    assert len(rows(log.path)) == 5000


def vars_of(ended: Outcome) -> dict:
    return dataclasses.asdict(ended)
