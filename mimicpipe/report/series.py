"""How a run went over time: a bounded number of samples of its counters, and what is drawn of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Snapshot = Mapping[str, float]

KEYS = (
    "wall_s",
    "env_steps",
    "generation/successes",
    "queue/action_wait_s",
    "queue/reset_wait_s",
    "recorder/queue_wait_s",
    "recorder/backpressure_s",
    "system/rss_mb",
)
"""What is kept of a sample. All but the last only ever grow; differences over time are rates, or mean depths of queues
(a queue's `wait_s` is the integral of its depth)."""
_MOST = 240
_LEAST_S, _MOST_INTERVALS = 1.0, 60
Columns = dict[str, list[float]]


class Series:
    """Samples of a run; when there are many, every second one goes, so that memory and page stay small.

    Args:
        take: gives the metrics of this instant, with "wall_s" and "env_steps".
    """

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take = take
        self._rows: list[list[float]] = []
        self._stride = 1
        self._skipped = 0

    def __call__(self) -> Snapshot:
        """Take a snapshot, and keep what is drawn of it."""
        snapshot = self._take()
        self._skipped += 1
        if self._skipped >= self._stride:
            self._skipped = 0
            self._rows.append([snapshot.get(key, 0.0) for key in KEYS])
            if len(self._rows) > _MOST:
                del self._rows[1::2]
                self._stride *= 2
        return snapshot

    def columns(self) -> Columns:
        """{key: values}."""
        return _columns(self._rows)


def series_of_metrics(path: Path) -> Columns:
    """The same of a metrics.jsonl, also one that was cut off; empty columns where there is none.

    A run that was resumed begins at zero again: its last part counts.
    """
    rows: list[list[float]] = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        values = [float(row.get(key) or 0.0) for key in KEYS]
        if rows and values[0] < rows[-1][0]:
            rows.clear()
        rows.append(values)
    stride = -(-len(rows) // _MOST) or 1
    return _columns([*rows[:-1:stride], *rows[-1:]])


def _columns(rows: Sequence[Sequence[float]]) -> Columns:
    return {key: [round(row[i], 4) for row in rows] for i, key in enumerate(KEYS)}


def rates(series: Columns, key: str) -> tuple[list[float], list[float]]:
    """How fast a column grows: (times at the middle of each interval, increase per second there).

    Intervals are of a second at least, or a sixtieth of the run: attempts of equal length come in waves.
    """
    times, values = [0.0, *series["wall_s"]], [0.0, *series[key]]
    least = max(_LEAST_S, times[-1] / _MOST_INTERVALS)
    middles, slopes, before = [], [], 0
    for after in range(1, len(times)):
        elapsed = times[after] - times[before]
        if elapsed >= least or (after == len(times) - 1 and elapsed > least / 4):
            middles.append((times[before] + times[after]) / 2)
            slopes.append((values[after] - values[before]) / elapsed)
            before = after
    return middles, slopes
