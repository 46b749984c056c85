"""What attempts.jsonl says, added up: outcomes by reason and by source demo. Read piece by piece, so it may be long."""

import functools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

MOST_STARTS = 1000
"""Attempts of each outcome whose start is shown; where there are more, every second, third, ... is."""
_LINES = 2000
"""Rows that are read at a time: as one JSON document, which is twice as fast as one by one."""


@dataclass
class Use:
    """How attempts that used one source demo ended."""

    attempts: int = 0
    successes: int = 0


@dataclass
class Tally:
    """Attempts added up."""

    attempts: int = 0
    successes: int = 0
    steps: Counter[bool] = field(default_factory=Counter)
    """Control steps of successes (True) and of failures."""
    reasons: Counter[str] = field(default_factory=Counter)
    demos: dict[str, Use] = field(default_factory=dict)
    """By source demo: the attempts with at least one segment of it."""
    starts: dict[bool, list[tuple[int, int]]] = field(default_factory=lambda: {True: [], False: []})
    """(attempt, seed) of successes and of failures whose start is shown."""

    def add(self, row: dict[str, Any]) -> None:
        """Count one row."""
        success = bool(row["success"])
        self.attempts += 1
        self.successes += success
        self.steps[success] += row["length"]
        self.reasons[row["reason"]] += 1
        for demo in {str(source["demo"]) for source in row["source_demos"] if isinstance(source, dict)}:
            use = self.demos.setdefault(demo, Use())
            use.attempts += 1
            use.successes += success


def tally(path: Path) -> Tally:
    """Add up an attempts.jsonl, also one that was cut off at any byte; empty where there is none.

    The same file is read once: what is found out after a run, and its page, ask for the same.
    """
    found = path.stat() if path.is_file() else None
    return _tally(path, None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns))


@functools.lru_cache(maxsize=1)
def _tally(path: Path, _: object) -> Tally:
    total, strides = Tally(), {True: 1, False: 1}
    seen: Counter[bool] = Counter()
    for row in _rows(path):
        total.add(row)
        success = bool(row["success"])
        starts, stride = total.starts[success], strides[success]
        if seen[success] % stride == 0:
            starts.append((int(row["attempt"]), int(row["seed"])))
            if len(starts) == 2 * MOST_STARTS:  # thinned evenly as it grows, so the number need not be known before
                del starts[1::2]
                strides[success] = 2 * stride
        seen[success] += 1
    return total


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        while lines := list(islice(file, _LINES)):
            try:
                yield from json.loads(b"[" + b",".join(lines) + b"]")
            except ValueError:
                yield from _whole(lines)


def _whole(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
