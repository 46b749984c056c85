"""Whether a demo can be a source demo as it is annotated, and if not, why."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mimicpipe.annotate.candidates import Candidate
from mimicpipe.datagen.checks import check_info
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.segments import find_boundaries, find_skill_starts
from mimicpipe.datagen.subtask import SubTaskConfig, SubtaskConfigs
from mimicpipe.errors import SourceDemoError


def unsuccessful(candidate: Candidate, hold_steps: int) -> str | None:
    """Why a demo does not count as a success; None where it does, or where nobody can tell."""
    if candidate.success is None:
        return None
    held = candidate.success[-hold_steps:]
    if len(held) == hold_steps and bool(held.all()):
        return None
    steps = candidate.success.nonzero()
    if not len(steps):
        return "not successful: the task's condition is never met"
    last = int(steps[-1, 0])
    if last < len(candidate.success) - 1:
        return f"not successful: the task's condition is met until step {last}, and lost before the demo ends"
    run = int((~candidate.success).nonzero()[-1, 0]) + 1 if not bool(candidate.success.all()) else 0
    return (
        f"not successful: the task's condition is met from step {run} on, for {len(candidate.success) - run} steps; "
        f"it must hold for {hold_steps} (task.hold_steps)"
    )


def missing_signals(info: DatagenInfo, configs: SubtaskConfigs) -> str | None:
    """Which signal that ends a subtask never occurs, and how near to it the demo came; None where all do."""
    for eef, subtasks in configs.items():
        for config in subtasks:
            name = config.subtask_term_signal
            if name is None or (name in info.subtask_term_signals and bool(info.subtask_term_signals[name].any())):
                continue
            return f"signal {name} is never true{_approach(info, eef, config)}"
    return None


def _approach(info: DatagenInfo, eef: str, config: SubTaskConfig) -> str:
    if config.object_ref is None or config.object_ref not in info.object_poses:
        return ""
    way = apart(info.eef_pose[eef], info.object_poses[config.object_ref])
    nearest = int(way.argmin())
    return f"; {eef} comes nearest to {config.object_ref} at step {nearest}, {float(way[nearest]):.3f} m"


def judge(demo: SourceDemo, configs: SubtaskConfigs) -> str | None:
    """Why an annotated demo cannot be cut into the task's subtasks; None where it can."""
    where = demo.origin or demo.name
    if (missing := missing_signals(demo.info, configs)) is not None:
        return missing
    try:
        check_info(demo.info, where, demo.actions.shape[0])
        for subtasks in configs.values():
            find_boundaries(demo.info, subtasks, where)
    except SourceDemoError as error:
        return str(error).removeprefix(f"{where}: ")
    return None


def skill_starts(demo: SourceDemo, configs: SubtaskConfigs) -> tuple[str, str]:
    """(where the skills of an annotated demo begin, for people to read; why generator=skillgen could not use it)."""
    where = demo.origin or demo.name
    said = []
    try:
        for subtasks in configs.values():
            starts = find_skill_starts(demo.info, subtasks, where)
            named = zip(subtasks, starts, strict=True)
            said += [f"{c.subtask_start_signal} {at}" for c, at in named if c.subtask_start_signal is not None]
    except SourceDemoError as error:
        return ", ".join(said) or "none", str(error).removeprefix(f"{where}: ")
    return ", ".join(said) or "none", ""


def keep_used(demo: SourceDemo, configs: SubtaskConfigs) -> None:
    """Leave out signals that no subtask ends with: they need not occur."""
    used = {config.subtask_term_signal for subtasks in configs.values() for config in subtasks}
    signals = demo.info.subtask_term_signals
    demo.info.subtask_term_signals = {name: signal for name, signal in signals.items() if name in used}


def ends(signals: Mapping[str, Tensor]) -> str:
    """Each signal with the step at which it is first true, for people to read."""
    return ", ".join(f"{name} {int(signal.long().argmax())}" for name, signal in signals.items()) or "none"


def apart(a: Tensor, b: Tensor) -> Tensor:
    """Distances (T,) between the origins of poses (T, 4, 4), metres."""
    return (a[:, :3, 3] - b[:, :3, 3]).norm(dim=1)


def from_step(length: int, step: int) -> Tensor:
    """(T,) bool: true from a step on."""
    return torch.arange(length) >= step
