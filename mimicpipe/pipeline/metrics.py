"""The metrics of a run under the names that dashboards depend on (DESIGN §5)."""

import os
import time
from collections.abc import Mapping

import torch

from mimicpipe.pipeline.budget import Budget
from mimicpipe.pipeline.episode import FAILURES
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pipeline.telemetry import Counters

_PAGE = os.sysconf("SC_PAGE_SIZE")


def rss_mb() -> float:
    """Resident memory of this process, MB (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * _PAGE / 1e6
    except FileNotFoundError:
        return 0.0


def gpu_mem_mb(device: torch.device) -> float:
    """Memory of the tensors on a CUDA device, MB; 0 on a CPU."""
    return torch.cuda.memory_allocated(device) / 1e6 if device.type == "cuda" else 0.0


def progress_metrics(counters: Counters, budget: Budget, wall_s: float) -> dict[str, float]:
    """What has come of a run in `wall_s` seconds: rates since its start, and settled attempts."""
    wall = max(wall_s, 1e-9)
    return {
        "throughput/env_steps_per_s": counters.env_steps / wall,
        "throughput/demos_per_hour": budget.successes / wall * 3600.0,
        "throughput/frames_per_s": counters.frames_committed / wall,
        "generation/attempts": float(budget.attempts),
        "generation/successes": float(budget.successes),
        "generation/success_rate": budget.successes / budget.attempts if budget.attempts else 0.0,
    }


def run_metrics(run: RunState, recorder_stats: Mapping[str, float]) -> dict[str, float]:
    """Every metric at this instant, and "wall_s", seconds since the run's start; rates are means since then."""
    counters, budget = run.counters, run.budget
    wall_s, seconds, critical = run.clock.read()
    metrics = {"wall_s": wall_s, **progress_metrics(counters, budget, wall_s)}
    for name, queue in (("action", run.action_queue), ("reset", run.reset_queue)):
        metrics[f"queue/{name}_depth"] = float(queue.qsize())
        metrics[f"queue/{name}_peak"] = float(queue.meter.peak)
        metrics[f"queue/{name}_wait_s"] = queue.meter.wait_s
    reasons = dict.fromkeys(FAILURES, 0) | counters.reasons
    metrics |= {f"failures/{reason}": float(n) for reason, n in reasons.items() if reason != "success"}
    metrics |= {f"recorder/{name}": float(value) for name, value in recorder_stats.items()}
    metrics |= {f"time/{stage}_s": spent for stage, spent in seconds.items()}
    metrics |= {f"critical/{stage}_s": held for stage, held in critical.items()}
    metrics["system/cpu_s"] = time.process_time()
    metrics["system/rss_mb"] = rss_mb()
    metrics["system/gpu_mem_mb"] = gpu_mem_mb(run.env.device)
    return metrics
