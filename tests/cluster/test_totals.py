"""Metrics of a run of several workers: under the names, and by the rules, of a run of one process."""

import pytest

from mimicpipe.cluster.totals import total_metrics
from mimicpipe.pipeline.budget import Budget, BudgetLimits
from mimicpipe.pipeline.telemetry import STAGES, Counters


def of_worker(**values):
    found = {f"{prefix}/{stage}_s": 0.0 for prefix in ("time", "critical") for stage in STAGES}
    return found | {"env_steps": 100.0, "system/rss_mb": 50.0, "failures/timeout": 0.0} | values


def test_sums_means_and_peaks():
    budget, counters = Budget(BudgetLimits(10)), Counters(frames_committed=80, reasons={"success": 4, "timeout": 1})
    budget.resume([True, True, True, True, False])
    living = [
        of_worker(
            **{"time/step_s": 6.0, "queue/action_depth": 2.0, "queue/action_peak": 5.0, "queue/action_wait_s": 1.0}
        ),
        of_worker(
            **{"time/step_s": 2.0, "queue/action_depth": 1.0, "queue/action_peak": 3.0, "queue/action_wait_s": 2.0}
        ),
    ]
    living[0] |= {"recorder/backpressure_s": 3.0, "recorder/queue_size": 4.0}
    lost = [of_worker(**{"time/step_s": 4.0, "queue/action_depth": 7.0, "queue/action_wait_s": 4.0})]
    found = total_metrics(budget, counters, living, lost, workers=2, wall_s=10.0, assembling_s=1.0)
    assert counters.env_steps == found["env_steps"] == 300
    assert found["throughput/env_steps_per_s"] == 30.0
    assert found["throughput/demos_per_hour"] == 4 / 10 * 3600
    assert found["throughput/frames_per_s"] == 8.0
    assert found["generation/success_rate"] == 0.8
    assert found["queue/action_depth"] == 3.0  # of those that live
    assert found["queue/action_peak"] == 5.0
    assert found["queue/action_wait_s"] == 7.0
    assert found["recorder/queue_size"] == 4.0
    assert found["recorder/backpressure_s"] == 1.5  # compares with the wall time
    assert found["failures/timeout"] == 1.0
    assert found["time/step_s"] == 6.0
    assert found["time/record_s"] == 1.0
    for prefix in ("time", "critical"):
        assert sum(found[f"{prefix}/{stage}_s"] for stage in STAGES) == pytest.approx(10.0)


def test_before_any_worker_has_begun():
    found = total_metrics(Budget(BudgetLimits(10)), Counters(), [], [], workers=2, wall_s=0.0)
    assert found["generation/attempts"] == found["throughput/demos_per_hour"] == found["wall_s"] == 0.0
