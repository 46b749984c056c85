"""What a manipulation task is, apart from the simulator that runs it: pure tensors over a batch of slots."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from mimicpipe.rng import Seeds

if TYPE_CHECKING:
    import mujoco


@dataclass(frozen=True)
class ObjectSpec:
    """A free rigid box on the table."""

    name: str
    half_size: tuple[float, float, float]
    """Half extents, metres."""
    mass: float
    """kg."""
    rgba: tuple[float, float, float, float]


@dataclass(slots=True)
class TaskView:
    """The part of N slots' state that a task's success and signals may look at. Slot frame: origin at the robot's base,
    z up; the table's surface is z = 0."""

    object_poses: dict[str, Tensor]
    """{object: (N, 4, 4)}."""
    object_speeds: dict[str, Tensor]
    """{object: (N,)} linear speed, m/s."""
    eef_poses: dict[str, Tensor]
    """{eef: (N, 4, 4)}."""
    gripper_widths: dict[str, Tensor]
    """{eef: (N,)} distance between the fingers, metres."""


class Task(ABC):
    """One manipulation task.

    Attributes:
        name: key of the Hydra group, e.g. "pick".
        description: language instruction.
        eef_names: end effectors the task uses.
        objects: free objects, in state order.
        variants: valid reset distributions ("D0", "D1", ...).
        variant: the one in use.
    """

    name: str
    description: str
    eef_names: tuple[str, ...] = ("panda",)
    objects: tuple[ObjectSpec, ...]
    variants: tuple[str, ...]
    variant: str

    @abstractmethod
    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Initial poses {object: (K, 4, 4)} float64, each a function of its seed (stream SCENE) and the variant."""

    @abstractmethod
    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the goal state holds at this instant."""

    @abstractmethod
    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """{signal: (N,) bool}, true once the subtask that the signal ends is done."""

    def add_fixtures(self, spec: "mujoco.MjSpec") -> None:
        """Add what the scene needs beside robot, table and `objects` (articulated parts, pegs); by default nothing."""
        del spec
