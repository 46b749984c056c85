"""How a task is cut into object-centric subtasks, and how their segments are chosen and joined.

The fields are Isaac Lab Mimic's (`SubTaskConfig`, `DataGenConfig` of isaaclab/envs/mimic_env_cfg.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mimicpipe.datagen.selection import SelectionStrategy, strategy_fault, strategy_named
from mimicpipe.errors import ConfigError

SubtaskConfigs = Mapping[str, Sequence["SubTaskConfig"]]
"""{eef: its subtasks in order}."""


@dataclass(frozen=True)
class SubTaskConfig:
    """One subtask of one end effector."""

    object_ref: str | None = None
    """Object whose frame the segment is moved with; None replays the segment where it was recorded."""
    subtask_term_signal: str | None = None
    """Signal whose first 0→1 edge ends the subtask; None, for the last subtask only, is the end of the demo."""
    selection_strategy: str | SelectionStrategy = "random"
    """Name of a strategy in `selection.STRATEGIES`, or a callable like those."""
    selection_strategy_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the strategy."""
    first_subtask_start_offset_range: tuple[int, int] = (0, 0)
    """Steps to drop at the demo's start, drawn from [low, high]; only the first subtask has it."""
    subtask_term_offset_range: tuple[int, int] = (0, 0)
    """Steps added to the subtask's end, drawn from [low, high]; the last subtask has none."""
    action_noise: float = 0.03
    """Standard deviation of the Gaussian noise on the pose part of the action, in action units."""
    num_interpolation_steps: int = 5
    """Waypoints between where the eef is and the segment's first pose."""
    num_fixed_steps: int = 0
    """Steps to wait at the segment's first pose."""
    apply_noise_during_interpolation: bool = False
    """Whether interpolated and fixed steps get action noise, too."""
    description: str = ""
    """What the subtask does, in words."""
    next_subtask_description: str = ""
    """Instruction of the subtask after this one."""
    subtask_start_signal: str | None = None
    """Signal that is true where the subtask's skill may begin, which the way to it is planned to (SkillGen); None is
    where the subtask before ends. MimicGen does not look at it."""
    subtask_start_offset_range: tuple[int, int] = (0, 0)
    """Steps added to where the skill begins, drawn from [low, high]; with `subtask_start_signal` only."""
    object_turns: int = 1
    """Into how many equal parts of a full turn about its z axis the object may be turned and serve as before: a square
    peg 4. SkillGen tries them where there is no way to a skill as it was shown; MimicGen does not look at it."""
    num_settle_steps: int = 0
    """Steps to wait, without noise, before each change of the gripper in the segment, for an arm that lags."""

    def __post_init__(self) -> None:
        # YAML gives lists.
        for name in ("first_subtask_start_offset_range", "subtask_start_offset_range", "subtask_term_offset_range"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, Sequence) else value)


@dataclass(frozen=True)
class DataGenConfig:
    """How the segments of one attempt are chosen and joined."""

    generation_select_src_per_subtask: bool = False
    """Choose a source demo for each subtask; otherwise one for the whole attempt."""
    generation_select_src_per_arm: bool = False
    """Each eef chooses its own source demo; otherwise the first to choose, in the env's order, chooses for all.

    Shared and per subtask, eefs share the demo of the same subtask index.
    """
    generation_transform_first_robot_pose: bool = False
    """Let every segment begin at the source eef's measured pose, as the first subtask's always does."""
    generation_interpolate_from_last_target_pose: bool = True
    """Interpolate to a segment from the last target pose; otherwise from where the eef is."""
    settle_steps: int = 0
    """Steps to hold the last target, without noise, after the last subtask."""

    def starts_at_measured_pose(self, subtask: int) -> bool:
        """Whether a subtask's segment begins at the source eef's measured pose instead of its first target."""
        return subtask == 0 or self.generation_transform_first_robot_pose


