"""An environment of one's own, as the recorders' call protocol wants it: two joints in a plane, N slots."""

from typing import Any

import torch


class RolloutEnv:
    """Slot i's frame t has the joint angles (i + t/10, -t/10); the buffer is reused by every episode."""

    task_description = "wave"

    def __init__(self, num_envs=3, horizon=6):
        self.num_envs = num_envs
        self.lengths = [horizon - 1 - i for i in range(num_envs)]
        slots, steps = torch.meshgrid(torch.arange(num_envs), torch.arange(horizon), indexing="ij")
        joints = torch.stack((slots + steps / 10, -steps / 10), dim=-1)
        self.rollout_buffer: dict[str, Any] = {
            "obs": {"state": joints, "scene": {"lamp": (slots + steps)[..., None].double()}},
            "actions": torch.stack((steps, slots), dim=-1).float(),
            "subtask_index": steps // 2,
            "annotation.effort": (steps[..., None] * torch.ones(2)).float(),
            "rewards": torch.zeros(num_envs, horizon),
        }
        self.episode_context: Any = None
        self.metadata: dict[int, dict[str, Any]] = {
            i: {"attempt": 10 + i, "seed": 100 + i, "layout": [i]} for i in range(num_envs)
        }

    def episode_length(self, env_id):
        return self.lengths[env_id]

    def get_demo_episode_metadata(self, env_id):
        return self.metadata[env_id]

    def overwrite_buffers(self):
        """What the next episode does."""
        for value in (*self.rollout_buffer["obs"].values(), *self.rollout_buffer.values()):
            if isinstance(value, torch.Tensor):
                value.fill_(-7)
        self.rollout_buffer["obs"]["scene"]["lamp"].fill_(-7)


def planar_eef_position(env, env_id, columns):
    """Forward kinematics of the two links, length 1 each, from the recorded angles."""
    first, second = columns["observation.state"].unbind(-1)
    both = first + second
    return torch.stack((first.cos() + both.cos(), first.sin() + both.sin()), dim=-1)
