"""What a run's metrics.jsonl says of its memory and its time per step, over ten equal parts of the run."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

PARTS = 10
SETTLED = 2
"""Parts left out at the beginning: caches and buffers are still growing to their size there."""

Row = dict[str, float]


def read_metrics(path: Path) -> list[Row]:
    """The samples of a run, oldest first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


Part = dict[str, float | None]


def deciles(rows: Sequence[Row], axis: str) -> list[Part]:
    """Ten equal parts of the run by `axis`, a metric that grows; values between two samples are interpolated.

    Returns:
        For each part: `until` (on the axis), `rss_mb` (mean over it), wall and CPU microseconds per env-step; None
        where that is not known: no step was made, or, of the CPU time, the part begins before the first sample.
    """
    total = rows[-1][axis]
    edges = [total * i / PARTS for i in range(PARTS + 1)]
    parts = []
    for begin, end in itertools.pairwise(edges):
        first, last = _at(rows, axis, begin), _at(rows, axis, end)
        steps = last["env_steps"] - first["env_steps"]
        inside = [row["system/rss_mb"] for row in rows if begin < row[axis] <= end]
        rss = mean(inside) if inside else (first["system/rss_mb"] + last["system/rss_mb"]) / 2
        part: Part = {"until": end, "rss_mb": rss}
        for name, clock in (("wall_us_per_step", "wall_s"), ("cpu_us_per_step", "system/cpu_s")):
            known = steps >= 1.0 and (clock == "wall_s" or begin >= rows[0][axis])
            part[name] = 1e6 * (last[clock] - first[clock]) / steps if known else None
        parts.append(part)
    return parts


def _at(rows: Sequence[Row], axis: str, value: float) -> Row:
    """The metrics where `axis` has a value; before the first sample, a line from a start at zero to it."""
    names = ("wall_s", "env_steps", "system/cpu_s", "system/rss_mb")
    before = {axis: 0.0, **dict.fromkeys(names, 0.0)}
    before |= {name: rows[0][name] for name in ("system/cpu_s", "system/rss_mb")}
    for row in rows:
        if row[axis] >= value:
            span = row[axis] - before[axis]
            share = (value - before[axis]) / span if span > 0 else 1.0
            return {name: before[name] + share * (row[name] - before[name]) for name in names}
        before = row
    return {name: before[name] for name in names}


def growth(parts: Sequence[Part], name: str) -> float | None:
    """Relative change of a value from the first settled parts to the last ones: the means of two parts each.

    None where fewer than four settled parts have it: the run was too short.
    """
    settled = [value for part in parts[SETTLED:] if (value := part[name]) is not None]
    return mean(settled[-2:]) / mean(settled[:2]) - 1.0 if len(settled) >= 4 else None


def thinned(rows: Sequence[Row], names: Sequence[str], most: int = 200) -> dict[str, list[Any]]:
    """A few of the samples, evenly spread, column by column, for a figure."""
    stride = max(1, -(-len(rows) // most))
    kept = [*rows[:-1:stride], rows[-1]]
    return {name: [round(row.get(name, 0.0), 3) for row in kept] for name in names}
