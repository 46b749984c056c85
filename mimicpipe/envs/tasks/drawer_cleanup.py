"""Drawer clean-up: open a drawer, put a hammer into it, close it. Subtasks: open -> cabinet, grasp -> hammer, store ->
cabinet.

MimicGen's HammerCleanup (Mandlekar et al., arXiv 2310.17596; mimicgen/envs/robosuite/hammer_cleanup.py): its regions
and the measures of its cabinet (models/robosuite/assets/objects/drawer.xml); the hammer is two boxes.
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, PartSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, held_at, near, near_above, point, position_in, still
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

HAMMER_HANDLE = (-0.02, 0.0, 0.0)
"""Middle of the hammer's handle in its frame, metres."""
DRAWER_HANDLE = (0.0, -0.16, 0.04)
"""Middle of the bar in the drawer's frame, metres."""
DRAWER_FLOOR = (0.0, -0.014, -0.032)
"""Middle of the drawer's floor in its frame, metres."""
TRAVEL = 0.16
"""From closed to the stop, metres."""
OPEN = 0.12
"""A drawer that is further out is open, metres."""
DRAWER_ORIGIN = (0.0, -0.01, 0.076)
"""Of the closed drawer in the cabinet's frame, which is on the table, metres. It opens against the y axis."""

_CLOSED = 0.01
"""MimicGen's bound, metres."""
_INSIDE = (0.064, 0.071)
"""Half sides of the drawer's floor between its walls, metres."""
_MAX_HEIGHT = 0.035
"""Of the hammer's frame above the floor, metres: flat it has 0.014 m, on its side less than this."""
_MAX_HELD_WIDTH = 0.03

_RED, _WOOD = (0.55, 0.2, 0.16, 1.0), (0.8, 0.66, 0.45, 1.0)

_HAMMER = ObjectSpec(
    "hammer",
    (0.05, 0.035, 0.014),
    0.08,
    (0.45, 0.47, 0.5, 1.0),
    (
        Shape("box", (0.014, 0.035, 0.014), (0.025, 0.0, 0.0)),
        Shape("box", (0.0305, 0.011, 0.012), (-0.0195, 0.0, -0.002), rgba=_WOOD),
    ),
)
_DRAWER = PartSpec(
    "drawer",
    "slide",
    (0.0, -1.0, 0.0),
    (0.0, TRAVEL),
    DRAWER_ORIGIN,
    (
        Shape("box", (0.088, 0.01, 0.046), (0.0, -0.095, 0.007)),
        Shape("box", (0.064, 0.008, 0.028), (0.0, 0.065, 0.0)),
        Shape("box", (0.008, 0.079, 0.028), (-0.072, -0.006, 0.0)),
        Shape("box", (0.008, 0.079, 0.028), (0.072, -0.006, 0.0)),
        Shape("box", (0.08, 0.079, 0.008), (0.0, -0.006, -0.04)),
        Shape("box", (0.05, 0.008, 0.008), DRAWER_HANDLE, rgba=_WOOD),
        Shape("box", (0.007, 0.0235, 0.007), (-0.043, -0.1285, 0.04), rgba=_WOOD),
        Shape("box", (0.007, 0.0235, 0.007), (0.043, -0.1285, 0.04), rgba=_WOOD),
    ),
    0.5,
    (0.72, 0.35, 0.25, 1.0),
    damping=20.0,
    friction=1.0,
)
_CABINET = FixtureSpec(
    "cabinet",
    (0.118, 0.19, 0.065),
    (
        Shape("box", (0.008, 0.106, 0.0645), (-0.11, -0.006, 0.0645)),
        Shape("box", (0.008, 0.106, 0.0645), (0.11, -0.006, 0.0645)),
        Shape("box", (0.102, 0.008, 0.0565), (0.0, 0.092, 0.0565)),
        Shape("box", (0.102, 0.092, 0.009), (0.0, -0.008, 0.009)),
        Shape("box", (0.102, 0.1, 0.008), (0.0, 0.0, 0.121)),
    ),
    _RED,
    (_DRAWER,),
)

_REGIONS = {
    "D0": (Region((0.2, 0.2), (0.3, 0.3), (0.0, 0.0)), Region((0.10, 0.18), (-0.20, -0.13), (-0.1, 0.1))),
    "D1": (Region((0.0, 0.2), (0.2, 0.3), (-math.pi / 6, math.pi / 6)), Region((-0.2, 0.2), (-0.25, -0.13))),
}
"""Cabinet and hammer."""


class DrawerCleanupTask(Task):
    """A cabinet with a drawer, and a hammer to be put away."""

    name = "drawer_cleanup"
    description = "Open the drawer, put the hammer into it and close the drawer."
    objects = (_HAMMER,)
    fixtures = (_CABINET,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Cabinet and hammer, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        cabinet, hammer = _REGIONS[self.variant]
        return place_bodies(seeds, [(_CABINET, cabinet), (_HAMMER, hammer)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the hammer lies still on the drawer's floor, and the drawer is closed."""
        floor = point(view.object_poses["drawer"], DRAWER_FLOOR)
        x, y, z = position_in(floor, view.object_poses["hammer"])
        inside = (x.abs() < _INSIDE[0]) & (y.abs() < _INSIDE[1]) & (z > 0.0) & (z < _MAX_HEIGHT)
        return inside & (view.joint_positions["drawer"] < _CLOSED) & still(view, "hammer")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `open`, the drawer is out; `grasp`, the hammer is held, off the table."""
        held = held_at(view, "hammer", HAMMER_HANDLE, _MAX_HELD_WIDTH)
        return {
            "open": view.joint_positions["drawer"] > OPEN,
            "grasp": held & (clearance(view, _HAMMER) > GRASP_CLEARANCE),
        }

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach_drawer` and `reach_hammer`, the hand is near to the handle; `carry`, the hammer in the hand
        is near to where it goes over the drawer."""
        return {
            "reach_drawer": near(view, "drawer", DRAWER_HANDLE),
            "reach_hammer": near(view, "hammer", HAMMER_HANDLE),
            "carry": near_above(view, "hammer", "drawer", 0.05),
        }
