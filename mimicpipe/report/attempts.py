"""attempts.jsonl: one row an attempt; that of a recorded episode is written once the episode is durable."""

import json
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mimicpipe.pipeline.episode import Episode, Outcome

Row = dict[str, Any]
"""Fields of an `Outcome`."""

_FIELDS = tuple(field.name for field in fields(Outcome))


class AttemptsLog:
    """Writes the rows as they become certain; when closed, the file is in attempt order.

    No row is kept in memory, so a long run's does not grow.

    Args:
        path: the file, which is written anew.
        kept: rows of the run that is resumed, in attempt order.
    """

    def __init__(self, path: Path, kept: Sequence[Row] = ()) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._in_order = True
        self._missing: list[int] = []
        self._latest = -1
        if kept:
            write_attempts(path, {int(row["attempt"]): row for row in kept})
            self._latest = int(kept[-1]["attempt"])
        self._file = path.open("a" if kept else "w", encoding="utf-8")

    def settled(self, outcome: Outcome) -> None:
        """An attempt's outcome is known; an episode that was committed waits for `durable`."""
        if outcome.episode_index is None:
            self.write(outcome)

    def durable(self, episode: Episode, episode_index: int) -> None:
        """A recorded episode is safe; called from any thread."""
        episode.outcome.episode_index = episode_index
        self.write(episode.outcome)

    def write(self, outcome: Outcome) -> None:
        """An attempt's outcome is known, and its episode, if it has one, is safe; from any thread."""
        text = json.dumps({name: getattr(outcome, name) for name in _FIELDS})
        with self._lock:
            self._in_order &= outcome.attempt > self._latest
            self._latest = outcome.attempt
            self._file.write(text + "\n")
            self._file.flush()

    def without(self, missing: Iterable[int]) -> None:
        """Some episodes could not be written, so those behind them have lower indices in the dataset."""
        self._missing = sorted(missing)

    def close(self) -> None:
        """Put the rows in order, and their indices right."""
        with self._lock:
            self._file.close()
            if not self._in_order:
                _sort_attempts(self.path)
                self._in_order = True
            if self._missing:
                _move_up(self.path, self._missing)
                self._missing = []


def _move_up(path: Path, missing: Sequence[int]) -> None:
    """Number a file's episodes as a dataset does that lacks some of them, in one step."""
    partial = path.with_suffix(".partial")
    with path.open(encoding="utf-8") as rows, partial.open("w", encoding="utf-8") as moved:
        for line in rows:
            row = json.loads(line)
            if row["episode_index"] is not None:
                row["episode_index"] -= bisect_left(missing, row["episode_index"])
            moved.write(json.dumps(row) + "\n")
    partial.replace(path)


def _sort_attempts(path: Path) -> None:
    """Put a file's rows in attempt order, in one step; the last of those with the same number counts."""
    partial = path.with_suffix(".partial")
    with path.open("rb") as rows, partial.open("wb") as ordered:
        offsets: dict[int, int] = {}
        at = 0
        for line in rows:
            offsets[json.loads(line)["attempt"]] = at
            at += len(line)
        for attempt in sorted(offsets):
            rows.seek(offsets[attempt])
            ordered.write(rows.readline())
    partial.replace(path)


def write_attempts(path: Path, rows: Mapping[int, Row]) -> None:
    """Write the rows in attempt order, in one step."""
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{json.dumps(rows[k])}\n" for k in sorted(rows)), encoding="utf-8")
    partial.replace(path)


def read_attempts(path: Path) -> dict[int, Row]:
    """{attempt: its row} of a file that may have been cut off at any byte; empty if there is none."""
    rows: dict[int, Row] = {}
    if path.is_file():
        for line in path.read_bytes().split(b"\n")[:-1]:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and isinstance(row.get("attempt"), int):
                rows[row["attempt"]] = row
    return rows
