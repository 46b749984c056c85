"""Three-piece assembly: put piece 1 into a base, then piece 2 over piece 1. Subtasks: grasp_1 -> piece_1, insert_1 ->
base, grasp_2 -> piece_2, assemble -> piece_1.

MimicGen's ThreePieceAssembly (Mandlekar et al., arXiv 2310.17596; mimicgen/envs/robosuite/three_piece_assembly.py): its
regions, and its patterns of unit boxes, joined where they are one box. Its base weighs 11 kg; this one stands fast.
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import NEAR, distance, held_at, near, point, position_in, still
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

UNIT_1, UNIT_2, UNIT_BASE = 0.034, 0.04, 0.038
"""Sides of the unit boxes of piece 1, piece 2 and the base, metres."""
RIDGE_TOP = 3 * UNIT_1
"""Height of piece 1, metres: a plate of 3 x 3 units with a ridge of two units upon it."""
PIECE_1_HALF, PIECE_2_HALF = 1.5 * UNIT_1, 2.0 * UNIT_2
"""Half heights, metres; the frames are in the middle."""
SEAT_1, SEAT_2 = PIECE_1_HALF, UNIT_BASE + PIECE_2_HALF
"""Heights of the frames when put together, metres: piece 1 on the table in the base's hole, piece 2 on the base."""
RIDGE = (0.0, 0.0, 0.034)
"""Where piece 1 is held, in its frame: near the top of the ridge, metres."""
KNOB = (0.0, 0.0, 0.062)
"""Where piece 2 is held, in its frame, metres."""

_CENTRED = 0.01
"""Distance of a piece's middle from what it belongs to, in each direction, metres. The play is 6 mm for piece 1 in the
hole, and 4.7 mm for the ridge in piece 2."""
_TOLERANCE = 0.004
"""Of heights, metres."""
_FLAT = 0.99
"""Cosine of the tilt of an assembled piece."""
_MAX_HELD_1, _MAX_HELD_2 = 0.036, 0.046
"""Fingers around the ridge of 30.6 mm and the knob of 40 mm, metres."""
_LET_GO_WIDTH = 0.06
"""Wider than the knob's diagonal, metres."""
_LIFTED = 0.01
"""Above where a piece stands on the table, metres."""

_HALF_1, _HALF_2 = 0.5 * UNIT_1, 0.5 * UNIT_2
_PIECE_1 = ObjectSpec(
    "piece_1",
    (3 * _HALF_1, 3 * _HALF_1, PIECE_1_HALF),
    0.06,
    (0.75, 0.3, 0.2, 1.0),
    (
        Shape("box", (3 * _HALF_1, 3 * _HALF_1, _HALF_1), (0.0, 0.0, -2 * _HALF_1)),
        Shape("box", (2.7 * _HALF_1, 0.9 * _HALF_1, 2 * _HALF_1), (0.0, 0.0, _HALF_1)),
    ),
)
_PIECE_2 = ObjectSpec(
    "piece_2",
    (3 * _HALF_2, 3 * _HALF_2, PIECE_2_HALF),
    0.1,
    (0.85, 0.55, 0.25, 1.0),
    (
        Shape("box", (3 * _HALF_2, _HALF_2, 2 * _HALF_2), (0.0, 2 * _HALF_2, -2 * _HALF_2)),
        Shape("box", (3 * _HALF_2, _HALF_2, 2 * _HALF_2), (0.0, -2 * _HALF_2, -2 * _HALF_2)),
        Shape("box", (3 * _HALF_2, 3 * _HALF_2, _HALF_2), (0.0, 0.0, _HALF_2)),
        Shape("box", (_HALF_2, _HALF_2, _HALF_2), (0.0, 0.0, 3 * _HALF_2)),
    ),
)
_SIDE, _BAR = 5 * UNIT_BASE / 2, UNIT_BASE / 2
_BASE = FixtureSpec(
    "base",
    (_SIDE, _SIDE, _BAR),
    (
        Shape("box", (_BAR, _SIDE, _BAR), (2 * UNIT_BASE, 0.0, _BAR)),
        Shape("box", (_BAR, _SIDE, _BAR), (-2 * UNIT_BASE, 0.0, _BAR)),
        Shape("box", (_SIDE - UNIT_BASE, _BAR, _BAR), (0.0, 2 * UNIT_BASE, _BAR)),
        Shape("box", (_SIDE - UNIT_BASE, _BAR, _BAR), (0.0, -2 * UNIT_BASE, _BAR)),
    ),
    (0.5, 0.36, 0.25, 1.0),
)

