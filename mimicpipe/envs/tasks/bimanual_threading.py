"""Bimanual threading: the left arm holds up a ring, and the right one lets a peg into it until it hangs by its head.

Subtasks, left: grasp -> ring, hold up; right: grasp -> peg, thread. The kind of task of DexMimicGen's TwoArmThreading
(Jiang et al., ICRA 2025); sizes are chosen.
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import SIDE_BY_SIDE, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, distance, held_at, near, near_above, point, position_in
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

HANDLE = (0.12, 0.0, 0.0)
"""Where the left hand holds the ring, in its frame, metres; the frame is in the middle of the hole."""
HEAD = (0.0, 0.0, 0.045)
"""Middle of the peg's head in its frame, metres."""
RING_TOP = 0.01
"""Of the ring, above its frame, metres."""
HEAD_BELOW = 0.03
"""Lower side of the head in the peg's frame, metres."""

_RING = ObjectSpec(
    "ring",
    (0.15, 0.037, RING_TOP),
    0.06,
    (0.25, 0.42, 0.70, 1.0),
    (
        Shape("box", (0.0095, 0.037, 0.01), (-0.0275, 0.0, 0.0)),
        Shape("box", (0.0095, 0.037, 0.01), (0.0275, 0.0, 0.0)),
        Shape("box", (0.018, 0.0095, 0.01), (0.0, 0.0275, 0.0)),
        Shape("box", (0.018, 0.0095, 0.01), (0.0, -0.0275, 0.0)),
        Shape("box", (0.0565, 0.012, 0.01), (0.0935, 0.0, 0.0)),
    ),
)
"""A hole of 36 mm in a frame of 19 mm, and a handle."""
_PEG = ObjectSpec(
    "peg",
    (0.032, 0.013, 0.06),
    0.05,
    (0.80, 0.30, 0.18, 1.0),
    (
        Shape("box", (0.013, 0.013, 0.045), (0.0, 0.0, -0.015)),
        Shape("box", (0.032, 0.012, 0.015), HEAD),
    ),
)
"""A shaft of 26 mm, 5 mm of play to each side, and a head that does not pass the hole."""

_TURN = 0.5 * math.pi
_REGIONS = {
    "D0": (
        Region((-0.05, 0.05), (0.12, 0.20), (_TURN - 0.2, _TURN + 0.2)),
        Region((-0.05, 0.05), (-0.20, -0.12), (_TURN - 0.2, _TURN + 0.2)),
    ),
    "D1": (
        Region((-0.15, 0.10), (0.05, 0.20), (_TURN - 0.8, _TURN + 0.8)),
        Region((-0.15, 0.10), (-0.25, -0.05), (_TURN - 0.8, _TURN + 0.8)),
    ),
}
"""Ring and peg."""

_MAX_HANDLE_WIDTH = 0.03
_MAX_HEAD_WIDTH = 0.03
"""Fingers on the handle and on the head, both 0.024 m wide, metres."""
_IN_HOLE = 0.008
"""Distance of the shaft from the hole's middle, metres: the play in both directions is 0.0071 m."""
_HANGS = 0.012
"""Distance of the head above the ring's upper side, metres: resting on it, askew by no more than the play allows."""
_BETWEEN = 0.10
"""Distance of a ring that is held up from the plane between the arms, metres."""
_IN_THE_AIR = 0.10
"""Clearance of a ring that is held up, metres."""
_OVER_RING = 0.10
"""Height of the peg's middle over the ring, with the shaft's end above it, metres."""
_AWAY = 0.05
"""Distance of the right hand from the peg's head, metres."""


class BimanualThreadingTask(Task):
    """A ring with a handle on the left arm's side, and a standing peg with a head on the right one's."""

    name = "bimanual_threading"
    description = "Hold up the blue ring with the left hand and let the peg into it with the right hand."
    eef_names = ("left", "right")
    bases = SIDE_BY_SIDE
    objects = (_RING, _PEG)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Ring and peg, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        ring, peg = _REGIONS[self.variant]
        return place_bodies(seeds, [(_RING, ring), (_PEG, peg)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the peg hangs in the ring by its head, the left hand holds the ring up, the right one is away."""
        ring, peg = view.object_poses["ring"], view.object_poses["peg"]
        x, y, z = position_in(ring, point(peg, (0.0, 0.0, HEAD_BELOW)))
        threaded = (x * x + y * y < _IN_HOLE**2) & ((z - RING_TOP).abs() < _HANGS)
        away = distance(point(peg, HEAD), view.eef_poses["right"]) > _AWAY
        return threaded & away & self._holds_ring(view)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`left_grasp` and `right_grasp` (N,) bool: the hand has lifted the ring, the peg."""
        held = held_at(view, "peg", HEAD, _MAX_HEAD_WIDTH, "right")
        return {"left_grasp": self._holds_ring(view), "right_grasp": held & (clearance(view, _PEG) > GRASP_CLEARANCE)}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `left_reach` and `right_reach`, the hand is near to the handle, to the head; `hold_up`, the ring
        is held in the air between the arms; `carry`, the held peg is near to where it goes down into the ring."""
        ring = view.object_poses["ring"]
        between = (ring[:, 1, 3].abs() < _BETWEEN) & (clearance(view, _RING) > _IN_THE_AIR)
        return {
            "left_reach": near(view, "ring", HANDLE, "left"),
            "right_reach": near(view, "peg", HEAD, "right"),
            "hold_up": between & held_at(view, "ring", HANDLE, _MAX_HANDLE_WIDTH, "left"),
            "carry": near_above(view, "peg", "ring", _OVER_RING, eef_name="right"),
        }

    def _holds_ring(self, view: TaskView) -> Tensor:
        held = held_at(view, "ring", HANDLE, _MAX_HANDLE_WIDTH, "left")
        return held & (clearance(view, _RING) > GRASP_CLEARANCE)
