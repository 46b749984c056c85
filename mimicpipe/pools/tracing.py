"""What a simulator shows while recorded demos are played in it: poses, targets, signals, states, success.

A recording with the state before each action is shown state by state; with only its initial state, its actions are
played. All of it is batched: one recording a slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.steps import StepLog, shown


@dataclass(frozen=True)
class Recording:
    """A demo without annotations."""

    name: str
    actions: Tensor
    """(T, A)."""
    initial_state: Tensor | None = None
    """(S,), the env's `get_state` before the first action."""
    states: Tensor | None = None
    """(T, S), the same before each action."""
    origin: str = ""
    """Where messages say it is."""


@dataclass
class Traced:
    """A demo with all that the env shows of it."""

    demo: SourceDemo
    success: Tensor
    """(T,) bool: the task's condition after each action."""
    states: Tensor
    """(T + 1, S) float64: before each action, and after the last."""


@dataclass
class _Log:
    """Steps of one slot."""

    steps: StepLog = field(default_factory=StepLog)
    states: list[Tensor] = field(default_factory=list)
    success: list[Tensor] = field(default_factory=list)


def trace(env: MimicEnv, recordings: Sequence[Recording]) -> list[Traced]:
    """Play recordings in an env, whose slots are overwritten.

    Where there are states, each is restored before it is looked at, so that what is shown is what was recorded; the
    last action is played, to see what it leads to.

    Raises:
        SourceDemoError: actions or a state that are not this env's, or no state to begin from.
    """
    size = env.get_state(torch.zeros(1, dtype=torch.int64, device=env.device)).shape[1]
    for recording in recordings:
        _check(recording, env, size)
    traced: list[Traced] = []
    for first in range(0, len(recordings), env.num_envs):
        traced += _trace_batch(env, recordings[first : first + env.num_envs])
    return traced


def _trace_batch(env: MimicEnv, recordings: Sequence[Recording]) -> list[Traced]:
    """Recording i in slot i."""
    logs = [_Log() for _ in recordings]
    begin = torch.stack([_first_state(recording) for recording in recordings])
    env.set_state(begin.to(env.device), torch.arange(len(recordings), device=env.device))
    actions = torch.zeros(env.num_envs, env.action_dim, device=env.device)
    for step in range(max(recording.actions.shape[0] for recording in recordings)):
        slots = [slot for slot, recording in enumerate(recordings) if step < recording.actions.shape[0]]
        restored = [slot for slot in slots if recordings[slot].states is not None]
        if restored and step:
            states = torch.stack([_states(recordings[slot])[step] for slot in restored])
            env.set_state(states.to(env.device), torch.tensor(restored, device=env.device))
        for slot in slots:
            actions[slot] = recordings[slot].actions[step].to(env.device, torch.float32)
        ids = torch.tensor(slots, device=env.device)
        step_shown = shown(env, ids, actions[ids])
        on_host = {key: {name: rows.cpu() for name, rows in group.items()} for key, group in step_shown.items()}
        states_now = env.get_state(ids).cpu()
        for row, slot in enumerate(slots):
            logs[slot].steps.add(on_host, row)
            logs[slot].states.append(states_now[row].clone())
        env.step(actions, ids)
        success = env.success()
        for slot in slots:
            logs[slot].success.append(success[slot].cpu().clone())
    last = env.get_state(torch.arange(len(recordings), device=env.device)).cpu()
    return [_traced(recording, log, last[i]) for i, (recording, log) in enumerate(zip(recordings, logs, strict=True))]


def _traced(recording: Recording, log: _Log, last: Tensor) -> Traced:
    states = torch.stack(log.states)
    actions = recording.actions.to("cpu", torch.float32)
    info = log.steps.info()
    demo = SourceDemo(recording.name, info, actions, states[0].clone(), origin=recording.origin, states=states.clone())
    return Traced(demo, torch.stack(log.success), torch.cat((states, last[None])))


def _first_state(recording: Recording) -> Tensor:
    state = recording.states[0] if recording.states is not None else recording.initial_state
    assert state is not None
    return state.double()


def _states(recording: Recording) -> Tensor:
    assert recording.states is not None
    return recording.states.double()


def _check(recording: Recording, env: MimicEnv, size: int) -> None:
    where = recording.origin or recording.name
    if recording.actions.ndim != 2 or recording.actions.shape[1] != env.action_dim or not len(recording.actions):
        raise SourceDemoError(
            f"{where}: actions: shape {tuple(recording.actions.shape)}, this env's actions have {env.action_dim} "
            "columns; choose the env and env.control that the demo was recorded with"
        )
    if not bool(torch.isfinite(recording.actions).all()):
        raise SourceDemoError(f"{where}: actions: NaN or infinity; repair the recording or remove the demo")
    if recording.initial_state is None and recording.states is None:
        raise SourceDemoError(
            f"{where}: initial_state: none recorded, so the demo cannot be played again; record it with its state"
        )
    if (found := _first_state(recording).shape[0]) != size:
        raise SourceDemoError(
            f"{where}: initial_state: {found} numbers, the state of this env has {size}; play the demo in the env, "
            "with the task and variant, that it was recorded in"
        )
    if recording.states is not None and recording.states.shape[0] != recording.actions.shape[0]:
        raise SourceDemoError(
            f"{where}: states: {recording.states.shape[0]} rows, actions has {recording.actions.shape[0]} steps; "
            "record the demo again"
        )