def check_subtask_configs(configs: SubtaskConfigs, eef_names: Sequence[str], object_names: Sequence[str]) -> None:
    """Raise ConfigError, with the key and what is valid, unless the subtasks can be generated in this env."""
    for kind, names in (("end effector", eef_names), ("object", object_names)):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            raise ConfigError(f"env: more than one {kind} is called {', '.join(twice)}; give each its own name")
    if set(configs) != set(eef_names):
        raise ConfigError(
            f"task.subtasks={{{', '.join(configs)}}}: every end effector of the env needs its subtasks, and no other; "
            f"valid: {', '.join(eef_names)}"
        )
    for eef, subtasks in configs.items():
        if not subtasks:
            raise ConfigError(f"task.subtasks.{eef}=[]: at least one subtask is needed")
        for index, config in enumerate(subtasks):
            fault = _fault(config, index == 0, index == len(subtasks) - 1, object_names)
            if fault is not None:
                raise ConfigError(f"task.subtasks.{eef}[{index}].{fault}")


def check_datagen_config(config: DataGenConfig) -> None:
    """Raise ConfigError unless every value is in its range."""
    if not _is_int(config.settle_steps, 0):
        raise ConfigError(f"generator.settle_steps={config.settle_steps}: expected an integer >= 0")


def _fault(config: SubTaskConfig, first: bool, last: bool, object_names: Sequence[str]) -> str | None:
    return (
        _reference_fault(config, last, object_names)
        or _offset_fault(config, first, last)
        or _number_fault(config)
        or _selection_fault(config)
    )


def _reference_fault(config: SubTaskConfig, last: bool, object_names: Sequence[str]) -> str | None:
    if config.object_ref is not None and config.object_ref not in object_names:
        return f"object_ref={config.object_ref}: no such object; valid: {', '.join(object_names) or 'none'}, null"
    if config.subtask_term_signal is None and not last:
        return "subtask_term_signal=null: only the last subtask may end with the demo; name the signal that ends it"
    return None


def _offset_fault(config: SubTaskConfig, first: bool, last: bool) -> str | None:
    ranges = {"first_subtask_start_offset_range": 0, "subtask_start_offset_range": 0, "subtask_term_offset_range": None}
    for name, low in ranges.items():
        value = getattr(config, name)
        if not (_is_range(value) and (low is None or value[0] >= low)):
            bound = " and low >= 0" if low is not None else ""
            return f"{name}={value}: expected two integers [low, high] with low <= high{bound}"
    if not first and config.first_subtask_start_offset_range != (0, 0):
        return (
            f"first_subtask_start_offset_range={list(config.first_subtask_start_offset_range)}: only the first "
            "subtask's start is offset; later ones start where the one before ends"
        )
    if config.subtask_start_signal is None and config.subtask_start_offset_range != (0, 0):
        return (
            f"subtask_start_offset_range={list(config.subtask_start_offset_range)}: it is counted from a start signal; "
            "name one with subtask_start_signal"
        )
    if last and config.subtask_term_offset_range != (0, 0):
        return f"subtask_term_offset_range={list(config.subtask_term_offset_range)}: the last subtask's must be [0, 0]"
    return None


def _number_fault(config: SubTaskConfig) -> str | None:
    noise = config.action_noise
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not math.isfinite(noise) or noise < 0:
        return f"action_noise={noise}: expected a number >= 0"
    if not _is_int(config.object_turns, 1):
        return f"object_turns={config.object_turns}: expected an integer >= 1"
    if config.object_turns > 1 and config.object_ref is None:
        return f"object_turns={config.object_turns}: there is no object to turn; set object_ref"
    for name in ("num_interpolation_steps", "num_fixed_steps", "num_settle_steps"):
        if not _is_int(getattr(config, name), 0):
            return f"{name}={getattr(config, name)}: expected an integer >= 0"
    return None


def _selection_fault(config: SubTaskConfig) -> str | None:
    strategy = config.selection_strategy
    if isinstance(strategy, str):
        try:
            strategy = strategy_named(strategy)
        except KeyError as error:
            return f"selection_strategy={strategy}: {error.args[0]}"
    if not callable(strategy):
        return f"selection_strategy={strategy}: expected a name or a callable"
    fault = strategy_fault(strategy, config.selection_strategy_kwargs)
    if fault is not None:
        return f"selection_strategy_kwargs{fault}"
    if getattr(strategy, "needs_object", False) and config.object_ref is None:
        return f"selection_strategy={config.selection_strategy}: it measures object poses; set object_ref or use random"
    return None


def _is_int(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is_range(value: Any) -> bool:
    whole = isinstance(value, tuple) and len(value) == 2 and all(type(v) is int for v in value)
    return whole and value[0] <= value[1]
