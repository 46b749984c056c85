"""A pool source of one's own: the demos of a file, and each of them once more as seen in a mirror."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pools.base import OnError, ReadResult
from mimicpipe.pools.hdf5 import Hdf5Pool

FLIP = torch.diag(torch.tensor([1.0, -1.0, 1.0, 1.0]))
"""Left and right change places: y -> -y. F @ pose @ F is a pose again, and boxes and grippers look the same."""
FLIP_ACTION = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
"""The same for actions of env.control=ik_rel; a rotation vector keeps its part across the mirror."""


class MirroredPool:
    """`Hdf5Pool`, twice as large.

    Args:
        path, demo_keys, max_demos, on_error: as `Hdf5Pool`.
    """

    def __init__(
        self,
        path: str,
        demo_keys: Sequence[str] | None = None,
        max_demos: int | None = None,
        on_error: OnError = "raise",
    ) -> None:
        self._file = Hdf5Pool(path, demo_keys, max_demos, on_error)

    def load(self, env: MimicEnv, subtask_configs: SubtaskConfigs) -> ReadResult:
        """The demos, then their mirror images."""
        read = self._file.load(env, subtask_configs)
        return ReadResult([*read.demos, *map(mirrored, read.demos)], read.skipped)


def mirrored(demo: SourceDemo) -> SourceDemo:
    """A demo of one arm in a scene of symmetric things, reflected in the x-z plane."""
    info = demo.info
    reflected = DatagenInfo(
        eef_pose=_flip(info.eef_pose),
        object_poses=_flip(info.object_poses),
        subtask_term_signals=info.subtask_term_signals,
        target_eef_pose=_flip(info.target_eef_pose),
        gripper_action=info.gripper_action,
    )
    name = f"{demo.name}_mirrored"
    return replace(
        demo,
        name=name,
        origin="",
        info=reflected,
        actions=demo.actions * FLIP_ACTION,
        initial_state=None,
        observations={},
    )


def _flip(poses: dict[str, Tensor]) -> dict[str, Tensor]:
    # The diagonal of F on both sides: a change of signs, so exact.
    signs = FLIP.diagonal()[:, None] * FLIP.diagonal()[None, :]
    return {name: pose * signs for name, pose in poses.items()}
