"""The loop that owns the simulator: input, a control step, a frame, as often a second as the env has steps."""

import io
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mimicpipe.collect.controls import View
from mimicpipe.collect.hub import Hub
from mimicpipe.collect.scene_view import Frame, Picture
from mimicpipe.collect.session import Session
from mimicpipe.envs.base import MimicEnv

_JPEG_QUALITY = 85
_RATE_OVER_S = 1.0


def run(
    env: MimicEnv, session: Session, picture: Picture, hub: Hub, about: Mapping[str, Any], stop: threading.Event
) -> None:
    """Serve the hub until `stop` is set.

    Args:
        env: what the session works in.
        session, picture, hub: the parts.
        about: shown with every state.
        stop: ends the loop after the current step.
    """
    period = 1.0 / env.fps
    rate = Rate()
    shown: tuple[View, Sequence[str]] | None = None
    due = time.monotonic()
    fresh = True
    while not stop.is_set():
        motion, view = hub.controls()
        passed = session.tick(motion, view)
        rate.count(passed, time.monotonic())
        frame = None
        if passed or fresh or shown != (view, session.active):
            shown = view, session.active
            if bool(env.finite()[0]):  # what has diverged cannot be drawn
                frame = jpeg(picture.draw(env, view, session.active))
        show = partial(_show, hub, session, about, view, rate)
        show(frame)
        # A machine that cannot keep up lets time pass more slowly, and says so: nobody can steer what is not shown.
        due = max(due + period, time.monotonic())
        fresh = serve(session, hub, due, show)


def _show(
    hub: Hub, session: Session, about: Mapping[str, Any], view: View, rate: "Rate", frame: bytes | None = None
) -> None:
    hub.publish({**about, **session.state(), **directions(view), "rate": rate.now()}, frame)


def serve(session: Session, hub: Hub, until: float, show: Callable[[], None]) -> bool:
    """Answer commands until a `time.monotonic`; whether there was one.

    Whoever has an answer finds its consequences in the state: `show` publishes it first.
    """
    any_came = False
    while True:
        commands = hub.commands(until)
        for name, answer in commands:
            resets = session.resets
            try:
                result = session.command(name)
                if session.resets > resets:
                    hub.forget_taps()
                show()
            except BaseException as error:
                answer.set_exception(error)
                raise
            answer.set_result(result)
        any_came |= bool(commands)
        if time.monotonic() >= until or not commands:
            return any_came


def directions(view: View) -> dict[str, Any]:
    """What a motion's directions are in the slot's frame, and the view they come from."""
    return {
        "directions": {"right": view.right(), "away": view.away()},
        "view": [round(view.azimuth, 2), round(view.elevation, 2), round(view.zoom, 3)],
    }


def jpeg(frame: Frame) -> bytes:
    """A frame (H, W, 3) as JPEG."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(frame).save(out, "JPEG", quality=_JPEG_QUALITY)
    return out.getvalue()


class Rate:
    """Control steps a second, while the clock runs."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def count(self, passed: bool, now: float) -> None:
        """Note a turn of the loop at a `time.monotonic`; one without a step begins the count anew."""
        self._times = [t for t in self._times if now - t < _RATE_OVER_S] + [now] if passed else []

    def now(self) -> float | None:
        """Steps a second, rounded; None where there are too few to tell."""
        if len(self._times) < 5:
            return None
        return round((len(self._times) - 1) / (self._times[-1] - self._times[0]))
