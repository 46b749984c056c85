"""What holds a run up: the stage, and the queue that proves it.

The rule, over the metrics of a run (seconds; W is its wall time):

1. The stage is the one with the most `critical/<stage>_s`. These are the stage times, but what the loop did while the
   simulator worked in the background, and was then waited for, counts for `step`.
2. The proof is read from the queue behind that stage:

   =========  ===========================  =========================================================================
   stage      queue                        proof
   =========  ===========================  =========================================================================
   record     recorder                     the largest of: full (`recorder/backpressure_s` / W), completing the
                                           dataset (`recorder/finalize_s` / W), the loop's own copying and writing
   plan       action                       requests that waited meanwhile (`queue/action_wait_s` / W)
   wait       action                       the same: the loop slept while a generator awaited something of its own
   reset      reset                        `queue/reset_wait_s` / W
   step, ...  action, and recorder if any  nothing waited that long: requests were served, the writer kept up
   =========  ===========================  =========================================================================
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mimicpipe.report.format import count, percent

Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The stage that held a run up most."""

    stage: str
    share: float
    """Of the wall time."""
    queue: str | None
    """"recorder", "action" or "reset": whose metrics are the proof; None where no queue lies behind the stage."""
    proof: str
    """In words."""

    def as_dict(self) -> dict[str, Any]:
        """The fields, for run.json."""
        return asdict(self)


def find_bottleneck(metrics: Metrics) -> Bottleneck | None:
    """The bottleneck by the module's rule; None before anything was timed."""
    held = _stages(metrics, "critical") or _stages(metrics, "time")
    wall = sum(held.values())
    if wall <= 0.0:
        return None
    stage = max(held, key=lambda name: held[name])
    queue, proof = _PROOFS.get(stage, _of_simulator)(metrics, wall, held[stage])
    return Bottleneck(stage, held[stage] / wall, queue, proof)


def _stages(metrics: Metrics, prefix: str) -> dict[str, float]:
    return {
        name.removeprefix(f"{prefix}/").removesuffix("_s"): value
        for name, value in metrics.items()
        if name.startswith(f"{prefix}/")
    }


def _of_record(metrics: Metrics, wall: float, held: float) -> tuple[str | None, str]:
    full, completing = metrics.get("recorder/backpressure_s"), metrics.get("recorder/finalize_s", 0.0)
    working = held - (full or 0.0) - completing
    if full is not None and full >= max(completing, working):
        return "recorder", f"the recorder's queue was full for {percent(full / wall)} of the run"
    proof = (
        f"completing the dataset after the last attempt took {percent(completing / wall)} of the run"
        if completing >= working
        else f"copying and writing episodes in the loop took {percent(working / wall)} of the run"
    )
    if full is None:
        return None, f"{proof}; the recorder has no queue"
    return "recorder", f"{proof}; {_recorders_queue(metrics, wall)}"


def _of_plan(metrics: Metrics, wall: float, _: float) -> tuple[str | None, str]:
    return "action", f"generators and planner; {_requests(metrics, 'action', wall)}"


def _of_wait(metrics: Metrics, wall: float, _: float) -> tuple[str | None, str]:
    return "action", f"generators awaited something of their own; {_requests(metrics, 'action', wall)}"


def _of_reset(metrics: Metrics, wall: float, _: float) -> tuple[str | None, str]:
    return "reset", f"the simulator's resets; {_requests(metrics, 'reset', wall)}"


def _of_simulator(metrics: Metrics, wall: float, _: float) -> tuple[str | None, str]:
    return _served(metrics, wall, "the simulator")


def _of_observe(metrics: Metrics, wall: float, _: float) -> tuple[str | None, str]:
    return _served(metrics, wall, "reading observations from the simulator")


def _of_render(metrics: Metrics, wall: float, _: float) -> tuple[str | None, str]:
    return _served(metrics, wall, "rendering cameras")


def _served(metrics: Metrics, wall: float, what: str) -> tuple[str | None, str]:
    recorder = f", {_recorders_queue(metrics, wall)}" if "recorder/backpressure_s" in metrics else ""
    return "action", f"{what}; {_requests(metrics, 'action', wall)}{recorder}"


_PROOFS = {"record": _of_record, "plan": _of_plan, "wait": _of_wait, "reset": _of_reset,
           "observe": _of_observe, "render": _of_render}  # fmt: skip


def _requests(metrics: Metrics, queue: str, wall: float) -> str:
    waited = metrics.get(f"queue/{queue}_wait_s", 0.0)
    return f"on average {waited / wall:.2g} requests waited in env_{queue}_queue"


def _recorders_queue(metrics: Metrics, wall: float) -> str:
    size, limit = metrics.get("recorder/queue_peak", 0.0), metrics.get("recorder/queue_maxsize", 0.0)
    peak = f"{count(size)} of {count(limit)}" if limit else count(size)
    full = metrics["recorder/backpressure_s"]
    rest = f"was full for {percent(full / wall)}" if full else "was never full"
    return f"the recorder's queue (peak {peak}) {rest}"
