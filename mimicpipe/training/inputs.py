"""What a state-only policy sees: poses as positions and rotation matrices, and every object as its hand sees it.

A quaternion has two signs for one rotation, and a network is better off without that jump: a rotation is given by the
first two columns of its matrix (Zhou et al., "On the continuity of rotation representations", CVPR 2019). Where a
dataset has the poses of hands and of objects, each object's pose in each hand's frame is an input, too, as in
robosuite's low-dimensional observations, and each object's in the frames of those before it. The arm's joints, which
say nothing that the hand's pose does not, are left out then.

Every formula is elementwise over the batch (`mimicpipe.poses`), so a slot's inputs are the same bits in every batch.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe import poses

HANDS = "observation.eef_pose"
"""Feature with the poses of end effectors."""
POSE_WIDTH = 9
"""Numbers of a pose as an input: position, and two columns of the rotation matrix."""
NEAR = (0.1, 0.02, 0.004)
"""Metres. A distance d is also shown as d / (|d| + near): what happens within a centimetre decides, and would else be a
hundredth of the input's range."""
RELATIVE_WIDTH = POSE_WIDTH + 3 * len(NEAR)
_POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
_ARM_JOINT = re.compile(r".*_joint\d+")


@dataclass(frozen=True)
class _Pose:
    feature: str
    start: int


class InputEncoder:
    """Observations to inputs (K, D) float32; a function of the features' names alone.

    Args:
        names: {feature: names of its numbers}; seven that end in x, y, z, qw, qx, qy, qz are a pose.

    Attributes:
        features: those that it reads.
        width: D.
    """

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        self._poses: list[_Pose] = []
        self._others: list[tuple[str, Tensor]] = []
        self.features = tuple(names)
        has_hands = HANDS in names
        for feature, own in names.items():
            starts = [i for i in range(len(own)) if _is_pose(own[i : i + len(_POSE)])]
            self._poses += [_Pose(feature, start) for start in starts]
            covered = {start + i for start in starts for i in range(len(_POSE))}
            left = [i for i in range(len(own)) if i not in covered and not (has_hands and _ARM_JOINT.match(own[i]))]
            if left:
                self._others.append((feature, torch.tensor(left)))
        self._hands = [i for i, pose in enumerate(self._poses) if pose.feature == HANDS]
        self._objects = [i for i, pose in enumerate(self._poses) if pose.feature != HANDS]
        others = self._objects
        self._pairs = [(hand, i) for hand in self._hands for i in others]
        self._pairs += [(a, b) for n, a in enumerate(others) for b in others[n + 1 :]]
        self.width = POSE_WIDTH * len(self._poses) + RELATIVE_WIDTH * len(self._pairs)
        self.width += sum(len(index) for _, index in self._others)

    def __call__(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Inputs (K, D) of observations {feature: (K, W)}."""
        parts = [observations[feature].index_select(1, index) for feature, index in self._others]
        matrices = [_matrix(observations[pose.feature][:, pose.start : pose.start + 7]) for pose in self._poses]
        parts += [_shown(matrix) for matrix in matrices]
        parts += [_relative(poses.compose(poses.invert(matrices[a]), matrices[b])) for a, b in self._pairs]
        return torch.cat([part.to(torch.float32) for part in parts], dim=1)


def _is_pose(names: Sequence[str]) -> bool:
    if len(names) < len(_POSE) or not names[0].endswith(_POSE[0]):
        return False
    prefix = names[0][: -len(_POSE[0])]
    return tuple(names) == tuple(prefix + part for part in _POSE)


def _matrix(values: Tensor) -> Tensor:
    """(K, 4, 4) of position and wxyz quaternion (K, 7)."""
    return poses.pose_from_pos_quat(values[:, :3], values[:, 3:])


def _shown(matrix: Tensor) -> Tensor:
    """(K, 9) of poses (K, 4, 4)."""
    return torch.cat((matrix[:, :3, 3], matrix[:, :3, 0], matrix[:, :3, 1]), dim=1)


def _relative(matrix: Tensor) -> Tensor:
    """(K, RELATIVE_WIDTH) of poses (K, 4, 4) in the frame of something else."""
    position = matrix[:, :3, 3]
    return torch.cat((_shown(matrix), *(position / (position.abs() + near) for near in NEAR)), dim=1)
