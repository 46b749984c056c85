"""Which subtasks of different eefs wait for each other or move together, and the check that no wait is for ever.

The algorithm is DexMimicGen's (Jiang et al., ICRA 2025); names and fields are Isaac Lab Mimic's
(`SubTaskConstraintConfig` of isaaclab/envs/mimic_env_cfg.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mimicpipe.errors import ConfigError

ObjectRefs = Mapping[str, Sequence[str | None]]
"""{eef: the `object_ref` of each of its subtasks}."""


class SubTaskConstraintType(StrEnum):
    """What two subtasks have to do with each other."""

    SEQUENTIAL = "sequential"
    """The second waits for the end of the first."""
    COORDINATION = "coordination"
    """Both play the end of their segments at the same time, from one demo, moved by one motion."""


class SubTaskConstraintCoordinationScheme(StrEnum):
    """How coordinated segments are moved."""

    REPLAY = "replay"
    """Not at all."""
    TRANSFORM = "transform"
    """With the object of the first of the two to be planned: position and rotation."""
    TRANSLATE = "translate"
    """By that object's change of position."""


@dataclass(frozen=True)
class SubTaskConstraintConfig:
    """One constraint between two subtasks of two eefs."""

    eef_subtask_constraint_tuple: tuple[tuple[str, int], tuple[str, int]]
    """(eef, index of its subtask), twice; the order counts for a sequential constraint."""
    constraint_type: SubTaskConstraintType
    sequential_min_time_diff: int = -1
    """Steps by which the second subtask ends after the first; it waits with so many left. -1: it begins after it."""
    coordination_scheme: SubTaskConstraintCoordinationScheme = SubTaskConstraintCoordinationScheme.REPLAY
    coordination_scheme_pos_noise_scale: float = 0.0
    """Both segments are moved by up to this along each axis, metres, drawn once for the pair."""
    coordination_scheme_rot_noise_scale: float = 0.0
    """Both are turned by a rotation vector of up to this in each component, radians, drawn once, about the object
    (without one: about where the first segment begins)."""
    coordination_synchronize_start: bool = False
    """Neither begins before both have arrived."""

    def __post_init__(self) -> None:
        # YAML gives lists and strings.
        pair = tuple(tuple(each) for each in self.eef_subtask_constraint_tuple)
        object.__setattr__(self, "eef_subtask_constraint_tuple", pair)
        object.__setattr__(self, "constraint_type", SubTaskConstraintType(self.constraint_type))
        scheme = SubTaskConstraintCoordinationScheme(self.coordination_scheme)
        object.__setattr__(self, "coordination_scheme", scheme)

    @property
    def is_coordination(self) -> bool:
        """Whether the two move together."""
        return self.constraint_type is SubTaskConstraintType.COORDINATION


def parse_constraints(nodes: Sequence[Mapping[str, Any]]) -> list[SubTaskConstraintConfig]:
    """Constraints from the nodes of `task.constraints`; ConfigError if one does not name two subtasks."""
    for index, node in enumerate(nodes):
        pair = node["eef_subtask_constraint_tuple"]
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_is_subtask, pair))):
            raise ConfigError(
                f"task.constraints[{index}].eef_subtask_constraint_tuple={_show(pair)}: expected two subtasks, "
                "[[eef, index], [eef, index]]"
            )
    return [SubTaskConstraintConfig(**node) for node in nodes]


def check_constraints(constraints: Sequence[SubTaskConstraintConfig], object_refs: ObjectRefs) -> None:
    """Raise ConfigError, with the key, unless every constraint can be met and no wait is for ever.

    Args:
        constraints: in the order of `task.constraints`.
        object_refs: the task's subtasks.
    """
    for index, constraint in enumerate(constraints):
        fault = _fault(constraint, constraints[:index], object_refs)
        if fault is not None:
            raise ConfigError(f"task.constraints[{index}].{fault}")
    _check_coordinated(constraints)
    chain = _endless_wait(constraints, {eef: len(refs) for eef, refs in object_refs.items()})
    if chain:
        raise ConfigError(f"task.constraints: can never be met, as {chain}; remove one of these constraints")


# ---- one constraint


