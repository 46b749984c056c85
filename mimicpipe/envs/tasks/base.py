"""What a manipulation task is, apart from the simulator that runs it: pure tensors over a batch of slots.

A scene has three kinds of bodies, each with a frame of its own under its name: free *objects*, *fixtures* that stand
where the reset has put them, and *parts* that move on a fixture's joint (a lid, a drawer).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from mimicpipe.errors import ConfigError
from mimicpipe.rng import Seeds

if TYPE_CHECKING:
    import mujoco


Vector = tuple[float, float, float]
Rgba = tuple[float, float, float, float]


@dataclass(frozen=True)
class Shape:
    """One primitive of a body, in the body's frame."""

    kind: Literal["box", "cylinder", "capsule"]
    size: tuple[float, ...]
    """Half extents of a box (3); radius and half length along z of a cylinder or a capsule, without its caps (2);
    metres."""
    pos: Vector = (0.0, 0.0, 0.0)
    """Centre, metres."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """Rotation, wxyz."""
    rgba: Rgba | None = None
    """None is the body's colour."""
    friction: float = 1.0
    """Sliding friction; of two bodies in contact the larger counts, the fingertips' own before all."""
    collides: bool = True


@dataclass(frozen=True)
class ObjectSpec:
    """A free rigid body on the table: a box, or several primitives."""

    name: str
    half_size: Vector
    """Half extents, metres; of several shapes those of a box around them, centred on the object's frame."""
    mass: float
    """kg."""
    rgba: Rgba
    shapes: tuple[Shape, ...] = ()
    """What it is made of; none is one box of `half_size`. The mass is spread by volume."""


@dataclass(frozen=True)
class PartSpec:
    """A body on one joint of a fixture. At joint position 0 its axes are the fixture's."""

    name: str
    """Of the part's frame and of its joint."""
    joint: Literal["slide", "hinge"]
    axis: Vector
    """Direction of the joint, unit length, in the part's frame; a hinge turns by the right hand about it."""
    limits: tuple[float, float]
    """Metres or radians."""
    pos: Vector
    """Origin at joint position 0, in the fixture's frame, metres."""
    shapes: tuple[Shape, ...]
    mass: float
    """kg."""
    rgba: Rgba
    anchor: Vector = (0.0, 0.0, 0.0)
    """A point on a hinge's axis, in the part's frame, metres."""
    damping: float = 0.0
    """N s/m or N m s/rad."""
    friction: float = 0.0
    """Dry friction of the joint, N or N m."""
    start: float = 0.0
    """Joint position after a reset, unless the task draws one."""


@dataclass(frozen=True)
class FixtureSpec:
    """A body that the reset places and that nothing moves, with its parts."""

    name: str
    half_size: Vector
    """Half extents of a box around it, metres; `placement` keeps other bodies out of it."""
    shapes: tuple[Shape, ...]
    rgba: Rgba
    parts: tuple[PartSpec, ...] = ()


@dataclass(frozen=True)
class ArmBase:
    """Where an arm stands, in the slot's frame."""

    pos: Vector = (0.0, 0.0, 0.0)
    """Metres."""
    yaw: float = 0.0
    """To where it faces, from the x axis, radians."""


SIDE_BY_SIDE = (ArmBase((0.0, 0.3, 0.0)), ArmBase((0.0, -0.3, 0.0)))
"""A left and a right arm that face the table: robosuite's configuration "parallel", 5 cm wider on each side."""


@dataclass(slots=True)
class TaskView:
    """The part of N slots' state that a task's success and signals may look at. Slot frame: origin at the base of a
    single arm, x towards the table, z up; the table's surface is z = 0."""

    object_poses: dict[str, Tensor]
    """{object, fixture or part: (N, 4, 4)}."""
    object_speeds: dict[str, Tensor]
    """{object: (N,)} linear speed, m/s."""
    eef_poses: dict[str, Tensor]
    """{eef: (N, 4, 4)}."""
    gripper_widths: dict[str, Tensor]
    """{eef: (N,)} distance between the fingers, metres."""
    joint_positions: dict[str, Tensor] = field(default_factory=dict)
    """{part: (N,)} position of its joint, metres or radians."""


class Task(ABC):
    """One manipulation task.

    Attributes:
        name: key of the Hydra group, e.g. "pick".
        description: language instruction.
        eef_names: end effectors the task uses, one for each arm.
        bases: where the arms stand, in the order of `eef_names`.
        objects: free objects, in state order.
        fixtures: bodies that stand still during an episode, with their parts.
        needs_contact: whether the task makes no sense without contact between bodies, as in env=kinematic; the key
            `needs_contact` of its YAML says the same.
        variants: valid reset distributions ("D0", "D1", ...).
        variant: the one in use.
    """

    name: str
    description: str
    eef_names: tuple[str, ...] = ("panda",)
    bases: tuple[ArmBase, ...] = (ArmBase(),)
    objects: tuple[ObjectSpec, ...]
    fixtures: tuple[FixtureSpec, ...] = ()
    needs_contact: bool = False
    variants: tuple[str, ...]
    variant: str

    def __init__(self, variant: str = "D0") -> None:
        """Choose a reset distribution.

        Raises:
            ConfigError: the task has no such variant.
        """
        if variant not in self.variants:
            raise ConfigError(f"task.variant={variant}: task {self.name} has {', '.join(self.variants)}")
        self.variant = variant

    @abstractmethod
    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Initial poses {object or fixture: (K, 4, 4)} float64, each a function of its seed (stream SCENE) and the
        variant."""

    def sample_joint_positions(self, seeds: Seeds) -> dict[str, npt.NDArray[np.float64]]:
        """Initial joint positions {part: (K,)}; by default each part's `start`."""
        return {part.name: np.full(len(seeds), part.start) for part in self.parts}

    @abstractmethod
    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the goal state holds at this instant."""

    @abstractmethod
    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """{signal: (N,) bool}, true once the subtask that the signal ends is done."""

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """{signal: (N,) bool}, true where the skill of a subtask may begin: the hand, or what it holds, is near to
        where it acts, and what is left is contact and not way. By default none."""
        del view
        return {}

    def add_fixtures(self, spec: "mujoco.MjSpec") -> None:
        """Add what the scene needs beside robot, table, `objects` and `fixtures` (marks); by default nothing."""
        del spec

    @property
    def parts(self) -> tuple[PartSpec, ...]:
        """Parts of all fixtures, in order."""
        return tuple(part for fixture in self.fixtures for part in fixture.parts)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of all frames: objects, fixtures, parts."""
        return tuple(body.name for body in (*self.objects, *self.fixtures, *self.parts))
