"""What tasks, generators and datasets see of N slots: tensors that are filled in from the states in one go."""

from typing import Any

import torch
import warp as wp
from torch import Tensor

from mimicpipe.envs.mujoco.arms import Arm
from mimicpipe.envs.mujoco.frames import Frames
from mimicpipe.envs.mujoco.observations import EEF_POSE, JOINTS, OBJECTS
from mimicpipe.envs.mujoco_warp import view_kernels
from mimicpipe.envs.mujoco_warp.rotations import ArmModel
from mimicpipe.envs.tasks.base import Task, TaskView


class Seen:
    """The tensors, and the launches that fill them in.

    Args:
        task: names of bodies.
        arms: the task's arms.
        models: likewise, on the device.
        frames: columns of the bodies in a row of state.
        columns: likewise, on the device.
        num_envs: N.
        state_width: S, columns of time, qpos and qvel.
        diverged_at: no sane number of the state is as large.
        device: of the tensors.

    Attributes:
        view: what the task may look at.
        observations: {feature: (N, D)}.
        diverged: (N,) int32, 1 where a slot's state is not sane.
    """

    def __init__(
        self,
        task: Task,
        arms: tuple[Arm, ...],
        models: list[ArmModel],
        frames: Frames,
        columns: view_kernels.BodyColumns,
        num_envs: int,
        state_width: int,
        diverged_at: float,
        device: torch.device,
    ) -> None:
        bodies, parts, objects = len(task.body_names), len(task.parts), len(task.objects)
        self._models, self._columns, self._num_envs = models, columns, num_envs
        self._state_width, self._diverged_at = state_width, diverged_at
        self._device = wp.device_from_torch(device)

        def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        eefs, widths = room(len(arms), num_envs, 4, 4), room(len(arms), num_envs)
        poses, speeds = room(bodies, num_envs, 4, 4), room(objects, num_envs)
        joints, positions = room(num_envs, 8 * len(arms)), room(parts, num_envs)
        eef, scene = room(num_envs, 7 * len(arms)), room(num_envs, 7 * bodies + parts)
        self.diverged = room(num_envs, dtype=torch.int32)
        self._arm_outputs = [wp.from_torch(tensor) for tensor in (eefs, widths, joints, eef)]
        self._body_outputs = [wp.from_torch(tensor) for tensor in (poses, speeds, scene, positions, self.diverged)]
        assert len(frames.joint_columns) == parts
        self.observations = {JOINTS: joints, EEF_POSE: eef, OBJECTS: scene}
        self.view = TaskView(
            object_poses=dict(zip(task.body_names, poses.unbind(), strict=True)),
            object_speeds=dict(zip((item.name for item in task.objects), speeds.unbind(), strict=True)),
            eef_poses={arm.name: eefs[index] for index, arm in enumerate(arms)},
            gripper_widths={arm.name: widths[index] for index, arm in enumerate(arms)},
            joint_positions={part.name: positions[index] for index, part in enumerate(task.parts)},
        )

    def look(self, state: wp.array, stream: Any) -> None:
        """Fill in the tensors from states (N, S + 7 F): one launch for the bodies, one for each arm."""
        to = {"device": self._device, "stream": stream}
        for index, model in enumerate(self._models):
            wp.launch(view_kernels.look_at_arm, self._num_envs, [model, index, state, *self._arm_outputs], **to)
        seen = [self._columns, self._state_width, self._diverged_at, state, *self._body_outputs]
        wp.launch(view_kernels.look_at_bodies, self._num_envs, seen, **to)
