"""`pool=lerobot`: source demos from LeRobot datasets, those of this package's recorders and others'."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pools.base import OnError, ReadResult
from mimicpipe.pools.hdf5 import needs_of, paths_of
from mimicpipe.pools.lerobot_reader import FeatureNames, LeRobotOptions, LeRobotReader
from mimicpipe.pools.loading import load_needed


class LeRobotPool:
    """Source demos from datasets.

    Args:
        path: a dataset, a folder of datasets and HDF5 files, or a list of any of these.
        demo_keys: episodes to take, as episode_0; None is all.
        max_demos: take at most this many; None is all.
        on_error: "raise" or "skip" an episode that cannot be used.
        poses, targets, quaternion, eef_pose, object_pose, joints: see `LeRobotOptions`.
        gripper_width, action, gripper, gripper_threshold, signals: likewise.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        demo_keys: Sequence[str] | None = None,
        max_demos: int | None = None,
        on_error: OnError = "raise",
        poses: str = "features",
        targets: str = "action",
        quaternion: str = "wxyz",
        eef_pose: FeatureNames = "observation.eef_pose",
        object_pose: FeatureNames = "observation.environment_state",
        joints: str = "observation.state",
        gripper_width: str = "observation.state",
        action: str = "action",
        gripper: str = "action",
        gripper_threshold: float | None = None,
        signals: Mapping[str, str] | None = None,
    ) -> None:
        self.path = paths_of(path)
        self.demo_keys = demo_keys
        self.max_demos = max_demos
        self.on_error: OnError = on_error
        self.options = LeRobotOptions(
            poses, targets, quaternion, eef_pose, object_pose, joints, gripper_width, action, gripper,
            gripper_threshold, signals or {},
        )  # fmt: skip

    def load(self, env: MimicEnv, subtask_configs: SubtaskConfigs) -> ReadResult:
        """Demos with everything that the env and the subtasks need; see `pools.base.DemoSource`."""
        needs = needs_of(env, subtask_configs)
        return load_needed(
            self.path,
            needs,
            demo_keys=self.demo_keys,
            max_demos=self.max_demos,
            on_error=self.on_error,
            datasets=LeRobotReader(env, needs, self.options),
        )
