"""What attempts.jsonl says, added up: outcomes by reason and by source demo. Read line by line, so it may be long.

Of a row as a run writes it, only attempt and seed are its own; how it ended, in how many steps and from which demos, it
shares with many. So rows are counted by what they share, and that is parsed once, which is what makes a page of
100,000 attempts cheap.
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

MOST_STARTS = 1000
"""Attempts of each outcome whose start is shown; where there are more, every second, third, ... is."""
_ROW = re.compile(
    rb'^\{"attempt": (\d+), "slot": (?:\d+|null), "seed": (\d+), ("success": (true|false), .*), '
    rb'"episode_index": (?:\d+|null), "detail": "(?:[^"\\\n]|\\.)*"\}$',
    re.MULTILINE,
)
"""A row as `AttemptsLog` writes it: attempt, seed, what it shares with others, success."""
_LINES = 2000
"""Rows that are read at a time."""
_MOST_KINDS = 10_000
"""Different ones that are kept before they are parsed; more where every row is the only one of its kind."""


type _Parts = tuple[bytes, bytes, bytes, bytes]


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

    def add(self, row: dict[str, Any], times: int = 1) -> None:
        """Count a row that is there so many times."""
        success = bool(row["success"])
        self.attempts += times
        self.successes += times * success
        self.steps[success] += times * row["length"]
        self.reasons[row["reason"]] += times
        for demo in {str(source["demo"]) for source in row["source_demos"] if isinstance(source, dict)}:
            use = self.demos.setdefault(demo, Use())
            use.attempts += times
            use.successes += times * success


def tally(path: Path) -> Tally:
    """Add up an attempts.jsonl, also one that was cut off at any byte; empty where there is none.

    The same file is read once: what is found out after a run, and its page, ask for the same.
    """
    found = path.stat() if path.is_file() else None
    return _tally(path, None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns))


@functools.lru_cache(maxsize=1)
def _tally(path: Path, _: object) -> Tally:
    total, kinds = Tally(), Counter[bytes]()
    thinned = {success: _Thinned(starts) for success, starts in total.starts.items()}
    for rows in _rows(path):
        kinds.update([row[2] for row in rows])
        if len(kinds) > _MOST_KINDS:
            _add(total, kinds)
        for success, word in ((True, b"true"), (False, b"false")):
            thinned[success].extend([row for row in rows if row[3] == word])
    _add(total, kinds)
    return total


def _add(total: Tally, kinds: Counter[bytes]) -> None:
    for kind, times in kinds.items():
        total.add(json.loads(b"{%b}" % kind), times)
    kinds.clear()


class _Thinned:
    """Every first, second, fourth, ... row of one outcome, evenly, though their number is not known before."""

    def __init__(self, starts: list[tuple[int, int]]) -> None:
        self._starts, self._stride, self._seen = starts, 1, 0

    def extend(self, rows: list[_Parts]) -> None:
        at = -self._seen % self._stride
        while at < len(rows):
            attempt, seed, _, _ = rows[at]
            self._starts.append((int(attempt), int(seed)))
            if len(self._starts) == 2 * MOST_STARTS:
                del self._starts[1::2]
                self._stride *= 2
            at += self._stride - (self._seen + at) % self._stride
        self._seen += len(rows)


def _rows(path: Path) -> Iterator[list[_Parts]]:
    """The parts of the rows that are whole."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        while lines := list(islice(file, _LINES)):
            found = _ROW.findall(b"".join(lines))
            yield found if len(found) == len(lines) else [parts for line in lines if (parts := _parts(line))]


def _parts(line: bytes) -> _Parts | None:
    """The same of a row that somebody else may have written, or that was cut off."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    shared = {name: row[name] for name in ("success", "reason", "length", "source_demos")}
    success = b"true" if row["success"] else b"false"
    return b"%d" % row["attempt"], b"%d" % row["seed"], json.dumps(shared).encode()[1:-1], success
