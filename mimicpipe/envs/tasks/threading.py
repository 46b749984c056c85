"""Threading: put a needle through the ring on a tripod. Subtasks: grasp -> needle, thread -> tripod.

MimicGen's Threading (Mandlekar et al., arXiv 2310.17596; mimicgen/envs/robosuite/threading.py): its regions, and the
sizes of models/robosuite/objects/composite/{needle, ring_tripod}.py. Its tripod may be pushed; this one stands fast.
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, distance, held_at, near, point, position_in
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

HANDLE = (0.0, 0.06, 0.0)
"""Middle of the handle in the needle's frame, a cube of 4 cm; metres."""
NEEDLE_MIDDLE = (0.0, -0.02, 0.0)
"""Middle of the thin part, 12 cm long along y and 1 cm thick, metres."""
TIP = (0.0, -0.08, 0.0)
RING = (0.0, 0.0, 0.188)
"""Middle of the ring in the tripod's frame, which is on the table, metres. The ring's axis is x."""

_HOLE = 0.008
"""Half side of the ring's square hole, metres: 3 mm of play for the needle to each side."""
_WALL = 0.002
_DEPTH = 0.005
"""Half thickness and half depth of the ring's walls, metres."""
_ALONG = 0.012
"""Distance of the needle's middle from the ring's along its axis, metres: MimicGen's bound."""
_ACROSS = 0.004
"""Likewise across it: the play, and what contact gives way."""
_MAX_HELD_WIDTH = 0.048
_NEAR = 0.10
"""Tip to ring, metres, where threading may begin."""

_SMOOTH = 0.3
"""Friction of needle and ring."""

_NEEDLE = ObjectSpec(
    "needle",
    (0.02, 0.08, 0.02),
    0.03,
    (0.35, 0.22, 0.14, 1.0),
    (
        Shape("box", (0.02, 0.02, 0.02), HANDLE),
        Shape("box", (0.005, 0.06, 0.005), NEEDLE_MIDDLE, friction=_SMOOTH),
    ),
)


def _leg(index: int) -> Shape:
    """A leg that leans by 30 degrees towards the middle."""
    turn, lean = 2.0 * math.pi * index / 3.0 + math.pi / 3.0, math.radians(-30.0)
    radius = 0.042
    # A turn about the vertical, then a lean about the new y axis.
    half_turn, half_lean = turn / 2.0, lean / 2.0
    quat = (
        math.cos(half_turn) * math.cos(half_lean),
        -math.sin(half_turn) * math.sin(half_lean),
        math.cos(half_turn) * math.sin(half_lean),
        math.sin(half_turn) * math.cos(half_lean),
    )
    return Shape("capsule", (0.01, 0.03), (radius * math.cos(turn), radius * math.sin(turn), 0.04), quat)


_WALLS = _HOLE + _WALL
_TRIPOD = FixtureSpec(
    "tripod",
    (0.06, 0.06, 0.1),
    (
        Shape("box", (_DEPTH, _HOLE + 2 * _WALL, _WALL), (0.0, 0.0, RING[2] + _WALLS), friction=_SMOOTH),
        Shape("box", (_DEPTH, _HOLE + 2 * _WALL, _WALL), (0.0, 0.0, RING[2] - _WALLS), friction=_SMOOTH),
        Shape("box", (_DEPTH, _WALL, _HOLE), (0.0, _WALLS, RING[2]), friction=_SMOOTH),
        Shape("box", (_DEPTH, _WALL, _HOLE), (0.0, -_WALLS, RING[2]), friction=_SMOOTH),
        Shape("box", (0.005, 0.005, 0.0435), (0.0, 0.0, 0.1325)),
        Shape("box", (0.05, 0.05, 0.005), (0.0, 0.0, 0.084)),
        *(_leg(index) for index in range(3)),
    ),
    (0.8, 0.68, 0.48, 1.0),
)

_REGIONS = {
    "D0": (
        Region((0.0, 0.0), (-0.15, -0.15), (math.pi / 2, math.pi / 2)),
        Region((-0.2, -0.05), (0.15, 0.25), (-2 * math.pi / 3, -math.pi / 3)),
    ),
    "D1": (
        Region((-0.1, 0.15), (-0.2, -0.1), (math.pi / 6, 5 * math.pi / 6)),
        Region((-0.2, 0.05), (0.15, 0.25), (-7 * math.pi / 6, math.pi / 6)),
    ),
    "D2": (
        Region((-0.1, 0.15), (0.1, 0.2), (-5 * math.pi / 6, -math.pi / 6)),
        Region((-0.2, 0.05), (-0.25, -0.15), (-7 * math.pi / 6, math.pi / 6)),
    ),
}
"""Tripod and needle. D2 swaps their sides."""


class ThreadingTask(Task):
    """A needle with a handle, and a tripod with a ring."""

    name = "threading"
    description = "Put the needle through the ring of the tripod."
    objects = (_NEEDLE,)
    fixtures = (_TRIPOD,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Tripod and needle, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        tripod, needle = _REGIONS[self.variant]
        return place_bodies(seeds, [(_TRIPOD, tripod), (_NEEDLE, needle)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the needle is half way through the ring; the hand may hold it, and so shake it."""
        ring = point(view.object_poses["tripod"], RING)
        middle = point(view.object_poses["needle"], NEEDLE_MIDDLE)
        x, y, z = position_in(ring, middle)
        return (x.abs() < _ALONG) & (y.abs() < _ACROSS) & (z.abs() < _ACROSS)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the needle is held by its handle, off the table."""
        return {"grasp": _held(view) & (clearance(view, _NEEDLE) > GRASP_CLEARANCE)}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach`, the hand is near to the handle; `carry`, the held needle's tip is near to the ring."""
        tip = point(view.object_poses["needle"], TIP)
        return {
            "reach": near(view, "needle", HANDLE),
            "carry": _held(view) & (distance(tip, point(view.object_poses["tripod"], RING)) < _NEAR),
        }


def _held(view: TaskView) -> Tensor:
    return held_at(view, "needle", HANDLE, _MAX_HELD_WIDTH)
