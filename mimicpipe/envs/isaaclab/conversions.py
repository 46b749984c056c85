"""Poses to actions and back for an Isaac Lab env: batched formulas where they are right, else its own method.

Isaac Lab's method converts one slot at a time. Which columns of an action are whose, and by which formula they come
about, is found out at the start by asking that method for random poses:

* ``ik_rel``, 6 pose columns: position change, rotation change as an axis-angle vector, target = change * current;
* ``ik_abs``, 7: position, xyzw quaternion.

Noise is added to the pose columns; with it, changes are clipped to [-1, 1], as Isaac Lab's Franka env does.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from mimicpipe import poses

_log = logging.getLogger("mimicpipe")

Layout = Literal["ik_rel", "ik_abs", "own"]

_NUM_POSES = 16
"""Random poses that a formula is compared on."""
_TOLERANCE = 1e-5
"""Largest difference that is rounding: metres, radians or quaternion parts of a size near 1, in float32."""
_SHIFT, _TURN = 0.2, 2.0
"""Largest change along an axis of the random poses: metres; radians (below pi, where axis-angle vectors jump)."""


@dataclass(frozen=True)
class _EefColumns:
    """Columns of one end effector in an action."""

    pose: list[int]
    gripper: list[int]


class Conversions:
    """Conversions of one env, chosen at its start.

    Args:
        env: a `ManagerBasedRLMimicEnv` that has been reset.
        eef_names: its end effectors.
    """

    def __init__(self, env: Any, eef_names: Sequence[str]) -> None:
        self._env = env
        self._eefs = tuple(eef_names)
        self.action_dim = int(env.action_manager.total_action_dim)
        self._columns = self._find_columns()
        self.noise_dim = max(len(columns.pose) for columns in self._columns.values())
        self.gripper_dim = max(len(columns.gripper) for columns in self._columns.values())
        self.layout: Layout = self._choose()

    # -- finding out -----------------------------------------------------------------------------------------------

    def _find_columns(self) -> dict[str, _EefColumns]:
        numbers = torch.arange(self.action_dim, dtype=torch.float32, device=self._env.device)
        parts = self._env.actions_to_gripper_actions(numbers[None])
        grippers = {eef: [int(v) for v in parts[eef].flatten().tolist()] for eef in self._eefs}
        current = self.current(None)
        still = {eef: pose[0] for eef, pose in current.items()}
        zeros = {eef: torch.zeros(len(grippers[eef]), device=self._env.device) for eef in self._eefs}
        base = self._own_one(still, zeros, 0)
        found = {}
        for eef in self._eefs:
            changed = torch.zeros(self.action_dim, dtype=torch.bool, device=self._env.device)
            for target in _random_targets(current[eef][:1].expand(_NUM_POSES, 4, 4)):
                changed |= self._own_one({**still, eef: target}, zeros, 0) != base
            found[eef] = _EefColumns(changed.nonzero().flatten().tolist(), grippers[eef])
        return found

    def _choose(self) -> Layout:
        widths = {len(columns.pose) for columns in self._columns.values()}
        names: dict[frozenset[int], Layout] = {frozenset({6}): "ik_rel", frozenset({7}): "ik_abs"}
        candidate = names.get(frozenset(widths))
        if candidate is not None and self._agrees(candidate):
            return candidate
        began = time.perf_counter()
        targets = self.current(None)
        grippers = {eef: targets[eef].new_zeros(self._env.num_envs, len(self._columns[eef].gripper)) for eef in targets}
        self._own(targets, grippers, range(self._env.num_envs))
        cost_ms = 1e3 * (time.perf_counter() - began) / self._env.num_envs
        _log.warning(
            "env=isaaclab: this env's target_eef_pose_to_action is neither of the layouts ik_rel and ik_abs, so it is "
            "called for one slot at a time: %.2f ms per slot and step",
            cost_ms,
        )
        return "own"

    def _agrees(self, layout: Layout) -> bool:
        """Whether a formula gives what the env's own method gives, on random poses and gripper actions."""
        slots = [number % self._env.num_envs for number in range(_NUM_POSES)]
        ids = torch.tensor(slots, device=self._env.device)
        current = self.current(ids)
        targets = {eef: _random_targets(pose, seed) for seed, (eef, pose) in enumerate(current.items())}
        steps = torch.linspace(-1.0, 1.0, _NUM_POSES, device=ids.device)[:, None]
        grippers = {eef: steps.repeat(1, len(columns.gripper)) for eef, columns in self._columns.items()}
        ours = self._batched(layout, current, targets, grippers, None)
        own = self._own(targets, grippers, slots)
        if layout == "ik_abs":  # q and -q are one rotation
            for columns in self._columns.values():
                quat = columns.pose[3:]
                flip = (ours[:, quat] * own[:, quat]).sum(dim=1, keepdim=True) < 0
                own[:, quat] = torch.where(flip, -own[:, quat], own[:, quat])
        return bool((ours - own).abs().max() <= _TOLERANCE)

    # -- use -------------------------------------------------------------------------------------------------------

    def current(self, ids: Tensor | None) -> dict[str, Tensor]:
        """{eef: pose (K, 4, 4)}."""
        current = {eef: self._env.get_robot_eef_pose(eef) for eef in self._eefs}
        return current if ids is None else {eef: pose.index_select(0, ids) for eef, pose in current.items()}

    def actions(
        self,
        targets: Mapping[str, Tensor],
        grippers: Mapping[str, Tensor],
        noise: Mapping[str, Tensor] | None,
        ids: Tensor | None,
    ) -> Tensor:
        """Actions (K, A); arguments as of `MimicEnv.target_eef_pose_to_action`."""
        if self.layout != "own":
            return self._batched(self.layout, self.current(ids), targets, grippers, noise)
        slots = range(self._env.num_envs) if ids is None else ids.tolist()
        actions = self._own(targets, grippers, slots)
        for eef, shift in (noise or {}).items():
            pose = self._columns[eef].pose
            actions[:, pose] += shift[:, : len(pose)]
        return actions

    def targets(self, actions: Tensor, ids: Tensor | None) -> dict[str, Tensor]:
        """Target poses {eef: (K, 4, 4)} that actions (K, A) ask for."""
        if self.layout == "own":
            rows = slice(None) if ids is None else ids
            full = actions.new_zeros(self._env.num_envs, self.action_dim)
            full[rows] = actions
            return {eef: pose[rows].clone() for eef, pose in self._env.action_to_target_eef_pose(full).items()}
        current = self.current(ids)
        found = {}
        for eef, columns in self._columns.items():
            pose = actions[:, columns.pose]
            if self.layout == "ik_abs":
                found[eef] = poses.pose_from_pos_quat(pose[:, :3], pose[:, 3:].roll(1, dims=-1))
            else:
                turn = poses.matrix_from_axis_angle(pose[:, 3:].contiguous())
                rot = poses.compose_rotations(turn, current[eef][:, :3, :3])
                found[eef] = poses.make_pose(current[eef][:, :3, 3] + pose[:, :3], rot)
        return found

    def grippers(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., G)} of actions (..., A)."""
        return {eef: actions[..., columns.gripper] for eef, columns in self._columns.items()}

    # -- the two ways ----------------------------------------------------------------------------------------------

    def _batched(
        self,
        layout: Layout,
        current: Mapping[str, Tensor],
        targets: Mapping[str, Tensor],
        grippers: Mapping[str, Tensor],
        noise: Mapping[str, Tensor] | None,
    ) -> Tensor:
        rows = next(iter(targets.values())).shape[0]
        actions = torch.zeros(rows, self.action_dim, device=self._env.device)
        for eef, columns in self._columns.items():
            pose = _pose_action(layout, current[eef], targets[eef])
            if noise is not None:
                pose = pose + noise[eef]
                pose = pose.clamp(-1.0, 1.0) if layout == "ik_rel" else pose
            actions[:, columns.pose] = pose
            actions[:, columns.gripper] = grippers[eef]
        return actions

    def _own(self, targets: Mapping[str, Tensor], grippers: Mapping[str, Tensor], slots: Sequence[int]) -> Tensor:
        rows = [
            self._own_one({e: p[row] for e, p in targets.items()}, {e: g[row] for e, g in grippers.items()}, slot)
            for row, slot in enumerate(slots)
        ]
        return torch.stack(rows)

    def _own_one(self, targets: Mapping[str, Tensor], grippers: Mapping[str, Tensor], slot: int) -> Tensor:
        """(A,); some envs give (1, A)."""
        return self._env.target_eef_pose_to_action(dict(targets), dict(grippers), None, env_id=slot).flatten()


def _pose_action(layout: Layout, current: Tensor, target: Tensor) -> Tensor:
    """Pose columns (K, 6 or 7) that lead from current to target poses (K, 4, 4)."""
    if layout == "ik_abs":
        quat = poses.quat_from_matrix(target[:, :3, :3]).roll(-1, dims=-1)
        return torch.cat((target[:, :3, 3], quat), dim=1)
    turn = poses.compose_rotations(target[:, :3, :3], current[:, :3, :3].transpose(1, 2))
    return torch.cat((target[:, :3, 3] - current[:, :3, 3], poses.axis_angle_from_matrix(turn)), dim=1)


def _random_targets(current: Tensor, seed: int = 0) -> Tensor:
    """Poses (K, 4, 4) around the current ones, in no global generator's order."""
    generator = torch.Generator().manual_seed(seed)
    draws = 2.0 * torch.rand(current.shape[0], 6, generator=generator).to(current.device) - 1.0
    rot = poses.matrix_from_axis_angle(draws[:, 3:].contiguous() * (_TURN / 3**0.5))
    moved = poses.compose_rotations(rot, current[:, :3, :3])
    return poses.make_pose(current[:, :3, 3] + _SHIFT * draws[:, :3], moved)
