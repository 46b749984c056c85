"""Perturbed execution with the clean action recorded, so that a dataset has recoveries in it.

This is DART (Laskey et al., "DART: Noise Injection for Robust Imitation Learning", CoRL 2017): the demonstrator's
action is disturbed on its way to the robot, and what is recorded is what the demonstrator wanted. The frames after a
disturbance show the way back. Here it lasts for a few steps, so that the eef leaves its course further than by noise.

An attempt is divided into windows of equal length. Each has a disturbance with some probability, at a random moment, of
a random length, in a random direction that stays the same. All of it is a function of (attempt's seed, step).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from mimicpipe import rng
from mimicpipe.pipeline.protocol import SimEnv
from mimicpipe.pipeline.transfer import uploader

_Ints = npt.NDArray[np.int64]

_DECISIONS = 4
"""Words of a window in stream PERTURBATION before those of its direction: whether, when, how long, and a spare one."""


@dataclass(frozen=True)
class PerturbationConfig:
    """When and how execution is perturbed."""

    probability: float = 0.0
    """Chance of a window to have a disturbance; 0 is no perturbation at all."""
    window: int = 40
    """Steps."""
    steps: Sequence[int] = (4, 8)
    """Steps that a disturbance lasts, drawn from [low, high]."""
    scale: float = 0.5
    """Standard deviation of what is added to each number of the pose part of the action, in action units."""


class Perturbation:
    """Disturbs the actions of a batch.

    Args:
        env: the simulator.
        config: probability above 0.
    """

    def __init__(self, env: SimEnv, config: PerturbationConfig) -> None:
        self._env = env
        self._config = config
        self._upload = uploader(env.device)
        self._numbers = len(env.eef_names) * env.noise_dim
        self._stride = _DECISIONS + (self._numbers + 1) // 2

    def directions(self, seeds: rng.Seeds, steps: _Ints) -> tuple[_Ints, npt.NDArray[np.float32]]:
        """Which attempts are disturbed now, and by what.

        Args:
            seeds: (K,) the attempts' seeds.
            steps: (K,) control steps that they have played.

        Returns:
            Rows (M,), and what is added to the pose parts of their actions (M, eefs * noise_dim).
        """
        config = self._config
        window = steps // config.window
        first = window * self._stride
        drawn = rng.uniforms(seeds, rng.Stream.PERTURBATION, _DECISIONS, offset=first)
        low, high = config.steps
        lasts = low + (drawn[:, 2] * (high - low + 1)).astype(np.int64)
        begins = window * config.window + (drawn[:, 1] * (config.window - lasts + 1)).astype(np.int64)
        disturbed = (drawn[:, 0] < config.probability) & (steps >= begins) & (steps < begins + lasts)
        rows = np.flatnonzero(disturbed)
        normals = rng.normals(
            seeds[rows], rng.Stream.PERTURBATION, self._numbers, offset=2 * (first[rows] + _DECISIONS)
        )
        return rows, np.float32(config.scale) * normals

    def executed(self, actions: Tensor, slots: _Ints, seeds: rng.Seeds, steps: _Ints) -> Tensor:
        """What is executed in place of the actions (K, A) of slots (K,); gripper actions stay as they are."""
        rows, noise = self.directions(seeds, steps)
        if not len(rows):
            return actions
        env, width = self._env, self._env.noise_dim
        at, ids = self._upload(rows), self._upload(slots[rows])
        wanted = actions.index_select(0, at)
        added = self._upload(noise)
        disturbed = env.target_eef_pose_to_action(
            env.action_to_target_eef_pose(wanted, ids),
            env.actions_to_gripper_actions(wanted),
            {eef: added[:, i * width : (i + 1) * width] for i, eef in enumerate(env.eef_names)},
            ids,
        )
        return actions.index_copy(0, at, disturbed)
