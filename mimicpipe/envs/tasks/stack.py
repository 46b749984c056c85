"""Stack: put cube A on cube B and let go. Subtasks: grasp -> cubeA, stack -> cubeB. robosuite's Stack, in its sizes."""

import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import ObjectSpec, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, distance, gripped
from mimicpipe.envs.tasks.pick import GRASP_CLEARANCE
from mimicpipe.envs.tasks.placement import STACK_HALF_RANGE, place_boxes
from mimicpipe.rng import Seeds

_HEIGHT_TOLERANCE = 0.005
"""Height of A over B against the sum of their half sizes, metres (Isaac Lab's `cubes_stacked`)."""

_XY_TOLERANCE = 0.03
"""Horizontal offset of the centres, metres. Beyond 0.025 m (B's half side) a cube A at rest would tip, so this bound
only has to exclude a cube A that something else holds."""

_RELEASED_WIDTH = 0.06
"""Fingers further apart than a 4 cm cube's diagonal, 0.0566 m, cannot both touch it, metres."""

_RELEASED_DISTANCE = 0.07
"""Grasp point this far from A's centre, metres: the finger tips reach 0.01 m past it, so they are clear of A."""

_STILL_SPEED = 0.02
"""Linear speed of a cube at rest, m/s; resting contact is below 0.005."""


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
        pose_a, pose_b = view.object_poses[cube_a.name], view.object_poses[cube_b.name]
        x, y, z = (pose_a[:, :3, 3] - pose_b[:, :3, 3]).unbind(-1)
        aligned = (x * x + y * y < _XY_TOLERANCE**2) & (
            (z - cube_a.half_size[2] - cube_b.half_size[2]).abs() < _HEIGHT_TOLERANCE
        )
        on_table = clearance(view, cube_b).abs() < _HEIGHT_TOLERANCE
        speed = torch.maximum(view.object_speeds[cube_a.name], view.object_speeds[cube_b.name])
        return aligned & on_table & (speed < _STILL_SPEED) & self._released(view)

    def _released(self, view: TaskView) -> Tensor:
        """(N,) bool: the fingers are open wider than cube A, or away from it."""
        away = distance(view.object_poses["cubeA"], view.eef_poses["panda"]) > _RELEASED_DISTANCE
        return away | (view.gripper_widths["panda"] > _RELEASED_WIDTH)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the gripped cube A has left the table."""
        cube_a = self.objects[0]
        return {"grasp": gripped(view, cube_a, "panda") & (clearance(view, cube_a) > GRASP_CLEARANCE)}
