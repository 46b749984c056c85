"""Several trackers as one; a tracker that fails is switched off with one warning, and the run goes on."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mimicpipe.trackers.base import Tracker

_log = logging.getLogger("mimicpipe")


class CompositeTracker(Tracker):
    """Passes everything on to each tracker that still works.

    Args:
        trackers: in the order in which they are called.
        optional: makers of trackers that may be missing (no package, no login, no server): one that raises is left out.
    """

    def __init__(self, trackers: Sequence[Tracker], optional: Sequence[Callable[[], Tracker]] = ()) -> None:
        self._trackers = list(trackers)
        for make in optional:
            self._guard("starting the tracker failed, the run goes on without it", partial(self._start, make))

    def _start(self, make: Callable[[], Tracker]) -> None:
        self._trackers.append(make())

    @property
    def trackers(self) -> tuple[Tracker, ...]:
        """Those that still work."""
        return tuple(self._trackers)

    def log(self, metrics: Mapping[str, float], env_steps: int, wall_s: float) -> None:
        """Pass on; a tracker that raises gets nothing more, but is closed at once."""
        for tracker in self.trackers:
            name = type(tracker).__name__
            if not self._guard(
                f"{name}.log failed, tracking goes on without it", partial(tracker.log, metrics, env_steps, wall_s)
            ):
                self._trackers.remove(tracker)
                self._guard(f"{name}.close failed", partial(tracker.close, {}, 1))

    def close(self, summary: Mapping[str, Any], exit_code: int) -> None:
        """Close each, whatever the others do."""
        while self._trackers:
            tracker = self._trackers.pop(0)
            name = type(tracker).__name__
            self._guard(f"{name}.close failed", partial(tracker.close, summary, exit_code))

    @staticmethod
    def _guard(what: str, call: Callable[[], Any]) -> bool:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - tracking never stops a run; the fault is shown
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            _log.warning("%s: %s", what, reason)
            return False
        return True
