"""Bimanual lift: two arms lift a tray by its handles and keep it level. Subtasks of each: grasp -> tray, lift -> tray.

The kind of task of robosuite's TwoArmLift and DexMimicGen's tray lift (Jiang et al., ICRA 2025); sizes are chosen.
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import SIDE_BY_SIDE, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, held_at
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

HANDLES = {"left": (0.0, 0.17, 0.0), "right": (0.0, -0.17, 0.0)}
"""{eef: middle of its handle in the tray's frame}, metres."""
LIFT_HEIGHT = 0.10
"""Clearance of a lifted tray, metres."""

_TRAY = ObjectSpec(
    "tray",
    (0.09, 0.20, 0.02),
    0.4,
    (0.62, 0.45, 0.28, 1.0),
    (
        Shape("box", (0.09, 0.14, 0.005), (0.0, 0.0, -0.015)),
        Shape("box", (0.005, 0.14, 0.015), (0.085, 0.0, 0.005)),
        Shape("box", (0.005, 0.14, 0.015), (-0.085, 0.0, 0.005)),
        Shape("box", (0.08, 0.005, 0.015), (0.0, 0.135, 0.005)),
        Shape("box", (0.08, 0.005, 0.015), (0.0, -0.135, 0.005)),
        Shape("box", (0.012, 0.03, 0.01), HANDLES["left"], rgba=(0.25, 0.25, 0.28, 1.0)),
        Shape("box", (0.012, 0.03, 0.01), HANDLES["right"], rgba=(0.25, 0.25, 0.28, 1.0)),
    ),
)

_REGIONS = {
    "D0": Region((-0.05, 0.05), (-0.05, 0.05), (-0.15, 0.15)),
    "D1": Region((-0.15, 0.10), (-0.12, 0.12), (-0.60, 0.60)),
}

_MAX_HELD_WIDTH = 0.03
"""Fingers on a handle, which is 0.024 m wide, metres."""
_LEVEL = math.cos(math.radians(10.0))
"""Least cosine of the tray's tilt."""


class BimanualLiftTask(Task):
    """A tray with a handle on each side."""

    name = "bimanual_lift"
    description = "Lift the tray with both hands and keep it level."
    eef_names = ("left", "right")
    bases = SIDE_BY_SIDE
    objects = (_TRAY,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """The tray on the table, uniform in the variant's region: {"tray": (K, 4, 4)} float64."""
        return place_bodies(seeds, [(_TRAY, _REGIONS[self.variant])])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: held by both handles, level, with 10 cm of air below."""
        level = view.object_poses["tray"][:, 2, 2] > _LEVEL
        return _held(view, "left") & _held(view, "right") & level & (clearance(view, _TRAY) >= LIFT_HEIGHT)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`left_grasp` and `right_grasp` (N,) bool: the arm holds its handle."""
        return {f"{eef}_grasp": _held(view, eef) for eef in self.eef_names}


def _held(view: TaskView, eef: str) -> Tensor:
    return held_at(view, "tray", HANDLES[eef], _MAX_HELD_WIDTH, eef)
