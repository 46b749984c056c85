"""What a source demo has of a step, read from an env before the step's action: the same for all who record demos."""

import torch
from torch import Tensor

from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.envs.base import MimicEnv

Shown = dict[str, dict[str, Tensor]]
"""{field of `DatagenInfo`: {name: a row for each slot}}."""


def shown(env: MimicEnv, env_ids: Tensor | None, actions: Tensor) -> Shown:
    """What the env shows of slots before their actions.

    Args:
        env: the simulator.
        env_ids: (K,) slots; None is all.
        actions: (K, A) of these slots.

    Returns:
        poses (K, 4, 4), gripper actions (K, G), signals (K,) bool.
    """
    return {
        "eef_pose": {eef: env.get_robot_eef_pose(eef, env_ids) for eef in env.eef_names},
        "object_poses": env.get_object_poses(env_ids),
        "target_eef_pose": env.action_to_target_eef_pose(actions, env_ids),
        "gripper_action": env.actions_to_gripper_actions(actions),
        "subtask_term_signals": env.get_subtask_term_signals(env_ids),
        "subtask_start_signals": env.get_subtask_start_signals(env_ids),
    }


class StepLog:
    """What was shown of one slot, step after step."""

    def __init__(self) -> None:
        self._steps: list[Shown] = []

    def add(self, step: Shown, row: int) -> None:
        """Take one row of a step, to the host."""
        own = {key: {name: rows[row].cpu().clone() for name, rows in group.items()} for key, group in step.items()}
        self._steps.append(own)

    def info(self) -> DatagenInfo:
        """The steps so far, one or more."""
        return DatagenInfo(**{key: stacked([step[key] for step in self._steps]) for key in self._steps[0]})


def stacked(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """{name: (T, ...)} of T rows {name: (...)}."""
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
