"""Picks a cube as a person at the keyboard would: looks at the state, holds keys, looks again."""

import math
from typing import Any

FINE = 0.03
"""Metres within which one goes slowly."""


def yaw_of_axis(quaternion: list[float], axis: int) -> float:
    """Angle about z of a body's x (0) or y (1) axis, of a wxyz quaternion."""
    w, x, y, z = quaternion
    if axis == 0:
        return math.atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    return math.atan2(1 - 2 * (x * x + z * z), 2 * (x * y - w * z))


def errors_of(state: dict[str, Any], height: float) -> dict[str, float]:
    """How far the hand must go: metres in the picture's directions, radians about z."""
    hand, cube = state["arms"]["panda"], state["objects"]["cube"]
    way = [c - h for c, h in zip(cube["position"], hand["position"], strict=True)]
    right, away = state["directions"]["right"], state["directions"]["away"]
    turn = yaw_of_axis(cube["quaternion"], 0) - yaw_of_axis(hand["quaternion"], 1)
    return {
        "right": way[0] * right[0] + way[1] * right[1],
        "away": way[0] * away[0] + way[1] * away[1],
        "up": height - hand["position"][2],
        "turn": math.remainder(turn, math.pi / 2),  # a cube has four sides
    }


KEYS = {
    "right": ("KeyD", "KeyA"),
    "away": ("KeyW", "KeyS"),
    "up": ("KeyE", "KeyQ"),
    "turn": ("ArrowLeft", "ArrowRight"),
}
"""Keys {error: (for a positive one, for a negative one)}."""


class Picker:
    """Which keys to hold next, and which to tap."""

    def __init__(self) -> None:
        self.stage = "above"

    def next(self, state: dict[str, Any]) -> tuple[set[str], str]:
        """Keys to hold until the next look, and a key to tap now, or nothing."""
        if state["held"] >= state["hold_steps"]:
            return set(), ""
        if self.stage == "lift":
            return ({"KeyE"} if state["arms"]["panda"]["position"][2] < 0.2 else set()), ""
        errors = errors_of(state, 0.12 if self.stage == "above" else 0.02)
        if self.stage == "down":
            errors = {"up": errors["up"]}
        tolerance = {"right": 0.006, "away": 0.006, "up": 0.008, "turn": 0.06}
        wrong = {name: error for name, error in errors.items() if abs(error) > tolerance[name]}
        level = 1 if all(abs(error) < (FINE if name != "turn" else 0.2) for name, error in errors.items()) else 3
        if state["speed"]["level"] != level:
            return set(), "Equal" if state["speed"]["level"] < level else "Minus"
        if wrong:
            return {KEYS[name][0 if error > 0 else 1] for name, error in wrong.items()}, ""
        if self.stage == "above":
            self.stage = "down"
            return set(), ""
        if not state["arms"]["panda"]["closed"]:
            return set(), "Space"
        if state["running"]:
            return set(), ""  # the fingers close
        self.stage = "lift"
        return {"KeyE"}, ""
