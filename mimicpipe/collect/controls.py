"""What steers an arm: keys, a gamepad's sticks and buttons, speeds. The page has these tables, too, and shows them.

A *motion* is six numbers in [-1, 1] in the directions of the picture: to the right, away from the viewer, up, and turns
about these three by the right hand.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

MOTION = 6

SPEEDS = (0.03, 0.06, 0.12, 0.2, 0.3)
"""Levels, metres a second. An arm of env=mujoco follows the fastest with a lag of about 2 cm."""
FIRST_SPEED = 3
RADIANS_PER_METRE = 5.0
"""Turning speed for a speed: 1 rad/s at 0.2 m/s."""


@dataclass(frozen=True)
class MotionKey:
    """A key that moves the hand while it is held."""

    code: str
    """KeyboardEvent.code: a place on the keyboard, whatever is printed there."""
    label: str
    does: str
    axis: int
    """Index into a motion."""
    sign: float


MOTION_KEYS = (
    MotionKey("KeyW", "W", "away", 1, 1.0),
    MotionKey("KeyS", "S", "towards you", 1, -1.0),
    MotionKey("KeyA", "A", "left", 0, -1.0),
    MotionKey("KeyD", "D", "right", 0, 1.0),
    MotionKey("KeyE", "E", "up", 2, 1.0),
    MotionKey("KeyQ", "Q", "down", 2, -1.0),
    MotionKey("ArrowLeft", "←", "turn anticlockwise", 5, 1.0),
    MotionKey("ArrowRight", "→", "turn clockwise", 5, -1.0),
    MotionKey("ArrowUp", "↑", "tilt away", 3, 1.0),
    MotionKey("ArrowDown", "↓", "tilt towards you", 3, -1.0),
    MotionKey("KeyR", "R", "tilt left", 4, 1.0),
    MotionKey("KeyF", "F", "tilt right", 4, -1.0),
)
"""Tilts are of the fingertips."""

COMMAND_KEYS = {
    "Space": ("Space", "open or close the gripper", "gripper"),
    "Tab": ("Tab", "other arm, or both", "arm"),
    "Equal": ("=", "faster", "faster"),
    "Minus": ("−", "slower", "slower"),
    "Enter": ("Enter", "start, then save", "go_on"),
    "Backspace": ("⌫", "discard", "discard"),
    "KeyN": ("N", "next scene", "next"),
}
"""{KeyboardEvent.code: (label, what it does, command)}."""

PAD_AXES = ((0, 0, 1.0), (1, 1, -1.0), (2, 5, -1.0), (3, 2, -1.0))
"""(axis of the gamepad, index into a motion, sign), in the browser's "standard" layout: left stick moves across the
table, right stick up and down, and turns."""
PAD_MOTION_BUTTONS = ((12, 3, 1.0), (13, 3, -1.0), (14, 4, 1.0), (15, 4, -1.0))
"""(button, index into a motion, sign): the cross tilts."""
PAD_COMMANDS = {0: "gripper", 3: "arm", 4: "slower", 5: "faster", 8: "discard", 9: "go_on"}
"""{button: command}: A, Y, the shoulders, Back, Start."""
PAD_WORDS = (
    ("left stick", "across the table"),
    ("right stick", "up, down, turn"),
    ("cross", "tilt"),
    ("A", "gripper"),
    ("Y", "other arm"),
    ("LB, RB", "slower, faster"),
    ("Start", "start, then save"),
    ("Back", "discard"),
)
DEAD_ZONE = 0.15
"""Part of a stick's way that counts as rest."""


@dataclass(frozen=True)
class View:
    """Where the picture is taken from."""

    azimuth: float
    """Degrees about z; 0 looks along x, 90 along y."""
    elevation: float
    """Degrees; negative looks down."""
    zoom: float = 1.0

    def right(self) -> tuple[float, float, float]:
        """Unit vector to the right in the picture, in the slot's frame."""
        angle = math.radians(self.azimuth)
        return (math.sin(angle), -math.cos(angle), 0.0)

    def away(self) -> tuple[float, float, float]:
        """Horizontal unit vector away from the viewer, in the slot's frame."""
        angle = math.radians(self.azimuth)
        return (math.cos(angle), math.sin(angle), 0.0)

    def clipped(self) -> "View":
        """A view from above the table, neither too near nor too far."""
        return View(
            math.remainder(self.azimuth, 360.0), min(max(self.elevation, -85.0), -5.0), min(max(self.zoom, 0.4), 3.0)
        )


def motion_of(keys: Collection[str], axes: Sequence[float] = ()) -> tuple[float, ...]:
    """The motion of keys that are held (codes; unknown ones are left out), and of a gamepad's six numbers."""
    motion = [0.0] * MOTION if not axes else list(axes)
    for key in MOTION_KEYS:
        if key.code in keys:
            motion[key.axis] += key.sign
    return tuple(min(max(value, -1.0), 1.0) for value in motion)


def bindings() -> dict[str, object]:
    """All tables, as the page gets them."""
    return {
        "motion_keys": [[key.code, key.label, key.does] for key in MOTION_KEYS],
        "command_keys": [[code, *rest] for code, rest in COMMAND_KEYS.items()],
        "pad_axes": PAD_AXES,
        "pad_motion_buttons": PAD_MOTION_BUTTONS,
        "pad_commands": [[button, command] for button, command in PAD_COMMANDS.items()],
        "pad_words": PAD_WORDS,
        "dead_zone": DEAD_ZONE,
    }
