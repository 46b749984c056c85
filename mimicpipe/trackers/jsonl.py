"""metrics.jsonl: one JSON object a line, written by every run. The file is locked while the run lives."""

import fcntl
import json
import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mimicpipe.trackers.base import Tracker


class JsonlTracker(Tracker):
    """Appends {"time", "wall_s", "env_steps", metric: value, ...}; every line is flushed, so a killed run keeps them.

    Args:
        path: the file; an existing one is appended to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8")
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._lock = threading.Lock()

    def log(self, metrics: Mapping[str, float], env_steps: int, wall_s: float) -> None:
        """Append a line; a value that JSON has no number for (NaN, infinity) becomes null."""
        row = {"time": round(time.time(), 3), "wall_s": round(wall_s, 4), "env_steps": env_steps}
        values = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        with self._lock:
            self._file.write(json.dumps({**row, **values}, allow_nan=False) + "\n")
            self._file.flush()

    @staticmethod
    def is_written(path: Path) -> bool:
        """Whether a process has this file open to write it; the lock ends with the process, however that ends."""
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def close(self, summary: Mapping[str, Any], exit_code: int) -> None:  # noqa: ARG002 - run.json has the summary
        """Close the file."""
        self._file.close()
