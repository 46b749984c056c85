"""Demos before they are annotated: read from a file or a dataset, and played in the env where they can be."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5 import needs_of
from mimicpipe.pools.hdf5_file import read_recordings, read_usable
from mimicpipe.pools.hdf5_layout import Needs
from mimicpipe.pools.lerobot_files import is_dataset, open_dataset
from mimicpipe.pools.lerobot_reader import LeRobotOptions, LeRobotReader
from mimicpipe.pools.tracing import Recording, trace

_TOLERANCE = 0.002
"""Metres between where a demo was recorded and where it is when played; beyond it, it is another one."""


@dataclass
class Candidate:
    """A demo with poses, and what the simulator has shown of it."""

    demo: SourceDemo
    """Its signals are the task's, or none where it could not be played."""
    success: Tensor | None = None
    """(T,) bool: the task's condition after each action; None where it could not be played."""
    states: Tensor | None = None
    """(T + 1, S) before each action and after the last; likewise."""
    unplayed: str = ""
    """Why it could not be played, or not as it was recorded."""


@dataclass
class Found:
    """What a file or dataset holds."""

    candidates: list[Candidate]
    faults: list[tuple[str, str]]
    """(demo, why it cannot even be looked at)."""


def read_candidates(path: Path, env: MimicEnv, subtasks: SubtaskConfigs) -> Found:
    """Read all demos of an HDF5 file or a LeRobot dataset, and play those that have a state of this env.

    Raises:
        SourceDemoError: the file or dataset cannot be used.
    """
    needs = replace(needs_of(env, subtasks), signal_names=(), start_signal_names=(), observations=True)
    return _from_dataset(path, env, needs) if is_dataset(path) else _from_file(path, env, needs)


def _from_file(path: Path, env: MimicEnv, needs: Needs) -> Found:
    read, faults = read_recordings(path, env.action_dim)
    found = Found([], faults)
    for recording, annotated in read:
        known = read_usable(path, needs, [recording.name], None, "skip") if annotated else None
        fault = known.skipped[0][1] if known is not None and known.skipped else ""
        _add(found, recording, known.demos[0] if known is not None and known.demos else None, fault, env)
    return found


def _from_dataset(root: Path, env: MimicEnv, needs: Needs) -> Found:
    found, reader = Found([], []), LeRobotReader(env, needs, LeRobotOptions())
    files = open_dataset(root)
    for row in files.episodes:
        name, state = f"episode_{row['episode_index']}", row.get("mimicpipe/initial_state")
        actions = files.columns(row["episode_index"], ["action"])["action"].values
        initial = None if state is None else torch.tensor(state, dtype=torch.float64)
        recording = Recording(name, torch.from_numpy(actions.astype("float32")), initial, origin=f"{root}: {name}")
        known = reader.read_usable(root, [name], None, "skip")
        fault = known.skipped[0][1] if known.skipped else ""
        _add(found, recording, known.demos[0] if known.demos else None, fault, env)
    return found


def _add(found: Found, recording: Recording, known: SourceDemo | None, fault: str, env: MimicEnv) -> None:
    """Add a demo, as it was recorded (`known`) where it was recorded with poses, else as it is when played.

    Args:
        found: what it is added to.
        recording: its actions and states.
        known: the demo with poses, if it has any that can be read.
        fault: what is wrong with these, if not.
        env: what it is played in.
    """
    try:
        (shown,) = trace(env, [recording])
        unplayed = _deviation(known, shown.demo) if known is not None else ""
    except SourceDemoError as error:
        shown, unplayed = None, str(error).removeprefix(f"{recording.origin}: ")
    if known is None:
        if shown is None:
            found.faults.append((recording.name, fault or unplayed))
        else:
            found.candidates.append(Candidate(shown.demo, shown.success, shown.states))
        return
    candidate = Candidate(known, unplayed=unplayed)
    if shown is not None and not unplayed:
        known.info.subtask_term_signals = shown.demo.info.subtask_term_signals
        known.info.subtask_start_signals = shown.demo.info.subtask_start_signals
        candidate.success, candidate.states = shown.success, shown.states
    found.candidates.append(candidate)


def _deviation(recorded: SourceDemo, shown: SourceDemo) -> str:
    """Where a demo, played, first leaves what was recorded; empty where it does not."""
    first, said = recorded.info.length, ""
    pairs = [(name, pose, shown.info.eef_pose.get(name)) for name, pose in recorded.info.eef_pose.items()]
    pairs += [(name, pose, shown.info.object_poses.get(name)) for name, pose in recorded.info.object_poses.items()]
    for name, pose, played in pairs:
        if played is None:
            continue
        way = (pose[:, :3, 3] - played[:, :3, 3]).norm(dim=1)
        steps = (~(way <= _TOLERANCE)).nonzero()
        if len(steps) and int(steps[0, 0]) < first:
            first = int(steps[0, 0])
            said = f"played in this env, {name} is {float(way[first]):.3f} m from where it was recorded at step {first}"
    return said
