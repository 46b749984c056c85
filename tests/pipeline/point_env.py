"""A small batched env for pipeline tests: one eef that moves where it is told, one goal, success near the goal."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mimicpipe.envs.base import Feature, MimicEnv
from mimicpipe.poses import make_pose
from mimicpipe.rng import Seeds, Stream, uniforms


class PointEnv(MimicEnv):
    """State of a slot: eef position (3), goal position (3), steps since reset (1). Actions: delta position, gripper."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.fps = 20
        self.eef_names = ("point",)
        self.object_names = ("goal",)
        self.action_dim, self.noise_dim, self.gripper_dim = 4, 3, 1
        self.task_description = "reach the goal"
        self.observation_features = {"observation.state": Feature("float32", (7,))}
        self.action_feature = Feature("float32", (4,))
        self.state = torch.zeros(num_envs, 7)
        self.resets: list[list[int]] = []
        self.steps = 0

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        self.resets.append(env_ids.tolist())
        self.state[env_ids, :3] = 0.0
        self.state[env_ids, 3:6] = torch.from_numpy(uniforms(seeds, Stream.SCENE, 3)).float()
        self.state[env_ids, 6] = 0.0

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        ids = self.all_ids() if env_ids is None else env_ids
        self.state[ids, :3] += actions[ids, :3].clamp(-0.1, 0.1)
        self.state[ids, 6] += 1
        self.steps += 1

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        return {"observation.state": self.state.clone() if env_ids is None else self.state[env_ids]}

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        pos = self.state[:, :3] if env_ids is None else self.state[env_ids, :3]
        return make_pose(pos, torch.eye(3))

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        pos = self.state[:, 3:6] if env_ids is None else self.state[env_ids, 3:6]
        return {"goal": make_pose(pos, torch.eye(3))}

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        delta = target_eef_pose["point"][:, :3, 3] - self.get_robot_eef_pose("point", env_ids)[:, :3, 3]
        if action_noise is not None:
            delta = delta + action_noise["point"]
        return torch.cat((delta, gripper_action["point"]), dim=1)

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        pose = self.get_robot_eef_pose("point", env_ids).clone()
        pose[:, :3, 3] += actions[:, :3]
        return {"point": pose}

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        return {"point": actions[..., 3:]}

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        success = self.success()
        return {"reach": success if env_ids is None else success[env_ids]}

    def success(self) -> Tensor:
        return (self.state[:, :3] - self.state[:, 3:6]).abs().amax(dim=1) < 0.01

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        return (self.state if env_ids is None else self.state[env_ids]).double()

    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        ids = self.all_ids() if env_ids is None else env_ids
        self.state[ids] = state.float()
