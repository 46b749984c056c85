"""Signals from gripper and distance, for demos whose task is not at hand: a subtask ends where the gripper changes near
the object that it refers to, and its skill begins where the eef comes near to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mimicpipe.annotate.verdict import apart, from_step
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.datagen.subtask import SubTaskConfig, SubtaskConfigs
from mimicpipe.errors import ConfigError, SourceDemoError

KINDS = ("change", "close", "open", "near", "away")
"""What ends a subtask: the gripper's command changes, closes, opens; the eef comes within a distance of the object, or
leaves it again."""


@dataclass(frozen=True)
class Rule:
    """What ends one subtask."""

    kind: str = "change"
    distance: float | None = None
    """Metres; None is `Rules.near`."""


@dataclass(frozen=True)
class Rules:
    """How a demo is cut."""

    near: float = 0.12
    """Eef to the object's origin where a change of the gripper counts, metres."""
    settle: int = 5
    """Steps from the gripper's command to the subtask's end: fingers need time to close."""
    skill: float = 0.12
    """Eef to the object's origin where a skill begins, metres."""
    of_signal: Mapping[str, Rule] = field(default_factory=dict)
    """{signal: its rule}; others have `Rule()`."""


def parse_rule(text: str) -> tuple[str, Rule]:
    """(signal, rule) of `SIGNAL=KIND` or `SIGNAL=KIND,DISTANCE`.

    Raises:
        ConfigError: it is none.
    """
    signal, _, rest = text.partition("=")
    kind, _, distance = rest.partition(",")
    if not signal or kind not in KINDS:
        raise ConfigError(f"--rule {text}: expected SIGNAL=KIND or SIGNAL=KIND,METRES; kinds: {', '.join(KINDS)}")
    try:
        metres = float(distance) if distance else None
    except ValueError:
        metres = -1.0
    if metres is not None and not 0.0 < metres < float("inf"):
        raise ConfigError(f"--rule {text}: {distance} is no distance in metres")
    return signal, Rule(kind, metres)


def apply_rules(info: DatagenInfo, configs: SubtaskConfigs, rules: Rules, where: str) -> None:
    """Set a demo's signals, those that end subtasks and, where the eef comes near enough, those where skills begin.

    Raises:
        SourceDemoError: a subtask's end is not found; says what was looked for.
        ConfigError: a rule for a signal that no subtask ends with.
    """
    known = {c.subtask_term_signal for subtasks in configs.values() for c in subtasks} - {None}
    if unknown := sorted(set(rules.of_signal) - known):
        raise ConfigError(f"--rule {unknown[0]}: no subtask ends with it; the task has {', '.join(map(str, known))}")
    info.subtask_term_signals, info.subtask_start_signals = {}, {}
    for eef, subtasks in configs.items():
        at = 0
        for config in subtasks:
            end = info.length if config.subtask_term_signal is None else _end(info, eef, config, rules, at, where)
            if config.subtask_term_signal is not None:
                info.subtask_term_signals[config.subtask_term_signal] = from_step(info.length, end)
            if config.subtask_start_signal is not None:
                _add_start(info, eef, config, rules, at, end)
            at = end


def _end(info: DatagenInfo, eef: str, config: SubTaskConfig, rules: Rules, after: int, where: str) -> int:
    rule = rules.of_signal.get(str(config.subtask_term_signal), Rule())
    limit = rules.near if rule.distance is None else rule.distance
    way = _way(info, eef, config)
    within = torch.ones(info.length, dtype=torch.bool) if way is None else way < limit
    steps = torch.arange(info.length)
    if rule.kind in ("near", "away"):
        met = within if rule.kind == "near" else ~within & (within & (steps > after)).long().cumsum(0).bool()
        found = (met & (steps > after)).nonzero()
        settle = 0
    else:
        closing, opening = gripper_changes(info.gripper_action[eef])
        change = {"change": closing | opening, "close": closing, "open": opening}[rule.kind]
        found = (change & within & (steps > after)).nonzero()
        settle = rules.settle
    if not len(found):
        raise SourceDemoError(f"{where}: {_not_found(rule, limit, eef, config, after, way)}")
    return min(int(found[0, 0]) + settle, info.length - 1)


def gripper_changes(commands: Tensor) -> tuple[Tensor, Tensor]:
    """(T,) bool each: the command (T, G) goes from open (>= 0) to closed, and back."""
    is_open = commands[:, 0] >= 0.0
    before = torch.cat((is_open[:1], is_open[:-1]))
    return before & ~is_open, ~before & is_open


def _way(info: DatagenInfo, eef: str, config: SubTaskConfig) -> Tensor | None:
    if config.object_ref is None:
        return None
    return apart(info.eef_pose[eef], info.object_poses[config.object_ref])


def _not_found(rule: Rule, limit: float, eef: str, config: SubTaskConfig, after: int, way: Tensor | None) -> str:
    what = {
        "change": "the gripper does not change",
        "close": "the gripper does not close",
        "open": "the gripper does not open",
        "near": f"{eef} does not come",
        "away": f"{eef} does not go away from",
    }
    said = f"signal {config.subtask_term_signal}: after step {after} {what[rule.kind]}"
    if way is None or after + 1 >= len(way):
        return said
    nearest = after + 1 + int(way[after + 1 :].argmin())
    return (
        f"{said} within {limit:g} m of {config.object_ref}; {eef} comes nearest at step {nearest}, "
        f"{float(way[nearest]):.3f} m; give another distance with --rule or --near"
    )


def _add_start(info: DatagenInfo, eef: str, config: SubTaskConfig, rules: Rules, begin: int, end: int) -> None:
    way = _way(info, eef, config)
    if way is None:
        return
    steps: Sequence[int] = (begin + (way[begin:end] < rules.skill).nonzero()[:, 0]).tolist()
    if not steps:
        return  # generator=skillgen will want it, others not
    # From there to the subtask's end: what comes after belongs to the next one.
    signal = torch.zeros(info.length, dtype=torch.bool)
    signal[steps[0] : end] = True
    info.subtask_start_signals[str(config.subtask_start_signal)] = signal
