"""Whether mimicpipe and Isaac Lab Mimic execute the same: what reaches the env's `step`, attempt by attempt.

With `env.control=ik_abs` an action is the target pose itself, so the steps tell targets and gripper actions however a
loop works inside.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.harness import Parts, compose, run_pipeline
from experiments.throughput.peer_loop import adapter_for, run_peer
from mimicpipe import rng
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pools.hdf5 import Hdf5Pool

PEER_SMALL_TURN = 0.05
"""A turn between two segments below this, radians, is not interpolated by the peer: it is made in the first step
(`interpolate_rotations` in isaaclab/utils/math.py). mimicpipe interpolates every turn."""
_ROUNDING = 5e-6
"""Angles that float32 poses differ by, radians, ten times over."""


class TapedEnv(KinematicEnv):
    """Remembers every slot's actions since its last reset, by the attempt's seed. Actions are poses (ik_abs)."""

    def __init__(self, task: Task, num_envs: int, lag: float = 0.0) -> None:
        self.tape: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._seed_of: dict[int, int] = {}
        super().__init__(task, num_envs, lag=lag, control="ik_abs")

    def reset(self, env_ids: Tensor, seeds: rng.Seeds) -> None:
        """See `MimicEnv.reset`."""
        super().reset(env_ids, seeds)
        self._seed_of.update(zip(env_ids.tolist(), np.asarray(seeds).tolist(), strict=True))

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        """See `MimicEnv.start_step`; `step` is made of it."""
        for slot in range(self.num_envs) if env_ids is None else env_ids.tolist():
            self.tape[self._seed_of[slot]].append(actions[slot].clone())
        return super().start_step(actions, env_ids)

    def executed(self, seed: int) -> "Executed":
        """What was executed in the attempt of that seed; KeyError if nothing was."""
        if not self.tape[seed]:
            raise KeyError(f"no step of attempt seed {seed} on the tape")
        actions = torch.stack(self.tape[seed])
        (pose,) = KinematicEnv(self.task, len(actions), control="ik_abs").action_to_target_eef_pose(actions).values()
        (gripper,) = self.actions_to_gripper_actions(actions).values()
        return Executed(pose, gripper)


@dataclass(frozen=True)
class Executed:
    """An attempt's T steps."""

    pose: Tensor
    """(T, 4, 4) target poses."""
    gripper: Tensor
    """(T, G) gripper actions."""


@dataclass(frozen=True)
class Setting:
    """What both are given."""

    task: Task
    subtasks: Mapping[str, Sequence[SubTaskConfig]]
    datagen: DataGenConfig
    demos: Path
    """Source demos in Isaac Lab's HDF5 layout, with actions of `ik_abs`."""
    attempts: int = 3
    lag: float = 0.0
    seed: int = 0

    def seeds(self) -> list[int]:
        """Seeds of the attempts."""
        return rng.attempt_seeds(self.seed, np.arange(self.attempts)).tolist()


def by_mimicpipe(setting: Setting) -> dict[int, Executed]:
    """{attempt seed: what mimicpipe executes}, one slot for each attempt."""
    env = TapedEnv(setting.task, setting.attempts, setting.lag)
    run_pipeline(parts_of(setting, env))
    return {seed: env.executed(seed) for seed in setting.seeds()}


def parts_of(setting: Setting, env: MimicEnv) -> Parts:
    """A run of mimicpipe in an env of one's own."""
    budget = (f"num_demos={setting.attempts}", f"max_attempts={setting.attempts}", f"seed={setting.seed}")
    config = compose("env=kinematic", "recorder=none", "tracker=none", f"env.num_envs={env.num_envs}", *budget)
    pool = DataGenInfoPool(env, setting.subtasks)
    pool.add_demos(Hdf5Pool(setting.demos).load(env, setting.subtasks).demos)
    return Parts(config, env, pool, DataGenerator(env, pool, datagen_cfg=setting.datagen))


def by_peer(setting: Setting) -> dict[int, Executed]:
    """{attempt seed: what Isaac Lab Mimic executes}, one slot for each attempt."""
    env = TapedEnv(setting.task, setting.attempts, setting.lag)
    run_peer(adapter_for(env, setting.subtasks, setting.datagen, setting.attempts, setting.seed), setting.demos)
    return {seed: env.executed(seed) for seed in setting.seeds()}


@dataclass(frozen=True)
class Difference:
    """How far two executions are apart, at the worst step."""

    pose: float
    """Largest difference of an entry of the target poses; the position part is in metres."""
    gripper: float
    steps: int
    """Steps compared."""
    small_turns: int
    """Steps whose rotation, not position, is left out of `pose`: the peer turns at once there, see PEER_SMALL_TURN."""


def compare(ours: Mapping[int, Executed], peers: Mapping[int, Executed]) -> Difference:
    """Compare attempt by attempt.

    Raises:
        ValueError: other attempts, or one that takes another number of steps.
    """
    if ours.keys() != peers.keys():
        raise ValueError(f"attempts {sorted(ours)} against {sorted(peers)}")
    differences = [_compare(seed, ours[seed], peers[seed]) for seed in ours]
    return Difference(
        pose=max(d.pose for d in differences),
        gripper=max(d.gripper for d in differences),
        steps=sum(d.steps for d in differences),
        small_turns=sum(d.small_turns for d in differences),
    )


def _compare(seed: int, ours: Executed, peers: Executed) -> Difference:
    if ours.pose.shape != peers.pose.shape:
        raise ValueError(f"attempt seed {seed}: {len(ours.pose)} steps, the peer's has {len(peers.pose)}")
    small = _small_turns(ours.pose, peers.pose)
    pose = (ours.pose - peers.pose).abs()
    pose[:, :3, :3] = torch.where(small[:, None, None], 0.0, pose[:, :3, :3])
    gripper = (ours.gripper - peers.gripper).abs().max()
    return Difference(float(pose.max()), float(gripper), len(pose), int(small.sum()))


def _small_turns(ours: Tensor, peers: Tensor) -> Tensor:
    """(T,) bool: steps at which the peer already has the rotation that ours turns to, less than a small turn away."""
    apart = _angles(ours, peers) > _ROUNDING
    steps = torch.arange(len(ours))
    ends = torch.where(apart, len(ours), steps).flip(0).cummin(0).values.flip(0)  # the next step at which both agree
    there = peers[ends.clamp(max=len(ours) - 1)]
    made = _angles(peers, there) < _ROUNDING
    return apart & (ends < len(ours)) & made & (_angles(ours, there) < PEER_SMALL_TURN)


def _angles(a: Tensor, b: Tensor) -> Tensor:
    """(T,) angles between the rotations of poses (T, 4, 4), radians; by the chord, which is exact for small ones."""
    chord = (a[:, :3, :3] - b[:, :3, :3]).double().pow(2).sum((1, 2)).sqrt() / math.sqrt(8)
    return 2 * torch.asin(chord.clamp(max=1.0))
