"""An env without physics: the eef goes where it is told, a gripper that closes around a box carries it.

For orchestration benchmarks and tests that need thousands of episodes in a second. A step is one short, fixed list of
elementwise tensor operations on component-first rows (see mimicpipe.envs.rows), whatever the number of slots; nothing
waits for the device, and a slot's bits do not depend on the batch around it.

What it leaves out: contact. Fingers and carried boxes pass through others, and a released box keeps its tilt.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mimicpipe.envs import actions as act
from mimicpipe.envs import rows
from mimicpipe.envs.base import Feature, MimicEnv, require_known
from mimicpipe.envs.kinematic_state import KinematicState
from mimicpipe.envs.tasks.base import Task, TaskView
from mimicpipe.errors import ConfigError
from mimicpipe.rng import Seeds

HOME_POSITION = (0.46, 0.0, 0.25)
"""Eef position after a reset, metres; its rotation is diag(1, -1, -1): approach axis down, fingers along y."""

MAX_WIDTH = 0.08
"""Width of the open gripper, metres (the Franka Hand's)."""

_GRIPPER_GAIN = 0.4
"""Part of the way to fully open or closed that the fingers go in a step: two steps to a 4 cm box."""

_GRASP_MARGIN = 0.004
"""How far outside a box the grasp point may lie when the fingers close on it, metres."""

_FPS = 20


class KinematicEnv(MimicEnv):
    """N slots of one task, without physics.

    Args:
        task: objects, reset distribution, success and signals; with exactly one eef.
        num_envs: slots, 1 or more.
        device: torch device of every tensor.
        lag: part of the eef's way that is left after a step, in [0, 1); 0 arrives at once.
        control: "ik_rel" or "ik_abs", see mimicpipe.envs.actions.
        cameras: must be empty; there is nothing to render.

    Raises:
        ConfigError: an argument out of its range, a camera, or a CUDA device where there is none.
    """

    fps = _FPS
    noise_dim = act.NOISE_DIM
    gripper_dim = act.GRIPPER_DIM

    def __init__(
        self,
        task: Task,
        num_envs: int,
        device: str | torch.device = "cpu",
        lag: float = 0.0,
        control: str = "ik_rel",
        cameras: Sequence[str] = (),
    ) -> None:
        self.device = _check(task, num_envs, device, lag, cameras)
        self.task = task
        self.num_envs = num_envs
        self.control = act.check_control(control)
        self.action_dim = act.action_dim(control)
        self.action_feature = act.action_feature(control)
        self.eef_names = tuple(task.eef_names)
        self.object_names = tuple(box.name for box in task.objects)
        self.task_description = task.description
        self.observation_features = _observation_features(self.object_names)
        self._gain = 1.0 - lag
        with torch.inference_mode():
            self._make_constants()
            self._state = KinematicState.empty(len(self.object_names), num_envs, self.device)
            self._view = self._look(self._state)
        # A defined state before the first reset, which the caller makes with the attempts' own seeds.
        self.reset(self.all_ids(), np.arange(num_envs))

    def _make_constants(self) -> None:
        """Tensors that steps use; Python numbers would do for some, but each costs a conversion in each operation."""
        half_size = torch.tensor([box.half_size for box in self.task.objects], device=self.device)
        self._half_size = half_size[:, None, :, None]  # (M, 1, 3, 1), along the columns of a rotation
        self._reach = half_size[:, :, None] + _GRASP_MARGIN  # (M, 3, 1)
        self._box_width = 2.0 * half_size[:, :2].amin(dim=1, keepdim=True)  # (M, 1)
        self._home = torch.tensor(HOME_POSITION, device=self.device)[:, None]
        self._home_signs = torch.tensor([1.0, -1.0, -1.0], device=self.device)  # the diagonal of the home rotation
        self._zero, self._rate, self._width_decay, self._width_gain = torch.tensor(
            [0.0, _FPS, 1.0 - _GRIPPER_GAIN, MAX_WIDTH * _GRIPPER_GAIN], device=self.device
        )

    # -- time

    @torch.inference_mode()
    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Slots `env_ids` (K,): eef at home, gripper open, objects drawn from `seeds` (K,)."""
        fresh = KinematicState.empty(len(self.object_names), len(seeds), self.device)
        fresh.eef_pos.copy_(self._home.expand_as(fresh.eef_pos))
        fresh.eef_rot.diagonal().copy_(self._home_signs)
        fresh.width.fill_(MAX_WIDTH)
        for body, pose in zip(fresh.bodies[1:], self._sample(seeds), strict=True):
            body.copy_(pose.permute(1, 2, 0))
        self._state.scatter(fresh, env_ids)

    def _sample(self, seeds: Seeds) -> list[Tensor]:
        poses = self.task.sample_object_poses(seeds)
        return [poses[name].to(self.device, torch.float32) for name in self.object_names]

    @torch.inference_mode()
    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance one control step of 1/20 s; see `MimicEnv.step`.

        Raises:
            ValueError: `actions` is not (num_envs, action_dim).
        """
        if actions.shape != (self.num_envs, self.action_dim):
            raise ValueError(f"actions must be {(self.num_envs, self.action_dim)}, got {tuple(actions.shape)}")
        # Slots to step are sorted and unique, so as many as there are means all.
        if env_ids is not None and env_ids.shape[0] != self.num_envs:
            part = self._state.gather(env_ids)
            self._advance(part, actions.index_select(0, env_ids))
            self._state.scatter(part, env_ids)
        else:
            self._advance(self._state, actions)

    def _advance(self, state: KinematicState, actions: Tensor) -> None:
        """One step of all slots of `state`, in place; actions (K, A)."""
        command = actions.t().contiguous()
        closing = command[-1] < self._zero
        carried = torch.logical_and(state.held, closing)
        before = state.object_pos.clone()
        self._move(state, act.motion_rows(self.control, state.eef_rot, state.eef_pos, command, self._gain), carried)
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
        if len(self.object_names) == 1:
            x, y, z = (state.object_up.abs() * self._half_size[:, 0]).unbind(1)
            return x + y + z
        x, y, z = (state.object_rot.abs() * self._half_size).unbind(2)
        extent = x + y + z  # (M, 3, K) half sides of the outlines
        x, y, z = (state.object_pos.unsqueeze(1) - state.object_pos).unbind(2)  # (M, M, K): of object i from object j
        extent_x, extent_y, extent_z = extent.unbind(1)
        bears = (x.abs() <= extent_x) & (y.abs() <= extent_y) & (z > self._zero)
        top = (state.object_height + extent_z) * bears
        return extent_z + top.amax(dim=1)

    # -- what the pipeline and generators see

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Observations {feature: (K, *shape)} float32; quaternions are wxyz."""
        with torch.inference_mode():
            features = self._observe(self._pick(env_ids))
        return {name: _columns(values) for name, values in features.items()}

    def _observe(self, state: KinematicState) -> dict[str, Tensor]:
        """The observations' rows {feature: (C, K)}."""
        rot = state.bodies[:, :3, :3].permute(1, 2, 0, 3).contiguous()  # (3, 3, M + 1, K)
        rot[:, :, 0] *= self._home_signs[:, None]
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

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        """Pose (K, 4, 4) of the eef: origin at the grasp point, z the approach axis, y from finger to finger."""
        require_known("eef", eef_name, self.eef_names)
        return self._poses(0, env_ids)

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object: (K, 4, 4)} of the boxes' centres."""
        return {name: self._poses(body, env_ids) for body, name in enumerate(self.object_names, start=1)}

    def _poses(self, body: int, env_ids: Tensor | None) -> Tensor:
        rows_of_body = self._state.bodies[body]
        if env_ids is not None:
            rows_of_body = rows_of_body.index_select(2, env_ids)
        return rows_of_body.permute(2, 0, 1).clone(memory_format=torch.contiguous_format)

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        """Actions (K, A) that lead from the current state to the targets; see `MimicEnv`."""
        eef = self.eef_names[0]
        noise = action_noise.get(eef) if action_noise else None
        with torch.inference_mode():
            state = self._pick(env_ids)
            actions = act.action_rows(
                self.control,
                state.eef_rot,
                state.eef_pos,
                *rows.from_poses(target_eef_pose[eef]),
                gripper_action[eef].t(),
                None if noise is None else noise.t(),
            )
        return _columns(actions)

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Target poses {eef: (K, 4, 4)} that actions (K, A) ask for."""
        state = self._pick(env_ids)
        command = actions.t().contiguous()
        return {self.eef_names[0]: rows.to_poses(*act.target_rows(self.control, state.eef_rot, state.eef_pos, command))}

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., 1)} of actions (..., A)."""
        return {self.eef_names[0]: act.gripper_part(actions)}

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """The task's signals {signal: (K,) bool}."""
        with torch.inference_mode():
            view = self._view if env_ids is None else self._look(self._pick(env_ids))
            signals = self.task.subtask_term_signals(view)
        return {name: signal.clone() for name, signal in signals.items()}

    def success(self) -> Tensor:
        """(N,) bool: the task's success condition at this instant."""
        with torch.inference_mode():
            success = self.task.success(self._view)
        return success.clone()

    def finite(self, env_ids: Tensor | None = None) -> Tensor:
        """(K,) bool: the slot's state has no NaN or infinity."""
        return torch.isfinite(self._pick(env_ids).data).all(dim=0)

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """Complete state (K, S) float64, every float32 of it exactly."""
        return _columns(self._pick(env_ids).data).double()

    @torch.inference_mode()
    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Restore states (K, S) from `get_state`."""
        data = state.to(self.device, torch.float32).t()
        if env_ids is None:
            self._state.data.copy_(data)
        else:
            self._state.data.index_copy_(1, env_ids, data)

    # -- views

    def _pick(self, env_ids: Tensor | None) -> KinematicState:
        return self._state if env_ids is None else self._state.gather(env_ids)

    def _look(self, state: KinematicState) -> TaskView:
        """What the task may see of `state`: views, nothing is copied."""
        poses = state.bodies.permute(0, 3, 1, 2)
        return TaskView(
            object_poses=dict(zip(self.object_names, poses[1:], strict=True)),
            object_speeds=dict(zip(self.object_names, state.speed, strict=True)),
            eef_poses={self.eef_names[0]: poses[0]},
            gripper_widths={self.eef_names[0]: state.width},
        )


def _columns(component_rows: Tensor) -> Tensor:
    """(N, C), a contiguous copy of rows (C, N).

    The state lives in inference mode, which spares each operation a fifth of its cost but marks its results; this copy,
    made outside of it, is an ordinary tensor.
    """
    return component_rows.t().clone(memory_format=torch.contiguous_format)


def _observation_features(object_names: Sequence[str]) -> dict[str, Feature]:
    """Features of `KinematicEnv.observe`; quaternions are wxyz, rx ry rz is the axis-angle from the home rotation."""
    pose = ("x", "y", "z", "qw", "qx", "qy", "qz")
    objects = tuple(f"{name}_{axis}" for name in object_names for axis in pose)
    state = ("x", "y", "z", "rx", "ry", "rz", "gripper_width")
    return {
        "observation.state": Feature("float32", (len(state),), state),
        "observation.eef_pose": Feature("float32", (len(pose),), pose),
        "observation.environment_state": Feature("float32", (len(objects),), objects),
    }


def _check(task: Task, num_envs: int, device: str | torch.device, lag: float, cameras: Sequence[str]) -> torch.device:
    """Refuse arguments that cannot work; the usable device, with its index."""
    if len(task.eef_names) != 1:
        raise ConfigError(
            f"env=kinematic moves one eef; task {task.name} has {', '.join(task.eef_names)}. Use env=mujoco"
        )
    if num_envs < 1:
        raise ConfigError(f"env.num_envs={num_envs}: it must be 1 or more")
    if not 0.0 <= lag < 1.0:
        raise ConfigError(f"env.lag={lag}: it must be in [0, 1)")
    if cameras:
        raise ConfigError(
            f"env.cameras={list(cameras)}: env=kinematic renders nothing; set env.cameras=[] or env=mujoco"
        )
    usable = torch.device(device)
    if usable.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"env.device={device}: torch finds no CUDA device here; set env.device=cpu")
    return usable
