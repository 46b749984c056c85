"""Demos and settings that mimicpipe and its peer are compared on."""

from pathlib import Path
from typing import Any

import torch

from mimicpipe import poses
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.pools.hdf5_writer import write_demos

Options = dict[str, Any]

OBJECTS = {"pick": ("cube", "cube"), "stack": ("cubeA", "cubeB")}
TASKS = {"pick": PickTask("D0"), "stack": StackTask("D1")}


def written(file: Path, demos: list[SourceDemo]) -> Path:
    write_demos(file, demos, {"env_name": "mimicpipe", "type": 2, "env_kwargs": {}})
    return file


def random_demo(number: int) -> SourceDemo:
    """A demo of task stack with smooth random poses and a grasp at a random step.

    In each step the eef covers half of the way to its target, whose rotation is another.
    """
    length = 36 + 2 * (number % 8)
    generator = torch.Generator().manual_seed(number)

    def path(spread: float) -> torch.Tensor:
        start, speed = torch.randn(2, 6, generator=generator)
        time = torch.linspace(0, 1, length)[:, None]
        vector = start + time * speed
        position = torch.tensor([0.5, 0.0, 0.2]) + spread * vector[:, :3]
        return poses.make_pose(position, poses.matrix_from_axis_angle(vector[:, 3:]))

    measured, wished = path(0.1), path(0.1)
    here = measured[:, :3, 3]
    target = poses.make_pose(here + 2.0 * torch.diff(here, dim=0, append=here[-1:]), wished[:, :3, :3])
    edge = int(torch.randint(12, 28, (), generator=generator))
    signal = torch.arange(length) >= edge
    gripper = torch.where(signal, -1.0, 1.0)[:, None] * torch.rand(length, 1, generator=generator)
    info = DatagenInfo(
        eef_pose={"panda": measured},
        object_poses={"cubeA": path(0.1), "cubeB": path(0.1)},
        subtask_term_signals={"grasp": signal},
        target_eef_pose={"panda": target},
        gripper_action={"panda": gripper},
    )
    return SourceDemo(f"demo_{number}", info, torch.cat((torch.zeros(length, 7), gripper), dim=1))


def subtasks(name: str, first: Options, second: Options, **both: Any) -> dict[str, list[SubTaskConfig]]:
    common: Options = {**NEAREST_OBJECT, "action_noise": 0.0, **both}
    one, two = OBJECTS[name]
    grasp: Options = {"object_ref": one, "subtask_term_signal": "grasp", **common, **first}
    place: Options = {"object_ref": two, **common, **second}
    return {"panda": [SubTaskConfig(**grasp), SubTaskConfig(**place)]}


NEAREST_OBJECT: Options = {"selection_strategy": "nearest_neighbor_object", "selection_strategy_kwargs": {"nn_k": 1}}
NEAREST_ROBOT: Options = {**NEAREST_OBJECT, "selection_strategy": "nearest_neighbor_robot_distance"}
PER_SUBTASK: Options = {"generation_select_src_per_subtask": True, "generation_select_src_per_arm": True}
"""The peer chooses per subtask with both only: see `test_per_subtask_selection_needs_no_second_flag`."""

CASES: dict[str, tuple[Options, Options, Options, Options, float]] = {
    # first subtask, second subtask, both, datagen, lag of the env
    "plain": ({}, {}, {}, {}, 0.0),
    "term offset": ({"subtask_term_offset_range": (7, 7)}, {}, {}, {}, 0.0),
    "negative term offset": ({"subtask_term_offset_range": (-3, -3)}, {}, {}, {}, 0.0),
    "start offset": ({"first_subtask_start_offset_range": (4, 4)}, {}, {}, {}, 0.0),
    "both offsets, nearest by the robot": (
        {"first_subtask_start_offset_range": (2, 2), "subtask_term_offset_range": (5, 5)}, {}, NEAREST_ROBOT, {}, 0.0,
    ),
    "no interpolation": ({}, {}, {"num_interpolation_steps": 0}, {}, 0.0),
    "fixed steps only": ({}, {}, {"num_interpolation_steps": 0, "num_fixed_steps": 3}, {}, 0.0),
    "one fixed step only": ({}, {}, {"num_interpolation_steps": 0, "num_fixed_steps": 1}, {}, 0.0),
    "interpolation and fixed steps": (
        {"num_fixed_steps": 2}, {"num_fixed_steps": 4}, {"num_interpolation_steps": 9}, {}, 0.0,
    ),
    "one interpolation step": ({}, {}, {"num_interpolation_steps": 1}, {}, 0.0),
    "from the eef, which lags": ({}, {}, {}, {"generation_interpolate_from_last_target_pose": False}, 0.5),
    "from the last target, the eef lags": ({}, {}, {}, {"generation_interpolate_from_last_target_pose": True}, 0.5),
    "measured pose first": ({}, {}, {}, {"generation_transform_first_robot_pose": True}, 0.0),
    "per subtask, nearest by the robot": ({}, NEAREST_ROBOT, {}, PER_SUBTASK, 0.0),
    "per subtask, by position": (
        {}, {}, {"selection_strategy_kwargs": {"nn_k": 1, "pos_weight": 10.0, "rot_weight": 0.0}}, PER_SUBTASK, 0.0,
    ),
    "no object": (
        {}, {"object_ref": None, "selection_strategy": "random", "selection_strategy_kwargs": {}}, {}, {}, 0.0,
    ),
}  # fmt: skip
