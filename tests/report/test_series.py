import itertools
import json

import pytest

from mimicpipe.report.series import KEYS, Series, rates, series_of_metrics


def sampled(count, step=0.25):
    clock = {"wall_s": 0.0}

    def take():
        clock["wall_s"] += step
        return {"wall_s": clock["wall_s"], "env_steps": 100 * clock["wall_s"]}

    series = Series(take)
    for _ in range(count):
        series()
    return series.columns()


@pytest.mark.parametrize("count", [1, 100, 241, 5000])
def test_samples_are_few_and_cover_the_run(count):
    columns = sampled(count)
    times = columns["wall_s"]
    assert set(columns) == set(KEYS)
    assert 1 <= len(times) <= 240
    assert times == sorted(set(times))
    assert times[-1] >= 0.9 * count * 0.25
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert not gaps or max(gaps) == pytest.approx(min(gaps))


@pytest.mark.parametrize("count", [3, 20, 900])
def test_a_steady_run_has_a_steady_rate(count):
    middles, slopes = rates(sampled(count), "env_steps")
    assert middles == sorted(middles)
    assert slopes == pytest.approx([100.0] * len(slopes))
    assert len(middles) <= 61


def test_metrics_of_a_killed_run_that_was_resumed(tmp_path):
    rows = [{"wall_s": w, "env_steps": 10 * w, "recorder/queue_wait_s": None} for w in (2, 4, 1, 3)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"wall_s": 5, "env')
    assert series_of_metrics(path)["wall_s"] == [1.0, 3.0]
    assert series_of_metrics(tmp_path / "none")["wall_s"] == []
