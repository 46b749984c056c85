"""What the loop's thread and the server's threads share: input and commands one way, state and frame the other."""

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from mimicpipe.collect.controls import View, motion_of
from mimicpipe.collect.session import Answer

INPUT_LIFETIME_S = 0.5
"""A page that holds a key says so again and again; if it does not, it is gone, and so is its key."""
_ANSWER_S = 10.0


@dataclass(frozen=True)
class PageInput:
    """What is held at a page now."""

    order: float
    """Grows; what is overtaken on its way is dropped."""
    keys: frozenset[str]
    axes: tuple[float, ...]
    """Six numbers of a gamepad, see `controls`; empty for none."""
    view: View
    came: float = field(default_factory=time.monotonic)


class Closed(Exception):  # noqa: N818 - no error: collecting has ended
    """The loop has ended, or ends before it answers."""


class Hub:
    """The meeting place of one loop and any number of pages.

    Args:
        view: where the picture is taken from until a page says otherwise.
    """

    def __init__(self, view: View) -> None:
        self._changed = threading.Condition()
        self._input: PageInput | None = None
        self._tapped: set[str] = set()
        self._view = view
        self._commands: list[tuple[str, Future[Answer]]] = []
        self._state: dict[str, Any] = {}
        self._known = ""
        self._version = 0
        self._frames = 0
        self._frame = b""
        self._closed = False

    # -- the server's side --------------------------------------------------------------------------------------------

    def put_input(self, given: PageInput) -> None:
        """Take what a page holds, unless something later has come before."""
        with self._changed:
            if self._input is not None and given.order <= self._input.order:
                return
            self._input = given
            self._tapped |= given.keys  # a key that is let go before the loop looks counts for one step
            self._view = given.view.clipped()

    def ask(self, command: str) -> Answer:
        """Have the loop do something; waits for the answer.

        Raises:
            Closed: there is none.
        """
        answer: Future[Answer] = Future()
        with self._changed:
            if self._closed:
                raise Closed
            self._commands.append((command, answer))
            self._changed.notify_all()
        return answer.result(_ANSWER_S)

    def state(self, after: int, wait_s: float) -> str:
        """The state as JSON with `version` and `frame`, once its version is beyond `after` (the first is 1), or the
        time is over.

        Raises:
            Closed: collecting has ended.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._version > after, wait_s)
            if self._closed:
                raise Closed
            return json.dumps(self._state | {"version": self._version, "frame": self._frames})

    def frame(self) -> bytes:
        """The newest frame, JPEG; empty before the first."""
        with self._changed:
            return self._frame

    # -- the loop's side ----------------------------------------------------------------------------------------------

    def controls(self) -> tuple[Sequence[float], View]:
        """The motion that is asked for now, and the view."""
        with self._changed:
            given, tapped = self._input, self._tapped
            self._tapped = set()
            if given is None or time.monotonic() - given.came > INPUT_LIFETIME_S:
                return motion_of(tapped), self._view
            return motion_of(given.keys | tapped, given.axes), self._view

    def forget_taps(self) -> None:
        """Keys that were pressed and let go for a scene that is no longer there do not count in the next."""
        with self._changed:
            self._tapped = set()

    def commands(self, until: float) -> list[tuple[str, Future[Answer]]]:
        """Commands that wait for their answer; waits for one until a `time.monotonic`, then gives none."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._commands) or self._closed, max(0.0, until - time.monotonic()))
            taken, self._commands = self._commands, []
            return taken

    def publish(self, state: dict[str, Any], frame: bytes | None) -> None:
        """Show a state, and a frame if there is a new one."""
        known = json.dumps(state)
        with self._changed:
            if frame is not None:
                self._frame = frame
                self._frames += 1
            elif known == self._known:
                return
            self._state, self._known = state, known
            self._version += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Send everybody away who waits."""
        with self._changed:
            self._closed = True
            for _, answer in self._commands:
                answer.set_exception(Closed())
            self._commands = []
            self._changed.notify_all()
