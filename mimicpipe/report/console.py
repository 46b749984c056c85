"""What a run looks like while it runs: a live view on a terminal, a plain line now and then elsewhere."""

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mimicpipe.report.bottleneck import find_bottleneck
from mimicpipe.report.format import count, duration, megabytes, percent

PLAIN_EVERY_S = 5.0

Snapshot = Mapping[str, float]
"""Metrics under their names of DESIGN §5, and "wall_s", seconds since the run began."""


class ProgressView:
    """Shows the latest snapshot on a stream; a context manager that leaves the terminal as it was.

    Args:
        title: what runs, in a few words.
        num_demos: demos wanted.
        stream: where to draw; None is stderr.
        max_attempts: where the run ends at the latest; None is no limit.
    """

    def __init__(
        self, title: str, num_demos: int, *, max_attempts: int | None = None, stream: TextIO | None = None
    ) -> None:
        self.title = title
        self.num_demos = num_demos
        self.max_attempts = max_attempts
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._live: Live | None = None
        self._handlers: list[tuple[logging.StreamHandler[Any], Any]] = []
        self._last_line_s = float("-inf")

    def __enter__(self) -> "ProgressView":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
            self._redirect_logging()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        while self._handlers:
            handler, stream = self._handlers.pop()
            handler.setStream(stream)

    def _redirect_logging(self) -> None:
        """Let log lines appear above the view; their handlers hold the stream from before it."""
        for handler in logging.getLogger().handlers:
            stream = getattr(handler, "stream", None)
            if isinstance(handler, logging.StreamHandler) and stream in (sys.__stderr__, sys.__stdout__):
                self._handlers.append((handler, stream))
                handler.setStream(sys.stderr)

    def update(self, snapshot: Snapshot, phase: str = "") -> None:
        """Show a snapshot; on a stream that is no terminal, at most one line every `PLAIN_EVERY_S`.

        Args:
            snapshot: metrics; one that is missing is not shown.
            phase: what the run is doing if it is not generating, e.g. "writing the last episodes".
        """
        if self._live is not None:
            self._live.update(self._panel(snapshot, phase), refresh=True)
        elif (now := time.monotonic()) - self._last_line_s >= PLAIN_EVERY_S:
            self._last_line_s = now
            demos = f"{count(snapshot.get('generation/successes', 0.0))}/{count(self.num_demos)} demos"
            parts = [demos, self._attempts(snapshot), *self._rates(snapshot), *queues(snapshot), bottleneck(snapshot)]
            parts.append(phase or f"ETA {duration(self._eta_s(snapshot))}")
            line = f"[{duration(snapshot.get('wall_s', 0.0))}] {self.title}: {' | '.join(p for p in parts if p)}"
            print(line, file=self._console.file, flush=True)

    def _panel(self, snapshot: Snapshot, phase: str) -> Group:
        """Four lines that fit 80 columns: what runs, how far it is, how fast, and what holds it up."""
        done = snapshot.get("generation/successes", 0.0)
        clock = f"{duration(snapshot.get('wall_s', 0.0))} gone, ETA {duration(self._eta_s(snapshot))}"
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self.num_demos, completed=done, width=44, complete_style="green"),
            f"{count(done)}/{count(self.num_demos)} demos",
        )
        lines = [
            Text.assemble((self.title, "bold"), "   ", (phase or clock, "cyan")),
            bar,
            Text("   ".join((self._attempts(snapshot), *self._rates(snapshot)))),
            Text("   ".join(p for p in (*queues(snapshot), bottleneck(snapshot)) if p), style="dim"),
        ]
        for line in lines:
            if isinstance(line, Text):
                line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)

    def _attempts(self, snapshot: Snapshot) -> str:
        done, attempts = snapshot.get("generation/successes", 0.0), snapshot.get("generation/attempts", 0.0)
        limit = f"/{count(self.max_attempts)}" if self.max_attempts is not None else ""
        return f"{percent(done / attempts) if attempts else '-'} of {count(attempts)}{limit} attempts"

    def _rates(self, snapshot: Snapshot) -> list[str]:
        names = {"throughput/demos_per_hour": "demos/h", "throughput/env_steps_per_s": "env-steps/s"}
        return [f"{count(snapshot[name])} {unit}" for name, unit in names.items() if name in snapshot]

    def _eta_s(self, snapshot: Snapshot) -> float:
        return eta_s(snapshot, self.num_demos, self.max_attempts)


def eta_s(snapshot: Snapshot, num_demos: int, max_attempts: int | None) -> float:
    """Seconds to `num_demos` at the rate so far, or to `max_attempts` if that comes first."""
    wall, done = snapshot.get("wall_s", 0.0), snapshot.get("generation/successes", 0.0)
    attempts = snapshot.get("generation/attempts", 0.0)
    etas = [(num_demos - done) * wall / done] if done else []
    if max_attempts is not None and attempts:
        etas.append((max_attempts - attempts) * wall / attempts)
    return min(etas, default=float("inf"))


def stage_shares(snapshot: Snapshot) -> dict[str, float]:
    """Share of the wall time of each stage, largest first; stages that took none are left out."""
    seconds = {name[5:-2]: value for name, value in snapshot.items() if name.startswith("time/") and value > 0}
    total = sum(seconds.values())
    return {name: seconds[name] / total for name in sorted(seconds, key=lambda name: -seconds[name])}


def bottleneck(snapshot: Snapshot) -> str:
    """The stage that holds the run up most, with its share; empty before anything was timed."""
    found = find_bottleneck(snapshot)
    return f"bottleneck {found.stage} ({percent(found.share)})" if found else ""


def queues(snapshot: Snapshot) -> list[str]:
    """One line of how full each queue is; none where nothing is known of them."""
    parts = []
    if "queue/action_depth" in snapshot:
        parts.append(f"action {count(snapshot['queue/action_depth'])}")
    if "queue/reset_depth" in snapshot:
        parts.append(f"reset {count(snapshot['queue/reset_depth'])}")
    if "recorder/queue_size" in snapshot:
        limit = snapshot.get("recorder/queue_maxsize", 0)
        size = count(snapshot["recorder/queue_size"]) + (f"/{count(limit)}" if limit else "")
        parts.append(f"recorder {size}, {megabytes(snapshot.get('recorder/queue_bytes', 0))}")
    return [f"queues: {', '.join(parts)}"] if parts else []
