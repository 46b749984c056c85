"""Bimanual handover: the left arm hands a bar to the right one, which puts it on a pad beyond the left one's side.

Subtasks, left: grasp -> bar, present, hold, let go, stay away; right: wait, grasp -> bar, hold, put down -> pad. A hand
that waits has subtasks, too: a segment is moved with its object from where that is when the segment begins, so the
right hand's grasp may only begin when the bar is held out. The kind of task of robosuite's TwoArmHandover; sizes are
chosen.
"""

import math

import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import SIDE_BY_SIDE, FixtureSpec, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, distance, held_at, near, near_above, on_table, point, still
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

GRIPS = {"left": (0.0, 0.07, 0.0), "right": (0.0, -0.07, 0.0)}
"""{eef: where it holds the bar, in the bar's frame}, metres."""

_BAR = ObjectSpec(
    "bar",
    (0.015, 0.10, 0.015),
    0.08,
    (0.85, 0.55, 0.12, 1.0),
    (
        Shape("box", (0.015, 0.04, 0.015)),
        Shape("box", (0.015, 0.03, 0.015), GRIPS["left"], rgba=(0.20, 0.45, 0.80, 1.0)),
        Shape("box", (0.015, 0.03, 0.015), GRIPS["right"], rgba=(0.75, 0.20, 0.25, 1.0)),
    ),
)
_PAD = FixtureSpec(
    "pad",
    (0.045, 0.13, 0.001),
    (Shape("box", (0.045, 0.13, 0.001), (0.0, 0.0, 0.001), collides=False),),
    (0.30, 0.42, 0.36, 1.0),
)

_REGIONS = {
    "D0": (Region((-0.05, 0.05), (0.12, 0.22), (-0.2, 0.2)), Region((-0.05, 0.05), (-0.22, -0.18), (-0.2, 0.2))),
    "D1": (Region((-0.15, 0.10), (0.05, 0.25), (-0.8, 0.8)), Region((-0.15, 0.10), (-0.25, -0.10), (-0.8, 0.8))),
}
"""Bar and pad."""

_MAX_HELD_WIDTH = 0.037
"""Fingers on the bar, which is 0.03 m wide, metres."""
_RELEASED_WIDTH = 0.045
"""Fingers wider apart than the bar and some play, metres."""
_IN_THE_MIDDLE = 0.06
"""Distance of a presented bar's centre from the plane between the arms, metres."""
_PRESENTED_CLEARANCE = 0.10
"""Of a presented bar, metres."""
_AWAY = 0.07
"""Grasp point of a hand that has given the bar away, from where it held it, metres."""
_ON_PAD = 0.03
"""Of the bar's centre from the pad's, metres."""
_OVER_PAD = 0.03
"""Height of the bar's middle over the pad, to which it is carried, metres."""
_ALONG_PAD = math.cos(math.radians(20.0))
"""Least cosine of the angle between the bar and the pad."""


class BimanualHandoverTask(Task):
    """A bar on the left arm's side, and a pad on the right one's."""

    name = "bimanual_handover"
    description = "Pass the bar from the left hand to the right hand and put it on the green pad."
    eef_names = ("left", "right")
    bases = SIDE_BY_SIDE
    objects = (_BAR,)
    fixtures = (_PAD,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Bar and pad, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        bar, pad = _REGIONS[self.variant]
        return place_bodies(seeds, [(_BAR, bar), (_PAD, pad)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the bar lies on the pad, along it, still and let go by both hands."""
        bar, pad = view.object_poses["bar"], view.object_poses["pad"]
        x, y, _ = (bar[:, :3, 3] - pad[:, :3, 3]).unbind(-1)
        along = bar[:, 0, 1] * pad[:, 0, 1] + bar[:, 1, 1] * pad[:, 1, 1]
        there = (x * x + y * y < _ON_PAD**2) & (along.abs() > _ALONG_PAD) & on_table(view, _BAR)
        free = torch.minimum(view.gripper_widths["left"], view.gripper_widths["right"]) > _RELEASED_WIDTH
        return there & free & still(view, "bar")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `left_grasp`, the left hand has lifted the bar; `presented`, it holds it still in the middle;
        `right_grasp`, the right hand holds it; `given`, the left one has let go of it and is away."""
        left, right = (held_at(view, "bar", GRIPS[eef], _MAX_HELD_WIDTH, eef) for eef in self.eef_names)
        air = clearance(view, _BAR)
        left_away = distance(point(view.object_poses["bar"], GRIPS["left"]), view.eef_poses["left"])
        middle = (view.object_poses["bar"][:, 1, 3].abs() < _IN_THE_MIDDLE) & (air > _PRESENTED_CLEARANCE)
        return {
            "left_grasp": left & (air > GRASP_CLEARANCE),
            "presented": left & middle & still(view, "bar"),
            "right_grasp": right,
            "given": right & (left_away > _AWAY),
        }

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `left_reach` and `right_reach`, the hand is near to its place on the bar; `carry`, the bar in the
        right hand is near to the pad."""
        reach = {f"{eef}_reach": near(view, "bar", GRIPS[eef], eef) for eef in self.eef_names}
        return {**reach, "carry": near_above(view, "bar", "pad", _OVER_PAD, eef_name="right")}
