import json
import math

from mimicpipe.trackers.jsonl import JsonlTracker


def test_one_object_a_line_readable_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tracker = JsonlTracker(path)
    tracker.log({"a": 1.0}, env_steps=5, wall_s=0.25)
    tracker.log({"a": math.nan, "b": math.inf}, env_steps=9, wall_s=1.5)
    first, second = (json.loads(line, parse_constant=_refuse) for line in path.read_text().splitlines())
    assert {key: first[key] for key in ("env_steps", "wall_s", "a")} == {"env_steps": 5, "wall_s": 0.25, "a": 1.0}
    assert (second["a"], second["b"]) == (None, None)
    assert first["time"] > 1e9
    tracker.close({}, 0)
    tracker.close({}, 0)


def test_it_appends(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for step in range(2):
        tracker = JsonlTracker(path)
        tracker.log({}, env_steps=step, wall_s=0.0)
        tracker.close({}, 0)
    assert [json.loads(line)["env_steps"] for line in path.read_text().splitlines()] == [0, 1]


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")
