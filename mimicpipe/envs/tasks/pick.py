"""Pick: grasp a cube, lift it and hold it 10 cm above the table. Subtasks: grasp -> cube, lift."""

from torch import Tensor

from mimicpipe.envs.tasks.base import ObjectSpec, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, gripped, near
from mimicpipe.envs.tasks.placement import STACK_HALF_RANGE, place_boxes
from mimicpipe.rng import Seeds

LIFT_HEIGHT = 0.10
"""Clearance of a picked cube, metres."""

GRASP_CLEARANCE = 0.01
"""A gripped cube this far off the table, metres, is grasped: more than contact noise, less than any lift."""


class PickTask(Task):
    """One 4 cm cube (robosuite's Stack cube A), reset in MimicGen's Stack regions D0 and D1."""

    name = "pick"
    description = "Pick up the red cube and hold it above the table."
    # Mass at robosuite's default density, 1000 kg/m3.
    objects = (ObjectSpec("cube", (0.02, 0.02, 0.02), 0.064, (0.85, 0.15, 0.12, 1.0)),)
    variants = tuple(STACK_HALF_RANGE)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Cube on the table, uniform in the variant's square, yaw uniform: {"cube": (K, 4, 4)} float64."""
        return place_boxes(seeds, self.objects, STACK_HALF_RANGE[self.variant])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: gripped, with 10 cm of air below."""
        return gripped(view, self.objects[0], "panda") & (clearance(view, self.objects[0]) >= LIFT_HEIGHT)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the gripped cube has left the table."""
        box = self.objects[0]
        return {"grasp": gripped(view, box, "panda") & (clearance(view, box) > GRASP_CLEARANCE)}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`reach` (N,) bool: the hand is near the cube."""
        return {"reach": near(view, "cube")}
