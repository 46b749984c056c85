"""Isaac Lab recorder terms that keep what a source demo needs, so that its own recordings can be source demos again.

The same columns, `obs/datagen_info/...`, as Isaac Lab's annotate_demos.py adds to a file.
"""

from typing import Any

from isaaclab.envs.mdp.recorders.recorders_cfg import ActionStateRecorderManagerCfg
from isaaclab.managers import RecorderTerm, RecorderTermCfg
from isaaclab.utils import configclass


class DatagenInfoRecorder(RecorderTerm):
    """Poses and signals before a step, and what its action asks for."""

    def record_pre_step(self) -> tuple[str, dict[str, Any]]:
        """Column name, and {name: values (N, ...)}, nested."""
        env = self._env
        return "obs/datagen_info", {
            "object_pose": env.get_object_poses(),
            "eef_pose": {eef: env.get_robot_eef_pose(eef) for eef in env.cfg.subtask_configs},
            "target_eef_pose": env.action_to_target_eef_pose(env.action_manager.action),
            "subtask_term_signals": env.get_subtask_term_signals(),
            "subtask_start_signals": env.get_subtask_start_signals(),
        }


@configclass
class AnnotatedRecorderCfg(ActionStateRecorderManagerCfg):
    """Actions, states, observations and the above."""

    datagen_info = RecorderTermCfg(class_type=DatagenInfoRecorder)
