"""What an Isaac Lab `MimicEnvCfg` says of its task, in mimicpipe's words: subtasks, constraints, joining of segments.

The fields have the same names; see isaaclab/envs/mimic_env_cfg.py.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.envs.base import TaskSettings

if TYPE_CHECKING:
    from isaaclab.envs.mimic_env_cfg import MimicEnvCfg

_SUBTASK_FIELDS = {f.name for f in fields(SubTaskConfig)}
_CONSTRAINT_FIELDS = {f.name for f in fields(SubTaskConstraintConfig)}


def settings_of(cfg: "MimicEnvCfg") -> TaskSettings:
    """Subtasks, constraints and joining of an env's configuration."""
    skillgen = cfg.datagen_config.use_skillgen
    return TaskSettings(
        subtasks={eef: subtasks_of(configs, skillgen) for eef, configs in cfg.subtask_configs.items()},
        constraints=[constraint_of(constraint) for constraint in cfg.task_constraint_configs],
        datagen=_datagen_of(cfg.datagen_config),
    )


def subtasks_of(configs: Any, skillgen: bool = False) -> list[SubTaskConfig]:
    """Subtasks of one end effector.

    Isaac Lab ignores the offset of the last subtask's end, and, of the others, that of the first subtask's start; here
    both would be refused, so they are left out. Isaac Lab has no field for a start signal: with SkillGen, where a
    subtask's configuration does not have one as `subtask_start_signal`, it is the one with its term signal's name.
    """
    subtasks = []
    for index, config in enumerate(configs):
        values = {name: _plain(value) for name, value in vars(config).items() if name in _SUBTASK_FIELDS}
        if index > 0:
            values["first_subtask_start_offset_range"] = (0, 0)
        if index == len(configs) - 1:
            values["subtask_term_offset_range"] = (0, 0)
        if skillgen and values.get("subtask_start_signal") is None:
            values["subtask_start_signal"] = config.subtask_term_signal
        if values.get("subtask_start_signal") is None:
            values["subtask_start_offset_range"] = (0, 0)
        subtasks.append(SubTaskConfig(**values))
    return subtasks


def constraint_of(config: Any) -> SubTaskConstraintConfig:
    """One constraint; Isaac Lab's enums become names, and a field that it leaves at None our default."""
    given = {name: value for name, value in vars(config).items() if name in _CONSTRAINT_FIELDS and value is not None}
    values = {name: value.name.lower() if hasattr(value, "name") else _plain(value) for name, value in given.items()}
    return SubTaskConstraintConfig(**values)


def _datagen_of(config: Any) -> DataGenConfig:
    return DataGenConfig(**{f.name: getattr(config, f.name) for f in fields(DataGenConfig) if hasattr(config, f.name)})


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
