"""How fast a way is gone: from points on it to one target a control step, within speed limits."""

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_RAMP_S = 0.3
"""Time from rest to full speed, and back, seconds. Chosen: about three times what the arm's servos take to settle."""


def fractions(duration_s: float, fps: int) -> Array:
    """(T,) shares of a way at the control steps behind its start, the last one 1: speed rises, stays and falls.

    The share grows by at most 1 / (fps * duration_s) a step, so a way that may be gone in `duration_s` at its speed
    limit is never gone faster: a trapezoid of speed, which takes `_RAMP_S` longer, or a triangle for a short way.
    """
    if duration_s <= 0.0:
        return np.ones(1)
    ramp = min(_RAMP_S, duration_s)
    total = duration_s + ramp
    steps = max(1, math.ceil(total * fps - 1e-9))
    times = np.arange(1, steps + 1) * (total / steps)
    speeding = times * times / (2.0 * ramp)
    cruising = times - ramp / 2.0
    left = total - times
    braking = duration_s - left * left / (2.0 * ramp)
    gone = np.where(times < ramp, speeding, np.where(left < ramp, braking, cruising))
    out = gone / duration_s
    out[-1] = 1.0
    return out


def turn_between(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    """Angle between two rotations (3, 3), radians."""
    trace = float(np.sum(a.astype(np.float64) * b))
    return math.acos(min(1.0, max(-1.0, (trace - 1.0) / 2.0)))
