"""Demos that were recorded in another simulator: its frame, and the sign of its grippers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.errors import SourceDemoError


@dataclass(frozen=True)
class Conversion:
    """From the conventions that demos were recorded with to this env's."""

    frame: Tensor
    """(4, 4) float64 pose of the env's frame in the frame of the recording, metres."""
    gripper_scale: float
    """Grippers' commands are multiplied with this."""

    def apply(self, info: DatagenInfo) -> None:
        """Convert a demo in place; an array that is shared with another one is left as it is."""
        into = poses.invert(self.frame)
        for group in (info.eef_pose, info.object_poses, info.target_eef_pose):
            for name, pose in group.items():
                group[name] = poses.compose(into.expand(len(pose), 4, 4), pose.double()).float()
        for name, command in info.gripper_action.items():
            info.gripper_action[name] = command * self.gripper_scale


def conversion_of(frame: Sequence[float] | None, gripper_scale: float | None) -> Conversion | None:
    """The conversion that two keys of a pool ask for; None where neither is given.

    Args:
        frame: position (3), or position and wxyz quaternion (7), of the env's frame in that of the recording.
        gripper_scale: None is 1.

    Raises:
        SourceDemoError: a frame that is none.
    """
    if frame is None and gripper_scale is None:
        return None
    values = torch.tensor(list(frame if frame is not None else (0.0, 0.0, 0.0)), dtype=torch.float64)
    if values.shape[0] == 3:
        values = torch.cat((values, torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)))
    if values.shape[0] != 7 or not bool(torch.isfinite(values).all()) or float(values[3:].norm()) < 1e-6:
        raise SourceDemoError(
            f"pool.frame={list(frame or ())}: expected x, y, z, or these and a quaternion w, x, y, z that is not zero"
        )
    return Conversion(poses.pose_from_pos_quat(values[:3], values[3:]), 1.0 if gripper_scale is None else gripper_scale)
