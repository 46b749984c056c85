"""attempts.jsonl: one row an attempt; that of a recorded episode is written once the episode is durable."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mimicpipe.pipeline.episode import Episode, Outcome

Row = dict[str, Any]
"""Fields of an `Outcome`."""


class AttemptsLog:
    """Writes the rows as they become certain; when closed, the file is in attempt order.

    Args:
        path: the file, which is written anew.
        kept: rows of the run that is resumed, in attempt order.
    """

    def __init__(self, path: Path, kept: Sequence[Row] = ()) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._rows = {int(row["attempt"]): row for row in kept}
        if kept:
            write_attempts(path, self._rows)
        self._file = path.open("a" if kept else "w", encoding="utf-8")

    def settled(self, outcome: Outcome) -> None:
        """An attempt's outcome is known; an episode that was committed waits for `durable`."""
        if outcome.episode_index is None:
            self._write(outcome)

    def durable(self, episode: Episode, episode_index: int) -> None:
        """A recorded episode is safe; called from any thread."""
        episode.outcome.episode_index = episode_index
        self._write(episode.outcome)

    def _write(self, outcome: Outcome) -> None:
        row = asdict(outcome)
        text = json.dumps(row)
        with self._lock:
            self._rows[outcome.attempt] = row
            self._file.write(text + "\n")
            self._file.flush()

    def close(self) -> None:
        """Put the rows in order."""
        with self._lock:
            self._file.close()
            if list(self._rows) != sorted(self._rows):
                write_attempts(self.path, self._rows)


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
            rows[int(row["attempt"])] = row
    return rows
