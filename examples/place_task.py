"""A task of one's own: put the cube onto a mark on the table. Runs in every env, with the scripted expert below."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import ObjectSpec, Task, TaskView
from mimicpipe.envs.tasks.grasping import clearance, gripped
from mimicpipe.envs.tasks.placement import STACK_HALF_RANGE, place_boxes
from mimicpipe.pools.experts import EXPERTS, Habits, Move, Scene, above, grasp, lift, retreat, roughly, stay
from mimicpipe.rng import Seeds

if TYPE_CHECKING:
    import mujoco

MARK = (0.56, 0.30)
"""Centre of the mark from the robot's base, metres; fixed, beside the square in which the cube starts."""
MARK_RADIUS = 0.04
GAP = 0.002
"""Height over the table at which the expert lets go, metres."""


class PlaceTask(Task):
    """One 4 cm cube, to be put onto the mark and let go. Subtasks: grasp -> cube, place -> the table."""

    name = "place"
    description = "Put the blue cube onto the mark."
    objects = (ObjectSpec("cube", (0.02, 0.02, 0.02), mass=0.064, rgba=(0.15, 0.3, 0.85, 1.0)),)
    variants = tuple(STACK_HALF_RANGE)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        """Cube uniform in the variant's square, with a uniform yaw: {"cube": (K, 4, 4)} float64."""
        return place_boxes(seeds, self.objects, STACK_HALF_RANGE[self.variant])

    def success(self, view: TaskView) -> Tensor:
        """(N,) bool: the cube lies on the mark, still, and the fingers are open."""
        pose = view.object_poses["cube"]
        x, y = pose[:, 0, 3] - MARK[0], pose[:, 1, 3] - MARK[1]
        on_table = clearance(view, self.objects[0]).abs() < 0.005
        still = view.object_speeds["cube"] < 0.02
        return (x * x + y * y < MARK_RADIUS**2) & on_table & still & (view.gripper_widths["panda"] > 0.06)

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        """`grasp` (N,) bool: the gripped cube has left the table."""
        box = self.objects[0]
        return {"grasp": gripped(view, box, "panda") & (clearance(view, box) > 0.01)}

    def add_fixtures(self, spec: "mujoco.MjSpec") -> None:
        """The mark, for the eye only; env=kinematic has nothing to show and does not call this."""
        spec.worldbody.add_site(
            name="mark", type=5, pos=[*MARK, 0.0005], size=[MARK_RADIUS, 0.0005, 0.0], rgba=[0.1, 0.1, 0.1, 1.0]
        )  # type 5: mjGEOM_CYLINDER


def on_mark(scene: Scene, _habits: Habits) -> Tensor:
    """Target poses (K, 4, 4): where the cube in the hand hovers just over the mark; the hand keeps its rotation."""
    in_hand = poses.compose(poses.invert(scene.eef), scene.objects["cube"])[:, :3, 3]
    rot = scene.commanded[:, :3, :3]
    centre = torch.tensor([*MARK, 0.02 + GAP], device=rot.device).expand(rot.shape[0], 3)
    return poses.make_pose(centre - poses.rotate(rot, in_hand), rot)


def place_expert(task: Task) -> tuple[Move, ...]:
    """Take the cube from above, carry it over the mark, put it down, let go, move away."""
    around = grasp(task.objects[0])
    return (
        Move(above(roughly(around)), GRIPPER_OPEN, speed=0.25, tolerance=0.02, bowed=True),
        Move(above(around), GRIPPER_OPEN, speed=0.10, tolerance=0.008),
        Move(around, GRIPPER_OPEN, speed=0.12, pause=(1, 3)),
        Move(stay, GRIPPER_CLOSE, pause=(4, 7)),
        Move(lift, GRIPPER_CLOSE, speed=0.22, tolerance=0.02),
        Move(above(roughly(on_mark, 0.5)), GRIPPER_CLOSE, speed=0.25, tolerance=0.02, bowed=True),
        Move(on_mark, GRIPPER_CLOSE, speed=0.12, pause=(1, 4)),
        Move(stay, GRIPPER_OPEN, pause=(2, 5)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=0.02),
    )


EXPERTS["place"] = place_expert  # for pool=scripted; a task with recorded demos needs no expert
