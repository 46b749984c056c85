"""Coffee: put a pod into a coffee machine and close its lid. Subtasks: grasp -> coffee_pod, serve -> coffee_machine.

MimicGen's Coffee (Mandlekar et al., arXiv 2310.17596; mimicgen/envs/robosuite/coffee.py): its regions, the hinge's
range and start, the machine's height, the holder's radius and the pod's play in it; the shapes are primitives.
"""

import math

from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, PartSpec, Shape, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, held_at, near, near_above, point, still
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import Region, place_bodies
from mimicpipe.rng import Seeds

POD_RADIUS = 0.02
POD_HALF_HEIGHT = 0.02
HOLDER_RADIUS = 0.025
"""Of the circle inside the holder's walls, metres."""
HOLDER = (0.0, 0.11, 0.17)
"""Middle of the holder's floor in the machine's frame, metres; the frame is on the table under the machine's middle."""
HOLDER_DEPTH = 0.044
LID_LENGTH = 0.085
LID_OPEN = 2.0 * math.pi / 3.0
"""Angle of the open lid, radians, its limit and its start."""
LID_CLOSED = math.radians(15.0)
"""A lid at less than this is closed: MimicGen's bound."""
HINGE = (0.0, 0.065, HOLDER[2] + HOLDER_DEPTH + 0.006)
"""Of the lid, in the machine's frame, metres: behind the holder, over its rim."""

_BLACK, _SILVER = (0.13, 0.13, 0.14, 1.0), (0.80, 0.80, 0.82, 1.0)

_POD = ObjectSpec(
    "coffee_pod",
    (POD_RADIUS, POD_RADIUS, POD_HALF_HEIGHT),
    0.03,
    (0.85, 0.75, 0.55, 1.0),
    (Shape("cylinder", (POD_RADIUS, POD_HALF_HEIGHT)),),
)


def _holder_wall(index: int, walls: int = 8) -> Shape:
    """One side of the holder: a box that touches the inner circle."""
    angle, half_thickness = 2.0 * math.pi * index / walls, 0.0025
    reach = HOLDER_RADIUS + half_thickness
    half_width = (HOLDER_RADIUS + 2.0 * half_thickness) * math.tan(math.pi / walls)
    return Shape(
        "box",
        (half_thickness, half_width, HOLDER_DEPTH / 2),
        (reach * math.cos(angle), HOLDER[1] + reach * math.sin(angle), HOLDER[2] + HOLDER_DEPTH / 2),
        (math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)),
        rgba=(0.75, 0.1, 0.1, 1.0),
        friction=0.3,
    )


_LID = PartSpec(
    "coffee_lid",
    "hinge",
    (1.0, 0.0, 0.0),
    (0.0, LID_OPEN),
    HINGE,
    (Shape("box", (0.03, LID_LENGTH / 2, 0.004), (0.0, LID_LENGTH / 2, 0.0)),),
    0.08,
    _SILVER,
    damping=0.01,
    friction=0.005,
    start=LID_OPEN,
)
_MACHINE = FixtureSpec(
    "coffee_machine",
    (0.06, 0.155, 0.11),
    (
        Shape("box", (0.06, 0.075, 0.11), (0.0, -0.025, 0.11), rgba=_BLACK),
        Shape("box", (0.012, 0.02, 0.006), (0.0, 0.068, HOLDER[2] - 0.006), rgba=_SILVER),
        Shape("box", (0.029, 0.029, 0.004), (0.0, HOLDER[1], HOLDER[2] - 0.004), rgba=_SILVER),
        *(_holder_wall(index) for index in range(8)),
        Shape("box", (0.042, 0.05, 0.005), (0.0, 0.1, 0.005), rgba=_BLACK),
    ),
    _BLACK,
    (_LID,),
)
"""It faces along its y axis: a body, in front of it a holder with the lid's hinge behind, below that a base."""

_REGIONS = {
    "D0": (
        Region((0.0, 0.0), (-0.1, -0.1), (-math.pi / 6, -math.pi / 6)),
        Region((-0.13, -0.07), (0.17, 0.23), (0.0, 0.0)),
    ),
    "D1": (
        Region((0.05, 0.15), (-0.2, -0.1), (-math.pi / 6, math.pi / 3)),
        Region((-0.2, 0.05), (0.17, 0.3), (0.0, 0.0)),
    ),
    "D2": (
        Region((-0.05, 0.05), (0.1, 0.2), (2 * math.pi / 3, 7 * math.pi / 6)),
        Region((-0.2, 0.05), (-0.3, -0.17), (0.0, 0.0)),
    ),
}
"""Machine and pod. D2 swaps their sides and turns the machine around."""

_MAX_HELD_WIDTH = 2.0 * POD_RADIUS + 0.008
_UPRIGHT = 0.95
"""Cosine of the pod's tilt."""


class CoffeeTask(Task):
    """A coffee pod, and a machine with a holder for it and a lid."""

    name = "coffee"
    description = "Put the pod into the coffee machine and close the lid."
    objects = (_POD,)
    fixtures = (_MACHINE,)
    needs_contact = True
    variants = tuple(_REGIONS)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Machine and pod, each uniform in its region of the variant, apart: {name: (K, 4, 4)} float64."""
        machine, pod = _REGIONS[self.variant]
        return place_bodies(seeds, [(_MACHINE, machine), (_POD, pod)])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the pod stands on the holder's floor within its walls, still, and the lid is closed."""
        pod = view.object_poses["coffee_pod"]
        floor = point(view.object_poses["coffee_machine"], HOLDER)
        x, y, z = (pod[:, :3, 3] - floor[:, :3, 3]).unbind(-1)
        inside = (x * x + y * y < (HOLDER_RADIUS - POD_RADIUS + 0.001) ** 2) & ((z - POD_HALF_HEIGHT).abs() < 0.005)
        closed = view.joint_positions["coffee_lid"] < LID_CLOSED
        return inside & (pod[:, 2, 2].abs() > _UPRIGHT) & closed & still(view, "coffee_pod")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the pod is held, off the table."""
        held = held_at(view, "coffee_pod", (0.0, 0.0, 0.0), _MAX_HELD_WIDTH)
        return {"grasp": held & (clearance(view, _POD) > GRASP_CLEARANCE)}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach`, the hand is near to the pod; `carry`, the pod in the hand is near to the holder's rim."""
        rim = HOLDER_DEPTH + POD_HALF_HEIGHT
        return {
            "reach": near(view, "coffee_pod"),
            "carry": near_above(view, "coffee_pod", "coffee_machine", rim, HOLDER),
        }