_ANYWHERE = (-0.22, 0.22)
_QUARTER = math.pi / 2
_REGIONS = {
    "D0": (Region((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)), Region(_ANYWHERE, _ANYWHERE, (_QUARTER, _QUARTER))),
    "D1": (Region(_ANYWHERE, _ANYWHERE, (0.0, 0.0)), Region(_ANYWHERE, _ANYWHERE, (_QUARTER, _QUARTER))),
    "D2": (Region(_ANYWHERE, _ANYWHERE, (-_QUARTER / 2, _QUARTER / 2)), Region(_ANYWHERE, _ANYWHERE, (0.0, math.pi))),
}
"""Base, and either piece."""


class ThreePieceAssemblyTask(Task):
    """A base with a hole, a piece that fits into it, and one that fits over that."""

    name = "three_piece_assembly"
    description = "Put the first piece into the base, then the second piece over the first."
    objects = (_PIECE_1, _PIECE_2)
    fixtures = (_BASE,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Base and pieces, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        base, piece = _REGIONS[self.variant]
        return place_bodies(seeds, [(_BASE, base), (_PIECE_1, piece), (_PIECE_2, piece)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: both pieces sit flat in their places, piece 2 is released, and nothing moves."""
        assembled = _inserted(view) & _seated(view, "piece_2", "piece_1", SEAT_2)
        return assembled & ~_on_knob(view) & still(view, "piece_1", "piece_2")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `grasp_1` and `grasp_2`, the piece is held and lifted; `insert_1`, piece 1 sits in the base and is
        released."""
        heights = {name: pose[:, 2, 3] for name, pose in view.object_poses.items()}
        held_1 = held_at(view, "piece_1", RIDGE, _MAX_HELD_1)
        held_2 = held_at(view, "piece_2", KNOB, _MAX_HELD_2)
        return {
            "grasp_1": held_1 & (heights["piece_1"] > PIECE_1_HALF + _LIFTED),
            "insert_1": _inserted(view) & ~held_1,
            "grasp_2": held_2 & (heights["piece_2"] > PIECE_2_HALF + _LIFTED),
        }

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach_1`, `reach_2`, the hand is near to where the piece is held; `carry_1`, `carry_2`, the piece
        in the hand is near to where it goes down from."""
        return {
            "reach_1": near(view, "piece_1", RIDGE),
            "carry_1": near(view, "piece_1", RIDGE) & _over_base(view, "piece_1", SEAT_1 + UNIT_BASE),
            "reach_2": near(view, "piece_2", KNOB),
            "carry_2": near(view, "piece_2", KNOB) & _over_base(view, "piece_2", SEAT_2 + 2 * UNIT_1),
        }


def _inserted(view: TaskView) -> Tensor:
    return _seated(view, "piece_1", "base", SEAT_1)


def _seated(view: TaskView, name: str, around: str, height: float) -> Tensor:
    """(N,) bool: a piece is flat at a height above the table, in the middle of another body."""
    piece = view.object_poses[name]
    x, y, _ = position_in(view.object_poses[around], piece)
    level = ((piece[:, 2, 3] - height).abs() < _TOLERANCE) & (piece[:, 2, 2] > _FLAT)
    return level & (x.abs() < _CENTRED) & (y.abs() < _CENTRED)


def _on_knob(view: TaskView) -> Tensor:
    """(N,) bool: the fingers are around piece 2's knob, and not wider open than a hand that has let go."""
    around = distance(point(view.object_poses["piece_2"], KNOB), view.eef_poses["panda"]) < 0.05
    return around & (view.gripper_widths["panda"] < _LET_GO_WIDTH)


def _over_base(view: TaskView, name: str, height: float) -> Tensor:
    return distance(view.object_poses[name], point(view.object_poses["base"], (0.0, 0.0, height))) < NEAR
