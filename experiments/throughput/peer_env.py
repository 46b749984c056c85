"""A `MimicEnv` as Isaac Lab Mimic's loop and generator see an env: the attributes that they read, and no more.

Where Isaac Lab's own envs are slower, this one spares it the time: the success of all slots is evaluated once a step,
though each slot's coroutine asks for all of it, and there is no recorder.
"""

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from mimicpipe import rng
from mimicpipe.envs.base import MimicEnv


class Clock:
    """Seconds spent within its `with` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began


class PeerEnv:
    """What Isaac Lab Mimic asks of a `ManagerBasedRLMimicEnv`; names and signatures are its own.

    The k-th reset draws the scene of attempt k of a mimicpipe run with the same seed.

    Args:
        env: the simulator.
        cfg: a `MimicEnvCfg`.
        seed: the run's seed.
        max_steps: control steps after which `sim.is_stopped()`; None is never.
    """

    def __init__(self, env: MimicEnv, cfg: Any, seed: int, max_steps: int | None = None) -> None:
        self.env = env
        self.cfg = cfg
        self.num_envs = env.num_envs
        self.device = env.device
        self.action_space = SimpleNamespace(shape=(env.num_envs, env.action_dim))
        self.scene = SimpleNamespace(get_state=lambda is_relative: {"relative": is_relative})
        self.sim = SimpleNamespace(is_stopped=lambda: max_steps is not None and self.steps >= max_steps)
        self.recorder_manager = Outcomes()
        self.success_term = SimpleNamespace(func=PeerEnv.success, params={})
        self.steps = 0
        self.resets = 0
        self.clock = Clock()
        """Time spent in the simulator, which is the same for both loops."""
        self._seed = seed
        self._success: Tensor | None = None
        self._ids = list(env.all_ids().split(1))

    def reset(self, env_ids: Tensor) -> None:
        """Reset one slot to the next attempt's scene."""
        with self.clock:
            self.env.reset(env_ids, rng.attempt_seeds(self._seed, self.resets + torch.arange(len(env_ids)).numpy()))
        self.resets += len(env_ids)

    def step(self, actions: Tensor) -> None:
        """One control step of all slots."""
        with self.clock:
            self.env.step(actions)
        self.steps += 1
        self._success = None

    def success(self) -> Tensor:
        """(N,) bool."""
        if self._success is None:
            with self.clock:
                self._success = self.env.success()
        return self._success

    def get_robot_eef_pose(self, eef_name: str, env_ids: Sequence[int]) -> Tensor:
        """(1, 4, 4) pose of an eef in one slot."""
        (env_id,) = env_ids
        with self.clock:
            return self.env.get_robot_eef_pose(eef_name, self._ids[env_id])

    def get_object_poses(self, env_ids: Sequence[int]) -> dict[str, Tensor]:
        """{object: (1, 4, 4)} poses in one slot."""
        (env_id,) = env_ids
        with self.clock:
            return self.env.get_object_poses(self._ids[env_id])

    def target_eef_pose_to_action(
        self,
        target_eef_pose_dict: Mapping[str, Tensor],
        gripper_action_dict: Mapping[str, Tensor],
        action_noise_dict: Mapping[str, Tensor],
        env_id: int = 0,
    ) -> Tensor:
        """(A,) action of one slot, with Gaussian noise from torch's global generator, as in Isaac Lab's own envs."""
        noise = {eef: std * torch.randn(1, self.env.noise_dim) for eef, std in action_noise_dict.items()}
        with self.clock:
            return self.env.target_eef_pose_to_action(
                {eef: pose[None] for eef, pose in target_eef_pose_dict.items()},
                {eef: gripper[None] for eef, gripper in gripper_action_dict.items()},
                noise,
                self._ids[env_id],
            )[0]

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """{eef: (T, G)} gripper part of a demo's actions."""
        return self.env.actions_to_gripper_actions(actions)


class Outcomes:
    """Stands in for the recorder manager: counts, keeps no frame."""

    def __init__(self) -> None:
        self.successes = 0
        self.attempts = 0

    def reset(self, env_ids: Tensor) -> None:
        """An attempt begins."""

    def set_success_to_episodes(self, env_ids: Tensor, success_values: Tensor) -> None:
        """An attempt has ended."""
        self.attempts += len(env_ids)
        self.successes += int(success_values.sum())

    def export_episodes(self, env_ids: Tensor) -> None:
        """Nothing was recorded."""
