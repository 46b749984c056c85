"""A simulator of one's own: a gripper that hangs from a gantry, with an action space of its own. No physics.

Every formula is elementwise over the slots, so a slot's bits do not depend on num_envs.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.base import Feature, MimicEnv
from mimicpipe.envs.tasks.base import Task, TaskView
from mimicpipe.rng import Seeds

HOME = (0.46, 0.0, 0.25)
"""Gripper after a reset, metres."""
OPEN_WIDTH = 0.08
GRASP_RADIUS = 0.025
"""A gripper that closes takes the boxes whose centres are this near, metres."""
ACTION = ("target_x", "target_y", "target_z", "cos_yaw", "sin_yaw", "gripper")


class GantryEnv(MimicEnv):
    """Actions: where the gripper is to go (metres), its yaw, and gripper >= 0 to open. What it lets go of stays there.

    Args:
        task: objects, reset distribution, success and signals.
        num_envs: slots.
        speed: how far the gripper moves at most along each axis in a control step, metres.
        device: torch device of every tensor.
    """

    fps = 20
    noise_dim, gripper_dim, action_dim = 3, 1, len(ACTION)
    action_feature = Feature("float32", (len(ACTION),), ACTION)

    def __init__(self, task: Task, num_envs: int, speed: float = 0.03, device: str = "cpu") -> None:
        self.task, self.num_envs, self.speed, self.device = task, num_envs, speed, torch.device(device)
        self.eef_names = task.eef_names
        self.object_names = tuple(box.name for box in task.objects)
        self.task_description = task.description
        boxes = tuple(f"{name}_{axis}" for name in self.object_names for axis in ("x", "y", "z"))
        self.observation_features = {
            "observation.state": Feature("float32", (6,), ("x", "y", "z", "cos_yaw", "sin_yaw", "width")),
            "observation.environment_state": Feature("float32", (len(boxes),), boxes),
        }
        count = len(self.object_names)
        self._eef = torch.zeros(num_envs, 4, 4, device=self.device)
        self._boxes = torch.zeros(num_envs, count, 4, 4, device=self.device)
        self._speeds = torch.zeros(num_envs, count, device=self.device)
        self._held = torch.zeros(num_envs, count, device=self.device)
        self._width = torch.zeros(num_envs, device=self.device)
        self.reset(self.all_ids(), np.arange(num_envs))

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Gripper at home and open; objects drawn from `seeds` (K,)."""
        position = torch.tensor(HOME, device=self.device).expand(len(seeds), 3)
        yaw = torch.tensor([[1.0, 0.0]], device=self.device).expand(len(seeds), 2)
        self._eef[env_ids] = _pointing_down(position, yaw)
        drawn = self.task.sample_object_poses(seeds)
        self._boxes[env_ids] = torch.stack([drawn[name] for name in self.object_names], dim=1).to(self._boxes)
        self._speeds[env_ids] = self._held[env_ids] = 0.0
        self._width[env_ids] = OPEN_WIDTH

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Move, then open or close, then carry what is held."""
        ids = self.all_ids() if env_ids is None else env_ids
        action, before, boxes = actions[ids], self._eef[ids], self._boxes[ids]
        way = (action[:, :3] - before[:, :3, 3]).clamp(-self.speed, self.speed)
        eef = _pointing_down(before[:, :3, 3] + way, action[:, 3:5])
        closing = action[:, 5] < 0
        x, y, z = (boxes[:, :, :3, 3] - before[:, None, :3, 3]).unbind(-1)
        near = x * x + y * y + z * z < GRASP_RADIUS**2
        just_closed = self._width[ids] == OPEN_WIDTH
        held = closing[:, None] & ((self._held[ids] > 0) | (near & just_closed[:, None]))
        motion = poses.compose(eef, poses.invert(before))[:, None].expand_as(boxes).contiguous()
        moved = torch.where(held[:, :, None, None], poses.compose(motion, boxes), boxes)
        x, y, z = (moved - boxes)[:, :, :3, 3].unbind(-1)
        self._speeds[ids] = torch.sqrt(x * x + y * y + z * z) * self.fps
        self._width[ids] = torch.where(closing, torch.where(held.any(dim=1), 0.04, 0.0), OPEN_WIDTH)
        self._eef[ids], self._boxes[ids], self._held[ids] = eef, moved, held.float()

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Gripper, and the boxes' positions."""
        ids = self.all_ids() if env_ids is None else env_ids
        eef = self._eef[ids]
        state = torch.cat((eef[:, :3, 3], eef[:, :2, 0], self._width[ids, None]), dim=1)
        return {
            "observation.state": state,
            "observation.environment_state": self._boxes[ids][:, :, :3, 3].reshape(len(ids), -1),
        }

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:  # noqa: ARG002 - it has one
        """Pose (K, 4, 4) of the grasp point: z points down, y from finger to finger."""
        return self._eef[self.all_ids() if env_ids is None else env_ids]

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object: (K, 4, 4)}."""
        boxes = self._boxes[self.all_ids() if env_ids is None else env_ids]
        return {name: boxes[:, i].contiguous() for i, name in enumerate(self.object_names)}

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,  # noqa: ARG002 - the action does not depend on the state
    ) -> Tensor:
        """Actions (K, 6); noise (K, 3) is in centimetres."""
        target = target_eef_pose[self.eef_names[0]]
        position = target[:, :3, 3]
        if action_noise is not None:
            position = position + 0.01 * action_noise[self.eef_names[0]]
        return torch.cat((position, target[:, :2, 0], gripper_action[self.eef_names[0]]), dim=1)

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:  # noqa: ARG002
        """Target poses {eef: (K, 4, 4)}."""
        return {self.eef_names[0]: _pointing_down(actions[:, :3], actions[:, 3:5])}

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., 1)}."""
        return {self.eef_names[0]: actions[..., 5:]}

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """The task's signals {signal: (K,) bool}."""
        signals = self.task.subtask_term_signals(self._view())
        return signals if env_ids is None else {name: signal[env_ids] for name, signal in signals.items()}

    def success(self) -> Tensor:
        """(N,) bool: the task's condition at this instant."""
        return self.task.success(self._view())

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """Complete state (K, S) float64."""
        ids = self.all_ids() if env_ids is None else env_ids
        parts = (self._eef, self._boxes, self._speeds, self._held, self._width[:, None])
        return torch.cat([part[ids].flatten(1) for part in parts], dim=1).double()

    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Restore states (K, S)."""
        ids = self.all_ids() if env_ids is None else env_ids
        parts = (self._eef, self._boxes, self._speeds, self._held, self._width[:, None])
        for part, values in zip(parts, state.float().split([part[0].numel() for part in parts], dim=1), strict=True):
            part[ids] = values.view(-1, *part.shape[1:])

    def _view(self) -> TaskView:
        return TaskView(
            object_poses=self.get_object_poses(),
            object_speeds=dict(zip(self.object_names, self._speeds.unbind(1), strict=True)),
            eef_poses={self.eef_names[0]: self._eef},
            gripper_widths={self.eef_names[0]: self._width},
        )


def _pointing_down(position: Tensor, yaw: Tensor) -> Tensor:
    """Poses (K, 4, 4) at `position` (K, 3) with the gripper down, turned by a yaw given as cosine and sine (K, 2)."""
    cos, sin = yaw.unbind(1)
    length = torch.sqrt(cos * cos + sin * sin).clamp(min=1e-6)
    cos, sin = cos / length, sin / length
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    rot = torch.stack((cos, sin, zero, sin, -cos, zero, zero, zero, -one), dim=1)
    return poses.make_pose(position, rot.view(-1, 3, 3))
