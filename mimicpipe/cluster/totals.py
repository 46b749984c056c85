"""The metrics of a run out of those of its workers, under the same names."""

from collections.abc import Iterable, Mapping, Sequence

from mimicpipe.pipeline.budget import Budget
from mimicpipe.pipeline.metrics import progress_metrics, rss_mb
from mimicpipe.pipeline.telemetry import STAGES, Counters

_PREFIXES = ("queue/", "recorder/", "system/")
_LIVING = ("_depth", "_size", "_maxsize", "_bytes", "_mb", "mb_per_s")
"""How names end of what a worker has now; the others count what it has done, and what it had done still counts when it
is lost."""
_LARGEST = ("_peak",)
_HELD = "recorder/backpressure_s"

Metrics = Mapping[str, float]


def total_metrics(
    budget: Budget,
    counters: Counters,
    living: Sequence[Metrics],
    lost: Sequence[Metrics],
    workers: int,
    wall_s: float,
    assembling_s: float = 0.0,
) -> dict[str, float]:
    """Every metric at this instant.

    Rates and counts of attempts are the driver's own. Of queues, recorders and memory it is the sum over workers, of
    peaks the largest one. Of a stage's time, and of that for which a full queue held a worker up, it is the mean, which
    compares with the wall time: the stages add up to it. What a worker has not accounted for, as when it was being
    started again, is `wait`.

    Args:
        budget: the run's.
        counters: the run's, apart from `env_steps`, which is set here.
        living: of each worker that generates.
        lost: the last ones of those that are no more.
        workers: how many there are to be.
        wall_s: since the first began.
        assembling_s: of it, since the last attempt was settled; `record`, as in a run of one process.
    """
    every = [*living, *lost]
    counters.env_steps = int(_sum(every, "env_steps"))
    metrics = progress_metrics(counters, budget, wall_s)
    for name in sorted({name for each in every for name in each if name.startswith(_PREFIXES)}):
        if name.endswith(_LARGEST):
            metrics[name] = max(each.get(name, 0.0) for each in every)
        else:
            metrics[name] = _sum(living if name.endswith(_LIVING) else every, name) / (workers if name == _HELD else 1)
    metrics["system/rss_mb"] = metrics.get("system/rss_mb", 0.0) + rss_mb()
    failures = {reason: n for reason, n in counters.reasons.items() if reason != "success"}
    known = {name: 0.0 for each in every for name in each if name.startswith("failures/")}
    metrics |= known | {f"failures/{reason}": float(n) for reason, n in failures.items()}
    for prefix in ("time", "critical"):
        stages = {stage: _sum(every, f"{prefix}/{stage}_s") / workers for stage in STAGES}
        stages["record"] += assembling_s
        stages["wait"] += max(0.0, wall_s - sum(stages.values()))
        metrics |= {f"{prefix}/{stage}_s": seconds for stage, seconds in stages.items()}
    return {**metrics, "wall_s": wall_s, "env_steps": float(counters.env_steps)}


def _sum(metrics: Iterable[Metrics], name: str) -> float:
    return sum(each.get(name, 0.0) for each in metrics)
