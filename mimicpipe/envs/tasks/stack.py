"""Stack: put cube A on cube B and let go. Subtasks: grasp -> cubeA, stack -> cubeB. robosuite's Stack, in its sizes."""

from torch import Tensor

from mimicpipe.envs.tasks.base import ObjectSpec, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, gripped, near, near_above, on_table, released, stacked, still
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import STACK_HALF_RANGE, place_boxes
from mimicpipe.rng import Seeds


class StackTask(Task):
    """A 4 cm cube A to be stacked on a 5 cm cube B, reset in MimicGen's Stack regions D0 and D1."""

    name = "stack"
    description = "Stack the red cube on the green cube."
    # Sizes and density (1000 kg/m3) of robosuite's Stack.
    objects = (
        ObjectSpec("cubeA", (0.02, 0.02, 0.02), 0.064, (0.85, 0.15, 0.12, 1.0)),
        ObjectSpec("cubeB", (0.025, 0.025, 0.025), 0.125, (0.15, 0.6, 0.2, 1.0)),
    )
    variants = tuple(STACK_HALF_RANGE)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Both cubes on the table, apart, uniform in the variant's square and in yaw: {cube: (K, 4, 4)} float64."""
        return place_boxes(seeds, self.objects, STACK_HALF_RANGE[self.variant])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: A on B, B on the table, A released, both still."""
        cube_a, cube_b = self.objects
        rests = stacked(view, cube_a, cube_b) & on_table(view, cube_b) & still(view, cube_a.name, cube_b.name)
        return rests & released(view, cube_a.name, "panda")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the gripped cube A has left the table."""
        cube_a = self.objects[0]
        return {"grasp": gripped(view, cube_a, "panda") & (clearance(view, cube_a) > GRASP_CLEARANCE)}

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach`, the hand is near A; `carry`, A is in the hand and near its place on B."""
        top, base = self.objects
        height = top.half_size[2] + base.half_size[2]
        return {"reach": near(view, top.name), "carry": near_above(view, top.name, base.name, height)}
