"""What a task and a recorder see of rows of states; a row is a slot, or a slot at one of several moments."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe.envs.mujoco import kernels
from mimicpipe.envs.mujoco.arms import Arm, side_by_side
from mimicpipe.envs.mujoco.frames import Frames
from mimicpipe.envs.mujoco.kernels import Ints
from mimicpipe.envs.mujoco.kinematics import Array, HandPose
from mimicpipe.envs.mujoco.observations import EEF_POSE, JOINTS, OBJECTS
from mimicpipe.envs.tasks.base import Task, TaskView

Bodies = tuple[Array, Ints]
"""One row per state with all bodies' poses, and their columns (`Frames.rows`)."""


def task_view(
    task: Task, arms: Sequence[Arm], frames: Frames, state: Array, bodies: Bodies, poses: Sequence[HandPose]
) -> TaskView:
    """What the task may see of states (N, S) with these poses of the arms: float32 tensors on the CPU."""
    count, (rows, columns) = len(state), bodies
    eefs, widths = np.zeros((len(arms), count, 4, 4), np.float32), np.empty((len(arms), count), np.float32)
    objects = np.zeros((len(columns), count, 4, 4), dtype=np.float32)
    speeds = np.empty((len(task.objects), count), dtype=np.float32)
    for index, (arm, pose) in enumerate(zip(arms, poses, strict=True)):
        more = slice(None if index == 0 else 0)  # the bodies are looked at once
        kernels.look(
            state, arm.first, rows, pose.pos, pose.rot, columns[more], frames.speed_columns[more],
            eefs[index], objects, speeds, widths[index],
        )  # fmt: skip
    joints = {}
    if len(frames.joint_columns):
        values = torch.from_numpy(state[:, frames.joint_columns].T.astype(np.float32))
        joints = {part.name: row for part, row in zip(task.parts, values, strict=True)}
    return TaskView(
        object_poses=dict(zip(task.body_names, torch.from_numpy(objects).unbind(), strict=True)),
        object_speeds=dict(zip(task.body_names, torch.from_numpy(speeds).unbind(), strict=False)),
        eef_poses={arm.name: torch.from_numpy(eefs[i]) for i, arm in enumerate(arms)},
        gripper_widths={arm.name: torch.from_numpy(widths[i]) for i, arm in enumerate(arms)},
        joint_positions=joints,
    )


def low_dim_observations(
    arms: Sequence[Arm], frames: Frames, state: Array, bodies: Bodies, poses: Sequence[HandPose], rows: Ints
) -> dict[str, npt.NDArray[np.float32]]:
    """Observations {feature: (K, *shape)} of rows (K,) of states (N, S), without cameras."""
    count, (body_rows, columns) = len(rows), bodies
    joints, eefs = np.empty((len(arms), count, 8), np.float32), np.empty((len(arms), count, 7), np.float32)
    objects = np.empty((count, 7 * len(columns) + len(frames.joint_columns)), dtype=np.float32)
    for index, (arm, pose) in enumerate(zip(arms, poses, strict=True)):
        more = columns if index == 0 else columns[:0]
        kernels.observe(
            state, arm.first, body_rows, rows, pose.pos, pose.rot, more, joints[index], eefs[index], objects
        )
    if len(frames.joint_columns):
        objects[:, 7 * len(columns) :] = state[rows[:, None], frames.joint_columns]
    return {JOINTS: side_by_side(joints), EEF_POSE: side_by_side(eefs), OBJECTS: objects}
