"""Does the device compute what MuJoCo computes on the CPU, and the same thing twice?"""

from typing import Any

import torch
from torch import Tensor

from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco_warp.env import MujocoWarpEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.rng import attempt_seeds

SECOND = 20
"""Control steps."""
GRASP_BY = 12
"""Control step in which the gripper closes on the way down."""


def measure(device: str, num_envs: int) -> list[dict[str, Any]]:
    """One row: largest differences after one second in which every arm goes down to its cube and closes its gripper.

    Args:
        device: of env=mujoco_warp.
        num_envs: slots compared.
    """
    reference = MujocoEnv(PickTask(), num_envs)
    env = MujocoWarpEnv(PickTask(), num_envs, device)
    try:
        actions = _actions(reference)
        _play(reference, actions)
        first, second = (_play(env, actions) for _ in range(2))
        alone = MujocoWarpEnv(PickTask(), 1, device)
        single = _play(alone, [action[:1] for action in actions])
        return [
            {
                "device": device,
                "num_envs": num_envs,
                "control_steps": len(actions),
                "eef_mm": 1e3 * _difference(env.get_robot_eef_pose("panda"), reference.get_robot_eef_pose("panda")),
                "cube_mm": 1e3 * _difference(env.get_object_poses()["cube"], reference.get_object_poses()["cube"]),
                "same_bits_twice": torch.equal(first, second),
                "same_bits_alone": torch.equal(first[:1], single),
            }
        ]
    finally:
        reference.close()


def _reset(env: MimicEnv) -> None:
    env.reset(env.all_ids(), attempt_seeds(0, range(env.num_envs)))


def _actions(env: MimicEnv) -> list[Tensor]:
    """(N, A) for each control step, found with the env itself; leaves it where they lead."""
    _reset(env)
    actions = []
    for step in range(SECOND):
        target = env.get_object_poses()["cube"].clone()
        target[:, :3, :3] = env.get_robot_eef_pose("panda")[:, :3, :3]
        gripper = torch.full((env.num_envs, 1), -1.0 if step >= GRASP_BY else 1.0)
        actions.append(env.target_eef_pose_to_action({"panda": target}, {"panda": gripper}))
        env.step(actions[-1])
    return actions


def _play(env: MimicEnv, actions: list[Tensor]) -> Tensor:
    """States (N, S) on the host after the actions from a fresh reset."""
    _reset(env)
    for action in actions:
        env.step(action.to(env.device))
    return env.get_state().cpu()


def _difference(a: Tensor, b: Tensor) -> float:
    """Largest distance between positions of poses (N, 4, 4), metres."""
    return float((a.cpu() - b.cpu())[:, :3, 3].norm(dim=1).max())
