"""The kinematic env's step and observations as tensor operations, for any device.

A step is one short, fixed list of elementwise operations on component-first rows (see `mimicpipe.envs.rows`), whatever
the number of slots; nothing waits for the device, and a slot's bits do not depend on the batch around it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe.envs import actions as act
from mimicpipe.envs import rows
from mimicpipe.envs.kinematic_state import KinematicState


@dataclass(frozen=True)
class KinematicRules:
    """How slots move; the same for all of them."""

    control: str
    """"ik_rel" or "ik_abs"."""
    gain: float
    """Part of the way to its target that the eef goes in a step."""
    half_sizes: tuple[tuple[float, float, float], ...]
    """Half extents of each box, metres."""
    grasp_margin: float
    """How far outside a box the grasp point may lie when the fingers close on it, metres."""
    max_width: float
    """Width of the open gripper, metres."""
    gripper_gain: float
    """Part of the way to fully open or closed that the fingers go in a step."""
    fps: int
    """Control steps a second."""


class KinematicOps:
    """The operations on one device.

    Args:
        rules: how slots move.
        device: of the states.
    """

    def __init__(self, rules: KinematicRules, device: torch.device) -> None:
        self._control, self._gain = rules.control, rules.gain
        # Tensors; Python numbers would do for some, but each costs a conversion in each operation.
        half_size = torch.tensor(rules.half_sizes, device=device)
        self._half_size = half_size[:, None, :, None]  # (M, 1, 3, 1), along the columns of a rotation
        self._reach = half_size[:, :, None] + rules.grasp_margin  # (M, 3, 1)
        self._box_width = 2.0 * half_size[:, :2].amin(dim=1, keepdim=True)  # (M, 1)
        self._home_signs = torch.tensor([1.0, -1.0, -1.0], device=device)[:, None]
        numbers = [0.0, rules.fps, 1.0 - rules.gripper_gain, rules.max_width * rules.gripper_gain]
        self._zero, self._rate, self._width_decay, self._width_gain = torch.tensor(numbers, device=device)

    def advance(self, state: KinematicState, actions: Tensor) -> None:
        """One step of all slots of `state`, in place; actions (K, A)."""
        command = actions.t().contiguous()
        closing = command[-1] < self._zero
        carried = torch.logical_and(state.held, closing)
        before = state.object_pos.clone()
        self._move(state, act.motion_rows(self._control, state.eef_rot, state.eef_pos, command, self._gain), carried)
        held = self._grip(state, closing, carried)
        torch.where(held, state.object_height, self._resting_height(state), out=state.object_height)
        x, y, z = (state.object_pos - before).unbind(1)
        torch.mul(torch.hypot(torch.hypot(x, y), z), self._rate, out=state.speed)

    def _move(self, state: KinematicState, motion: Tensor, carried: Tensor) -> None:
        """Turn and shift the eef, and with it the objects `carried` (M, K), by `motion` (6, K)."""
        target = state.eef_pos + motion[:3]
        turn_x, turn_y, turn_z = rows.matrix_from_axis_angle(motion[3:]).view(1, 3, 3, 1, -1).unbind(2)
        row_x, row_y, row_z = state.frame_rows
        moved = turn_x * row_x + turn_y * row_y + turn_z * row_z  # [R | p] turned about the origin
        moved_pos = moved[:, :, 3]
        moved_pos += target - moved_pos[0]
        follows = torch.cat((state.always, carried))
        torch.where(follows.view(-1, 1, 1, follows.shape[1]), moved, state.frames, out=state.frames)
        state.eef_pos.copy_(target)  # without the rounding of the sum above

    def _grip(self, state: KinematicState, closing: Tensor, carried: Tensor) -> Tensor:
        """Move the fingers; (M, K) bool objects that are held then.

        An object is taken by the step in which the fingers reach its width with the grasp point inside it: fingers that
        are closed already, or on another object, take nothing.
        """
        decayed = state.width * self._width_decay
        width = torch.where(closing, decayed, decayed + self._width_gain)
        reached = (state.width > self._box_width) & (width <= self._box_width)
        x, y, z = ((state.eef_pos - state.object_pos).unsqueeze(2) * state.object_rot).unbind(1)
        in_x, in_y, in_z = ((x + y + z).abs() <= self._reach).unbind(1)
        held = carried | (reached & in_x & in_y & in_z)
        state.held.copy_(held)
        torch.maximum(width, (state.held * self._box_width).amax(dim=0), out=state.width)
        return held

    def _resting_height(self, state: KinematicState) -> Tensor:
        """Heights (M, K) of the objects' centres when they lie on whatever is below them.

        A box bears another one whose centre is above its own and over its axis-aligned outline.
        """
        if state.held.shape[0] == 1:
            x, y, z = (state.object_up.abs() * self._half_size[:, 0]).unbind(1)
            return x + y + z
        x, y, z = (state.object_rot.abs() * self._half_size).unbind(2)
        extent = x + y + z  # (M, 3, K) half sides of the outlines
        x, y, z = (state.object_pos.unsqueeze(1) - state.object_pos).unbind(2)  # (M, M, K): of object i from object j
        extent_x, extent_y, extent_z = extent.unbind(1)
        bears = (x.abs() <= extent_x) & (y.abs() <= extent_y) & (z > self._zero)
        top = (state.object_height + extent_z) * bears
        return extent_z + top.amax(dim=1)

    def observe(self, state: KinematicState) -> dict[str, Tensor]:
        """The observations' rows {feature: (C, K)}; quaternions are wxyz."""
        rot = state.bodies[:, :3, :3].permute(1, 2, 0, 3).contiguous()  # (3, 3, M + 1, K)
        rot[:, :, 0] *= self._home_signs
        quat = rows.quat_from_matrix(rot.view(3, 3, -1)).view(4, rot.shape[2], -1)
        relative, objects = quat[:, 0], quat[:, 1:]
        w, x, y, z = relative.unbind(0)
        # relative * (0, 1, 0, 0), the home rotation: its sign is steady at any yaw, where w >= 0 would flip it.
        eef_pose = torch.cat((state.eef_pos, torch.stack((-x, w, z, -y))))
        object_poses = torch.cat((state.object_pos, objects.transpose(0, 1)), dim=1)
        turned = rows.axis_angle_from_quat(relative)
        return {
            "observation.state": torch.cat((state.eef_pos, turned, state.width.unsqueeze(0))),
            "observation.eef_pose": eef_pose,
            "observation.environment_state": object_poses.flatten(0, 1),
        }
