"""Square: put a square nut on a square peg. Subtasks: grasp -> square_nut, put on -> square_peg.

robosuite's NutAssemblySquare (sizes: models/assets/objects/square-nut.xml, arenas/pegs_arena.xml), with MimicGen's
reset regions (Mandlekar et al., arXiv 2310.17596; mimicgen/envs/robosuite/nut_assembly.py).
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, held_at, near, near_above, released, still
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

HANDLE = (0.0615, 0.0, 0.0)
"""Middle of the handle in the nut's frame, metres; the frame is in the middle of the hole."""
PEG_HEIGHT = 0.13
"""Metres above the table."""

_NUT = ObjectSpec(
    "square_nut",
    (0.07925, 0.04375, 0.01),
    0.05,
    (0.75, 0.6, 0.25, 1.0),
    (
        Shape("box", (0.0105, 0.04375, 0.01), (-0.03325, 0.0, 0.0)),
        Shape("box", (0.0105, 0.04375, 0.01), (0.03325, 0.0, 0.0)),
        Shape("box", (0.02275, 0.0105, 0.01), (0.0, 0.03325, 0.0)),
        Shape("box", (0.02275, 0.0105, 0.01), (0.0, -0.03325, 0.0)),
        Shape("box", (0.01775, 0.015875, 0.01), HANDLE),
    ),
)
"""A hole of 45.5 mm in a frame of 21 mm, and a handle. The peg has 32 mm: 6.75 mm of play to each side."""

_PEG = FixtureSpec(
    "square_peg",
    (0.016, 0.016, PEG_HEIGHT / 2),
    (Shape("box", (0.016, 0.016, PEG_HEIGHT / 2), (0.0, 0.0, PEG_HEIGHT / 2)),),
    (0.55, 0.45, 0.3, 1.0),
)

_REGIONS = {
    "D0": (Region((0.23, 0.23), (0.10, 0.10), (0.0, 0.0)), Region((-0.115, -0.11), (0.11, 0.225))),
    "D1": (Region((-0.10, 0.30), (-0.20, 0.20), (0.0, 0.0)), Region((-0.115, 0.115), (-0.255, 0.255))),
    "D2": (Region((-0.25, 0.25), (-0.25, 0.25), (0.0, math.pi / 2)), Region((-0.25, 0.25), (-0.25, 0.25))),
}
"""Peg and nut."""

_ON_PEG = 0.012
"""Distance of the nut's middle from the peg's axis, metres: the play in both directions is 0.0095 m."""
_ON_TABLE = 0.015
"""Height of the nut's middle, metres; a nut flat on the table has 0.01 m."""
_MAX_HELD_WIDTH = 0.04
"""Fingers on the handle, which is 0.032 m wide, metres."""


class SquareTask(Task):
    """A square nut with a handle, and a peg that fits its hole."""

    name = "square"
    description = "Put the square nut on the square peg."
    objects = (_NUT,)
    fixtures = (_PEG,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Peg and nut, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        peg, nut = _REGIONS[self.variant]
        return place_bodies(seeds, [(_PEG, peg), (_NUT, nut)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the nut lies flat on the table around the peg, released and still."""
        nut, peg = view.object_poses["square_nut"][:, :3, 3], view.object_poses["square_peg"][:, :3, 3]
        x, y, _ = (nut - peg).unbind(-1)
        around = (x * x + y * y < _ON_PEG**2) & (nut[:, 2] < _ON_TABLE)
        return around & released(view, "square_nut", "panda") & still(view, "square_nut")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the nut is held by its handle, off the table."""
        held = held_at(view, "square_nut", HANDLE, _MAX_HELD_WIDTH)
        return {"grasp": held & (clearance(view, _NUT) > GRASP_CLEARANCE)}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach`, the hand is near to the handle; `carry`, the nut in the hand is near to the peg's top."""
        return {
            "reach": near(view, "square_nut", HANDLE),
            "carry": near_above(view, "square_nut", "square_peg", PEG_HEIGHT + 0.02),
        }
