"""After the run: play a few episodes again, and find out where objects started. Contract calls of the env only."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe.envs.base import MimicEnv
from mimicpipe.report.sample import Take

Floats = npt.NDArray[np.float64]
_HALF_SIZE = 0.02
"""Of an object whose size the env does not tell, metres."""


@dataclass
class Played:
    """An episode, played again; its frame t is the state after t actions."""

    take: Take
    states: list[Floats] = field(default_factory=list)
    """(S,) each."""
    eefs: dict[str, list[Floats]] = field(default_factory=dict)
    """{eef: (3,) positions}."""
    objects: dict[str, list[Floats]] = field(default_factory=dict)
    """{object: (4, 4) poses}."""

    @property
    def frames(self) -> int:
        """How many there are; fewer than actions + 1 where time ran out."""
        return len(self.states)


def play(env: MimicEnv, takes: Sequence[Take], seconds: float) -> list[Played]:
    """Play episodes from their initial states and actions.

    After `seconds` no more is played: those that have been played to their ends are given, or else what there is.
    """
    deadline = time.monotonic() + seconds
    played = [Played(take) for take in takes]
    with torch.inference_mode():
        for first in range(0, len(played), env.num_envs):
            _play_batch(env, played[first : first + env.num_envs], deadline)
    whole = [episode for episode in played if episode.frames > len(episode.take.actions)]
    return whole or [episode for episode in played if episode.frames]


def _play_batch(env: MimicEnv, episodes: Sequence[Played], deadline: float) -> None:
    """Episode i in slot i."""
    ids = torch.arange(len(episodes), device=env.device)
    env.set_state(torch.stack([episode.take.initial_state for episode in episodes]).to(env.device), ids)
    _note(env, episodes, range(len(episodes)))
    actions = torch.zeros(env.num_envs, env.action_dim, device=env.device)
    lengths = [len(episode.take.actions) for episode in episodes]
    for step in range(max(lengths)):
        if time.monotonic() > deadline:
            return
        slots = [slot for slot, length in enumerate(lengths) if step < length]
        for slot in slots:
            actions[slot] = episodes[slot].take.actions[step]
        env.step(actions, torch.tensor(slots, device=env.device))
        _note(env, episodes, slots)


def _note(env: MimicEnv, episodes: Sequence[Played], slots: Sequence[int]) -> None:
    ids = torch.tensor(slots, device=env.device)
    states = env.get_state(ids).cpu().numpy()
    eefs = {name: env.get_robot_eef_pose(name, ids).cpu().double().numpy() for name in env.eef_names}
    objects = {name: pose.cpu().double().numpy() for name, pose in env.get_object_poses(ids).items()}
    for row, slot in enumerate(slots):
        episode = episodes[slot]
        episode.states.append(states[row])
        for name, poses in eefs.items():
            episode.eefs.setdefault(name, []).append(poses[row, :3, 3])
        for name, poses in objects.items():
            episode.objects.setdefault(name, []).append(poses[row])


def start_positions(env: MimicEnv, seeds: Sequence[int], seconds: float) -> dict[str, Floats]:
    """Where objects start in attempts with these seeds, {object: (K, 3)}; K is smaller where time ran out.

    A reset is a function of the seed alone, so nothing has to be kept of it during the run.
    """
    deadline = time.monotonic() + seconds
    found: dict[str, list[Floats]] = {name: [] for name in env.object_names}
    with torch.inference_mode():
        for first in range(0, len(seeds), env.num_envs):
            if time.monotonic() > deadline:
                break
            part = np.asarray(seeds[first : first + env.num_envs], dtype=np.int64)
            ids = torch.arange(len(part), device=env.device)
            env.reset(ids, part)
            for name, pose in env.get_object_poses(ids).items():
                found[name].append(pose[:, :3, 3].cpu().double().numpy())
    return {name: np.concatenate(parts) if parts else np.zeros((0, 3)) for name, parts in found.items()}


def box_sizes(env: MimicEnv) -> dict[str, tuple[float, float, float]]:
    """{object: half extents} of an env's task, metres; a guess for what it does not tell."""
    known = {box.name: box.half_size for box in getattr(getattr(env, "task", None), "objects", ())}
    return {name: known.get(name, (_HALF_SIZE,) * 3) for name in env.object_names}
