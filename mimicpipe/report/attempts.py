"""attempts.jsonl: one row an attempt; that of a recorded episode is written once the episode is durable."""

import json
import threading
from dataclasses import asdict
from pathlib import Path

from mimicpipe.pipeline.episode import Episode, Outcome


class AttemptsLog:
    """Writes the rows as they become certain; when closed, the file is in attempt order.

    Args:
        path: the file, which is written anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._rows: dict[int, str] = {}

    def settled(self, outcome: Outcome) -> None:
        """An attempt's outcome is known; an episode that was committed waits for `durable`."""
        if outcome.episode_index is None:
            self._write(outcome)

    def durable(self, episode: Episode, episode_index: int) -> None:
        """A recorded episode is safe; called from any thread."""
        episode.outcome.episode_index = episode_index
        self._write(episode.outcome)

    def _write(self, outcome: Outcome) -> None:
        row = json.dumps(asdict(outcome))
        with self._lock:
            self._rows[outcome.attempt] = row
            self._file.write(row + "\n")
            self._file.flush()

    def close(self) -> None:
        """Put the rows in order."""
        with self._lock:
            self._file.close()
            if list(self._rows) != sorted(self._rows):
                partial = self.path.with_suffix(".partial")
                partial.write_text("".join(f"{self._rows[k]}\n" for k in sorted(self._rows)), encoding="utf-8")
                partial.replace(self.path)
