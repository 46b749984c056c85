"""Stack three: cube A on B, then C on A. Subtasks: grasp_1 -> cubeA, stack_1 -> cubeB, grasp_2 -> cubeC, -> cubeA.

MimicGen's StackThree (Mandlekar et al., arXiv 2310.17596; mimicgen/envs/robosuite/stack.py): sizes and regions.
"""

from torch import Tensor

from mimicpipe.envs.tasks.base import ObjectSpec, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, gripped, near, near_above, on_table, released, stacked, still
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import place_boxes
from mimicpipe.rng import Seeds

_HALF_RANGE = {"D0": 0.10, "D1": 0.20}
"""Half side of the square that all cubes start in, metres; yaw is uniform over a full turn."""


class StackThreeTask(Task):
    """Two 4 cm cubes and a 5 cm one, to be built into a tower with the large one below."""

    name = "stack_three"
    description = "Stack the red cube on the green cube, then the blue cube on the red cube."
    # Density 1000 kg/m3.
    objects = (
        ObjectSpec("cubeA", (0.02, 0.02, 0.02), 0.064, (0.85, 0.15, 0.12, 1.0)),
        ObjectSpec("cubeB", (0.025, 0.025, 0.025), 0.125, (0.15, 0.6, 0.2, 1.0)),
        ObjectSpec("cubeC", (0.02, 0.02, 0.02), 0.064, (0.15, 0.3, 0.85, 1.0)),
    )
    variants = tuple(_HALF_RANGE)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """The cubes on the table, apart, uniform in the variant's square and in yaw: {cube: (K, 4, 4)} float64."""
        return place_boxes(seeds, self.objects, _HALF_RANGE[self.variant])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: C on A, A on B, B on the table, C released, all still."""
        cube_a, cube_b, cube_c = self.objects
        tower = stacked(view, cube_a, cube_b) & stacked(view, cube_c, cube_a) & on_table(view, cube_b)
        return tower & released(view, "cubeC", "panda") & still(view, "cubeA", "cubeB", "cubeC")

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `grasp_1` and `grasp_2`, gripped A, C has left the table; `stack_1`, A is on B and released."""
        cube_a, cube_b, cube_c = self.objects
        return {
            "grasp_1": _grasped(view, cube_a),
            "stack_1": stacked(view, cube_a, cube_b) & released(view, "cubeA", "panda"),
            "grasp_2": _grasped(view, cube_c),
        }

    def subtask_start_signals(self, view: TaskView) -> dict[str, Tensor]:
        """(N,) bool: `reach_1`, `reach_2`, the hand is near A, C; `carry_1`, `carry_2`, A, C in the hand is near its
        place."""
        cube_a, cube_b, cube_c = self.objects
        return {
            "reach_1": near(view, cube_a.name),
            "carry_1": near_above(view, cube_a.name, cube_b.name, cube_a.half_size[2] + cube_b.half_size[2]),
            "reach_2": near(view, cube_c.name),
            "carry_2": near_above(view, cube_c.name, cube_a.name, cube_c.half_size[2] + cube_a.half_size[2]),
        }


def _grasped(view: TaskView, cube: ObjectSpec) -> Tensor:
    return gripped(view, cube, "panda") & (clearance(view, cube) > GRASP_CLEARANCE)
