"""Marks that a person sets: which are asked for, what has come, and what it makes of each demo.

The page plays a demo once for each eef; S marks, in order, where each of its subtasks ends (and where skills begin, if
asked for). All state is here, under one lock: the page may be loaded again at any time.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mimicpipe.annotate.candidates import Candidate
from mimicpipe.annotate.verdict import from_step, judge, keep_used
from mimicpipe.datagen.subtask import SubTaskConfig, SubtaskConfigs


@dataclass(frozen=True)
class Mark:
    """One mark that is asked for."""

    signal: str
    kind: str
    """"end" of a subtask, or "start" of its skill."""
    about: str
    """The subtask in words."""


def marks_of(subtasks: Sequence[SubTaskConfig], starts: bool) -> list[Mark]:
    """Marks of one eef, in the order in which they are set."""
    marks = []
    for number, config in enumerate(subtasks):
        about = config.description or f"Subtask {number}"
        if starts and config.subtask_start_signal is not None:
            marks.append(Mark(config.subtask_start_signal, "start", about))
        if config.subtask_term_signal is not None:
            marks.append(Mark(config.subtask_term_signal, "end", about))
    return marks


@dataclass(frozen=True)
class Answer:
    """What became of a request of the page."""

    ok: bool
    text: str


class HandSession:
    """Annotates demos one after the other.

    Args:
        candidates: in order; those that are accepted get their signals.
        configs: {eef: its subtasks}.
        fps: control rate, Hz.
        starts: also ask where skills begin; else the demo keeps the start signals that it has.

    Attributes:
        accepted: demos that have been marked well, in order.
        rejected: (demo, reason) of those that were skipped, and of those that nobody has looked at.
    """

    def __init__(self, candidates: Sequence[Candidate], configs: SubtaskConfigs, fps: int, starts: bool) -> None:
        self._candidates, self._configs, self._fps = list(candidates), configs, fps
        self._marks = {eef: marks_of(subtasks, starts) for eef, subtasks in configs.items()}
        self._starts = starts
        self._frames: dict[int, list[bytes]] = {}
        self._index = 0
        self._changed = threading.Condition()
        self.accepted: list[Candidate] = []
        self.rejected: list[tuple[str, str]] = []
        self._finished = not self._candidates

    # -- the thread that draws

    def add_frames(self, index: int, frames: list[bytes]) -> None:
        """Give the JPEGs of a demo, one for each step and one for what follows the last."""
        with self._changed:
            self._frames[index] = frames
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; whether it has come."""
        with self._changed:
            return self._changed.wait_for(lambda: self._finished, seconds)

    @property
    def finished(self) -> bool:
        """All demos have been seen, or the page has said that it is enough."""
        with self._changed:
            return self._finished

    # -- the page's threads

    def frame(self, index: int, step: int) -> bytes | None:
        """JPEG of a step of a demo; None where there is none (yet)."""
        with self._changed:
            frames = self._frames.get(index, [])
            return frames[step] if 0 <= step < len(frames) else None

    def state(self) -> dict[str, Any]:
        """What the page shows."""
        with self._changed:
            state: dict[str, Any] = {
                "finished": self._finished,
                "index": self._index,
                "demos": len(self._candidates),
                "accepted": [candidate.demo.name for candidate in self.accepted],
                "rejected": self.rejected,
                "fps": self._fps,
                "passes": [
                    {"eef": eef, "marks": [{"signal": m.signal, "kind": m.kind, "about": m.about} for m in marks]}
                    for eef, marks in self._marks.items()
                ],
            }
            if not self._finished:
                demo = self._candidates[self._index].demo
                state |= {"name": demo.name, "length": demo.info.length, "ready": self._index in self._frames}
            return state

    def submit(self, index: int, marks: Mapping[str, Sequence[int]]) -> Answer:
        """Take the marks {eef: steps} of the demo that is shown; the next one follows if they are good."""
        with self._changed:
            if self._finished or index != self._index:
                return Answer(False, "this demo has been dealt with already; load the page again")
            candidate = self._candidates[index]
            if (fault := self._set(candidate, marks)) is not None:
                return Answer(False, fault)
            if (fault := judge(candidate.demo, self._configs)) is not None:
                return Answer(False, fault)
            keep_used(candidate.demo, self._configs)
            self.accepted.append(candidate)
            name = candidate.demo.name
            self._next()
            return Answer(True, f"{name} is annotated")

    def skip(self, index: int) -> Answer:
        """Leave out the demo that is shown."""
        with self._changed:
            if self._finished or index != self._index:
                return Answer(False, "this demo has been dealt with already; load the page again")
            name = self._candidates[index].demo.name
            self.rejected.append((name, "skipped by hand"))
            self._next()
            return Answer(True, f"{name} is left out")

    def finish(self) -> Answer:
        """End; demos that have not been looked at are left out."""
        with self._changed:
            self._end()
            return Answer(True, "done")

    def _next(self) -> None:
        self._frames.pop(self._index, None)
        self._index += 1
        if self._index == len(self._candidates):
            self._end()
        self._changed.notify_all()

    def _end(self) -> None:
        if not self._finished:
            left = self._candidates[self._index :]
            self.rejected += [(candidate.demo.name, "not looked at") for candidate in left]
            self._finished = True
        self._changed.notify_all()

    def _set(self, candidate: Candidate, marks: Mapping[str, Sequence[int]]) -> str | None:
        """Set a demo's signals from marks; what is wrong with them, or None."""
        info = candidate.demo.info
        ends, begins = {}, {}
        for eef, wanted in self._marks.items():
            steps = list(marks.get(eef, []))
            if len(steps) != len(wanted):
                names = ", ".join(f"{mark.kind} of {mark.signal}" for mark in wanted)
                return f"{eef}: {len(steps)} marks, {len(wanted)} are asked for ({names})"
            if any(not 0 < step < info.length for step in steps) or sorted(set(steps)) != steps:
                return f"{eef}: marks must be at later and later steps, from 1 to {info.length - 1}"
            for number, (mark, step) in enumerate(zip(wanted, steps, strict=True)):
                if mark.kind == "end":
                    ends[mark.signal] = from_step(info.length, step)
                    continue
                later = (s for m, s in zip(wanted[number:], steps[number:], strict=True) if m.kind == "end")
                signal = torch.zeros(info.length, dtype=torch.bool)
                signal[step : next(later, info.length)] = True
                begins[mark.signal] = signal
        info.subtask_term_signals = ends
        if self._starts:
            info.subtask_start_signals = begins
        return None
