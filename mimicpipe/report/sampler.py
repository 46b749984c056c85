"""Samples a run's metrics a few times a second, for the live view, and less often for the trackers."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from mimicpipe.report.console import ProgressView, Snapshot
from mimicpipe.trackers.base import Tracker

DRAW_EVERY_S = 0.25
LOG_EVERY_S = 2.0


@dataclass
class Sampler:
    """Draws and logs until it is cancelled.

    consumes: snapshots, taken on the event loop's thread, so they never see a step half done.
    produces: drawings and tracker rows, made in another thread, so that a slow terminal or server holds up nothing.
    """

    take: Callable[[], Snapshot]
    """Metrics at this instant, with "wall_s"; and "env_steps", which is the trackers' axis, not a metric."""
    view: ProgressView
    tracker: Tracker
    phase: str = ""
    """Shown in place of the ETA."""

    async def run(self) -> None:
        """Sample for ever."""
        last_log = time.monotonic()
        while True:
            await asyncio.sleep(DRAW_EVERY_S)
            snapshot = self.take()
            log = time.monotonic() - last_log >= LOG_EVERY_S
            if log:
                last_log = time.monotonic()
            await asyncio.to_thread(self._show, snapshot, log)

    def last(self) -> Snapshot:
        """Log the final state, from the thread that owns the run; returns it."""
        snapshot = self.take()
        self._show(snapshot, log=True)
        return snapshot

    def _show(self, snapshot: Snapshot, log: bool) -> None:
        self.view.update(snapshot, self.phase)
        if log:
            axes = ("env_steps", "wall_s")
            metrics = {name: value for name, value in snapshot.items() if name not in axes}
            self.tracker.log(metrics, int(snapshot.get("env_steps", 0)), snapshot.get("wall_s", 0.0))
