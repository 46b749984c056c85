"""What generation needs of a batched simulator, beyond what the pipeline needs."""

from typing import Protocol

from torch import Tensor

from mimicpipe.pipeline.protocol import SimEnv


class MimicSim(SimEnv, Protocol):
    """`mimicpipe.envs.base.MimicEnv` says what each member means."""

    object_names: tuple[str, ...]

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        """Pose (K, 4, 4) of an end effector."""
        ...

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object: (K, 4, 4)}."""
        ...
