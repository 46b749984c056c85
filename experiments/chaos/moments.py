"""When a victim is ended: at a random time of its life, or a random time after something has begun."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from mimicpipe.recorders.staging_area import staged_logs, staging_path

PHASES = ("starting", "recording", "assembling", "publishing", "afterwards")
_POLL_S = 0.001


def phase(root: Path) -> str:
    """What a run was doing when it was killed, as its dataset's root and the folder beside it show."""
    folder = staging_path(root)
    if (folder / "assembled").exists():
        return "publishing"
    if (folder / "dataset").exists():
        return "assembling"
    if any(path.stat().st_size for path in staged_logs(folder)):
        return "recording"
    return "afterwards" if root.exists() else "starting"


@dataclass
class Spans:
    """How long the phases of an undisturbed victim are, seconds."""

    life: float
    phases: dict[str, float] = field(default_factory=dict)


def measure(start: Callable[[], BaseProcess], root: Path) -> Spans:
    """Let a victim run to its end, and watch it."""
    process, began, last = start(), time.monotonic(), time.monotonic()
    spans = Spans(0.0)
    while process.is_alive():
        time.sleep(_POLL_S)
        try:
            seen = phase(root)
        except FileNotFoundError:  # between two looks
            continue
        now = time.monotonic()
        spans.phases[seen], last = spans.phases.get(seen, 0.0) + now - last, now
    spans.life = time.monotonic() - began
    if process.exitcode != 0:
        raise RuntimeError(f"{root}: the undisturbed run has ended with exit code {process.exitcode}")
    return spans


@dataclass(frozen=True)
class Moment:
    """`after_s` after a phase has begun, or after the start."""

    phase: str
    after_s: float
    signal: int = signal.SIGKILL


def draw(chance: random.Random, spans: Spans, signals: bool) -> Moment:
    """A random moment: of the whole life, or, as often, of recording, or of assembling, which are shorter."""
    number = signal.SIGTERM if signals and chance.random() < 0.15 else signal.SIGKILL
    chosen = chance.choice(("starting", "recording", "assembling"))
    length = spans.life if chosen == "starting" else spans.phases.get(chosen, 0.0) + spans.phases.get("publishing", 0.0)
    return Moment(chosen, chance.uniform(0, length), number)


def end_at(process: BaseProcess, root: Path, moment: Moment) -> bool:
    """End a process at a moment; False if it had ended by then."""
    reached = PHASES.index(moment.phase)
    while reached and process.is_alive():
        try:
            if reached <= PHASES.index(phase(root)) < PHASES.index("afterwards"):
                break
        except FileNotFoundError:
            pass
        time.sleep(_POLL_S)
    process.join(moment.after_s)
    if not process.is_alive():
        return False
    assert process.pid is not None
    (process.kill if moment.signal == signal.SIGKILL else process.terminate)()
    process.join()
    return True
