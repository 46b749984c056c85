"""The pick task as an Isaac Lab Mimic environment: poses to actions and back, the way Isaac Lab asks for them.

These are the single-slot methods that Isaac Lab Mimic's own loop calls; env=isaaclab has batched ones. Poses are 4x4
matrices in the slot's frame, metres.
"""

from collections.abc import Mapping, Sequence

import torch
from isaaclab.envs import ManagerBasedRLMimicEnv
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.isaaclab.pick_terms import EEF
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.pick import PickTask

EnvIds = Sequence[int] | Tensor | None


class PickIkRelEnv(ManagerBasedRLMimicEnv):
    """Grasp a cube, lift it and hold it; actions are pose changes."""

    mimicpipe_task: Task = PickTask()
    """What `pool=scripted` plays."""

    def get_robot_eef_pose(self, eef_name: str, env_ids: EnvIds = None) -> Tensor:
        """Pose (K, 4, 4) of the grasp point."""
        del eef_name
        ids = slice(None) if env_ids is None else env_ids
        policy = self.obs_buf["policy"]
        return poses.pose_from_pos_quat(policy["eef_pos"][ids], policy["eef_quat"][ids].roll(1, dims=-1))

    def target_eef_pose_to_action(
        self,
        target_eef_pose_dict: Mapping[str, Tensor],
        gripper_action_dict: Mapping[str, Tensor],
        action_noise_dict: Mapping[str, float] | None = None,
        env_id: int = 0,
    ) -> Tensor:
        """Action (A,) that leads one slot to a target pose (4, 4), with Gaussian noise of the given deviation."""
        pose_action = self._pose_action(target_eef_pose_dict[EEF], self.get_robot_eef_pose(EEF, [env_id])[0])
        if action_noise_dict is not None:
            pose_action = pose_action + action_noise_dict[EEF] * torch.randn_like(pose_action)
        return torch.cat((pose_action, gripper_action_dict[EEF]))

    def _pose_action(self, target: Tensor, current: Tensor) -> Tensor:
        turn = poses.compose_rotations(target[:3, :3], current[:3, :3].transpose(0, 1))
        return torch.cat((target[:3, 3] - current[:3, 3], poses.axis_angle_from_matrix(turn)))

    def action_to_target_eef_pose(self, action: Tensor) -> dict[str, Tensor]:
        """Target poses {eef: (N, 4, 4)} that actions (N, A) ask for."""
        current = self.get_robot_eef_pose(EEF)
        turn = poses.matrix_from_axis_angle(action[:, 3:6])
        rot = poses.compose_rotations(turn, current[:, :3, :3])
        return {EEF: poses.make_pose(current[:, :3, 3] + action[:, :3], rot)}

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., 1)} of actions (..., A)."""
        return {EEF: actions[..., -1:]}

    def get_subtask_term_signals(self, env_ids: EnvIds = None) -> dict[str, Tensor]:
        """`grasp` (K,) bool."""
        return {"grasp": self._signal("grasp", env_ids)}

    def get_subtask_start_signals(self, env_ids: EnvIds = None) -> dict[str, Tensor]:
        """`reach` (K,) bool."""
        return {"reach": self._signal("reach", env_ids)}

    def _signal(self, name: str, env_ids: EnvIds) -> Tensor:
        return self.obs_buf["subtask_terms"][name][slice(None) if env_ids is None else env_ids]


class PickIkAbsEnv(PickIkRelEnv):
    """The same with poses as actions."""

    def _pose_action(self, target: Tensor, current: Tensor) -> Tensor:
        del current
        return torch.cat((target[:3, 3], poses.quat_from_matrix(target[:3, :3]).roll(-1)))

    def action_to_target_eef_pose(self, action: Tensor) -> dict[str, Tensor]:
        """Target poses {eef: (N, 4, 4)} that actions (N, A) ask for."""
        return {EEF: poses.pose_from_pos_quat(action[:, :3], action[:, 3:7].roll(1, dims=-1))}