def _is_subtask(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and type(value[0]) is str and type(value[1]) is int


def _show(pair: Any) -> str:
    return str(pair).replace("'", "").replace(" ", "").replace("(", "[").replace(")", "]")


def _fault(
    constraint: SubTaskConstraintConfig, before: Sequence[SubTaskConstraintConfig], object_refs: ObjectRefs
) -> str | None:
    pair = constraint.eef_subtask_constraint_tuple
    key = f"eef_subtask_constraint_tuple={_show(pair)}"
    for eef, subtask in pair:
        if eef not in object_refs:
            return f"{key}: no such end effector {eef}; valid: {', '.join(object_refs)}"
        if not 0 <= subtask < len(object_refs[eef]):
            return f"{key}: {eef} has no subtask {subtask}; valid: 0 to {len(object_refs[eef]) - 1}"
    if pair[0][0] == pair[1][0]:
        return f"{key}: both are subtasks of {pair[0][0]}, which do follow each other; name two end effectors"
    for number, other in enumerate(before):
        theirs = other.eef_subtask_constraint_tuple
        same = theirs == pair or (constraint.is_coordination and theirs == pair[::-1])
        if same and other.constraint_type is constraint.constraint_type:
            return f"{key}: the same as task.constraints[{number}]; remove one"
    return _number_fault(constraint) or _scheme_fault(constraint, object_refs)


def _number_fault(constraint: SubTaskConstraintConfig) -> str | None:
    steps = constraint.sequential_min_time_diff
    if type(steps) is not int or steps < -1:
        return f"sequential_min_time_diff={steps}: expected an integer >= -1"
    for name in ("coordination_scheme_pos_noise_scale", "coordination_scheme_rot_noise_scale"):
        value = getattr(constraint, name)
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
            return f"{name}={value}: expected a number >= 0"
    return None


def _scheme_fault(constraint: SubTaskConstraintConfig, object_refs: ObjectRefs) -> str | None:
    scheme = constraint.coordination_scheme
    if not constraint.is_coordination or scheme is SubTaskConstraintCoordinationScheme.REPLAY:
        return None
    for eef, subtask in constraint.eef_subtask_constraint_tuple:
        if object_refs[eef][subtask] is None:
            return (
                f"coordination_scheme={scheme}: moves with an object, but task.subtasks.{eef}[{subtask}] has none; "
                "set its object_ref, or use replay"
            )
    return None


# ---- all of them


def _check_coordinated(constraints: Sequence[SubTaskConstraintConfig]) -> None:
    """A subtask is coordinated with one other at most, and nothing else holds it up in the middle."""
    coordinated: dict[tuple[str, int], int] = {}
    for index, constraint in enumerate(constraints):
        for subtask in constraint.eef_subtask_constraint_tuple if constraint.is_coordination else ():
            if subtask in coordinated:
                raise ConfigError(
                    f"task.constraints[{index}].eef_subtask_constraint_tuple="
                    f"{_show(constraint.eef_subtask_constraint_tuple)}: {subtask[0]}[{subtask[1]}] is coordinated by "
                    f"task.constraints[{coordinated[subtask]}] already; a subtask is with one other at most"
                )
            coordinated[subtask] = index
    for index, constraint in enumerate(constraints):
        latter = constraint.eef_subtask_constraint_tuple[1]
        if not constraint.is_coordination and constraint.sequential_min_time_diff >= 0 and latter in coordinated:
            raise ConfigError(
                f"task.constraints[{index}].sequential_min_time_diff={constraint.sequential_min_time_diff}: "
                f"{latter[0]}[{latter[1]}] is coordinated by task.constraints[{coordinated[latter]}] and cannot wait "
                "in its middle; use -1, so that it waits before it begins"
            )


_Waits = dict[str, list[tuple[str, str]]]
"""{what waits: [(what it waits for, why)]}."""


def _endless_wait(constraints: Sequence[SubTaskConstraintConfig], counts: Mapping[str, int]) -> str | None:
    """A circle of waits in words, or None.

    Every wait is for all of several things, so a run can stand still only where the waits go in a circle.
    """
    waits = _waits(constraints, counts)
    state: dict[str, int] = {}
    path: list[tuple[str, str]] = []

    def visit(node: str) -> str | None:
        state[node] = 1
        for wanted, why in waits.get(node, ()):
            path.append((node, f"{node} waits for the {wanted} ({why})"))
            if state.get(wanted) == 1:
                first = next(i for i, (name, _) in enumerate(path) if name == wanted)
                return ", ".join(text for _, text in path[first:])
            if wanted not in state and (found := visit(wanted)) is not None:
                return found
            path.pop()
        state[node] = 2
        return None

    return next((found for node in waits if node not in state and (found := visit(node)) is not None), None)


def _waits(constraints: Sequence[SubTaskConstraintConfig], counts: Mapping[str, int]) -> _Waits:
    waits: _Waits = {}
    for eef, count in counts.items():
        for subtask in range(count):
            waits[_end(eef, subtask)] = [(_start(eef, subtask), "it plays its segment")]
            waits[_start(eef, subtask)] = [] if subtask == 0 else [(_end(eef, subtask - 1), f"the order of {eef}")]
    for index, constraint in enumerate(constraints):
        first, second = constraint.eef_subtask_constraint_tuple
        why = f"constraints[{index}]"
        if constraint.is_coordination:
            meeting = f"meeting of {first[0]}[{first[1]}] and {second[0]}[{second[1]}]"
            waits[meeting] = [(_start(*first), why), (_start(*second), why)]
            for each in (first, second):
                waits[_end(*each)].append((meeting, why))
        else:
            waiting = _start if constraint.sequential_min_time_diff == -1 else _end
            waits[waiting(*second)].append((_end(*first), why))
    # Those that begin together wait for whatever either of them waits for.
    for index, constraint in enumerate(constraints):
        if constraint.is_coordination and constraint.coordination_synchronize_start:
            one, other = (waits[_start(*each)] for each in constraint.eef_subtask_constraint_tuple)
            why = f"constraints[{index}] synchronizes the start"
            both = [(wanted, f"{reason}; {why}") for wanted, reason in (*one, *other)]
            one[:], other[:] = [*one, *both], [*other, *both]
    return waits


def _start(eef: str, subtask: int) -> str:
    return f"start of {eef}[{subtask}]"


def _end(eef: str, subtask: int) -> str:
    return f"end of {eef}[{subtask}]"
