"""Bimanual lift: two arms lift a tray with a carton standing on it. Subtasks of each: grasp -> tray, lift -> tray.

The carton falls over on a tray that tilts by 18 degrees: arms that do not lift at the same time lose it. The kind of
task of robosuite's TwoArmLift and DexMimicGen's tray lift (Jiang et al., ICRA 2025); sizes are chosen.
"""

import math

import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import SIDE_BY_SIDE, ObjectSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, held_at, near, position_in
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds, Stream, uniforms

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
_CARTON = ObjectSpec("carton", (0.016, 0.016, 0.05), 0.08, (0.85, 0.85, 0.80, 1.0))
_STANDS = 0.04
"""Height of the standing carton's middle in the tray's frame, metres."""

_REGIONS = {
    "D0": Region((-0.05, 0.05), (-0.05, 0.05), (-0.15, 0.15)),
    "D1": Region((-0.15, 0.10), (-0.12, 0.12), (-0.60, 0.60)),
}

"""Of the tray."""
_ON_TRAY = 0.03
"""Largest offset of the carton from the tray's middle at the start, along each side, metres."""
_DRAWS = 1 << 16
"""Where the carton's draws are in the SCENE stream, beyond those of `place_bodies`."""

_MAX_HELD_WIDTH = 0.03
"""Fingers on a handle, which is 0.024 m wide, metres."""
_LEVEL = math.cos(math.radians(10.0))
"""Least cosine of the tilt of the tray, and of the carton against it."""
_CARTON_TOLERANCE = 0.008
"""Of the standing carton's height in the tray's frame, metres."""


class BimanualLiftTask(Task):
    """A tray with a handle on each side and a carton on it."""

    name = "bimanual_lift"
    description = "Lift the tray with both hands and keep the carton standing."
    eef_names = ("left", "right")
    bases = SIDE_BY_SIDE
    objects = (_TRAY, _CARTON)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """The tray on the table, uniform in the variant's region, and the carton on it: {name: (K, 4, 4)} float64."""
        tray = place_bodies(seeds, [(_TRAY, _REGIONS[self.variant])])["tray"]
        x, y = torch.from_numpy((2.0 * uniforms(seeds, Stream.SCENE, 2, offset=_DRAWS) - 1.0) * _ON_TRAY).unbind(1)
        carton = tray.clone()
        carton[:, :3, 3] += x[:, None] * tray[:, :3, 0] + y[:, None] * tray[:, :3, 1] + _STANDS * tray[:, :3, 2]
        return {"tray": tray, "carton": carton}

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: held by both handles, level, with 10 cm of air below, and the carton stands on it."""
        tray = view.object_poses["tray"]
        lifted = (tray[:, 2, 2] > _LEVEL) & (clearance(view, _TRAY) >= LIFT_HEIGHT)
        return _held(view, "left") & _held(view, "right") & lifted & self._stands(view)

    def _stands(self, view: TaskView) -> Tensor:
        tray, carton = view.object_poses["tray"], view.object_poses["carton"]
        x, y, z = position_in(tray, carton)
        upright = (tray[:, :3, 2] * carton[:, :3, 2]).sum(dim=-1) > _LEVEL
        inside = (x.abs() < _TRAY.half_size[0]) & (y.abs() < _TRAY.half_size[1])
        return upright & inside & ((z - _STANDS).abs() < _CARTON_TOLERANCE)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`left_grasp` and `right_grasp` (N,) bool: the arm holds its handle."""
        return {f"{eef}_grasp": _held(view, eef) for eef in self.eef_names}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`left_reach` and `right_reach` (N,) bool: the hand is near to its handle."""
        return {f"{eef}_reach": near(view, "tray", HANDLES[eef], eef) for eef in self.eef_names}


def _held(view: TaskView, eef: str) -> Tensor:
    return held_at(view, "tray", HANDLES[eef], _MAX_HELD_WIDTH, eef)
