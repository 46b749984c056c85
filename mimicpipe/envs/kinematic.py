"""An env without physics: the eef goes where it is told, a gripper that closes around a box carries it.

For orchestration benchmarks and tests that need thousands of episodes in a second. On a CPU a step is one compiled loop
(`kinematic_kernels`), which runs in the background where there are slots enough to gain by it; on other devices it is a
fixed list of tensor operations (`kinematic_ops`). A slot's bits do not depend on the batch around it.

What it leaves out: contact. Fingers and carried boxes pass through others, and a released box keeps its tilt.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.envs import actions as act
from mimicpipe.envs import kinematic_kernels as kernels
from mimicpipe.envs import rows
from mimicpipe.envs.background import BackgroundThread
from mimicpipe.envs.base import Feature, MimicEnv, require_known
from mimicpipe.envs.kinematic_ops import KinematicOps, KinematicRules
from mimicpipe.envs.kinematic_state import KinematicState
from mimicpipe.envs.kinematic_stretch import KinematicStretch
from mimicpipe.envs.tasks.base import Task, TaskView
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.protocol import Stretch, Waypoints
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

_BACKGROUND_ENVS = 256
"""With fewer slots a step takes less time than to hand it to another thread."""
_ROWS_OF_A_STRETCH = 32768
_STEPS_OF_A_STRETCH = (16, 64)
"""A stretch takes so many control steps that this many rows come together, within these bounds."""
_SCALE = np.repeat([act.POSITION_SCALE, act.ROTATION_SCALE], act.NOISE_DIM // 2)
_NO_NOISE = np.zeros((0, 0), dtype=np.float32)


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
        half_sizes = tuple(box.half_size for box in task.objects)
        self._rules = KinematicRules(control, 1.0 - lag, half_sizes, _GRASP_MARGIN, MAX_WIDTH, _GRIPPER_GAIN, _FPS)
        # In the order in which the compiled loops take them.
        self._numbers = (
            self._rules.gain, np.asarray(half_sizes, dtype=np.float64), _GRASP_MARGIN, MAX_WIDTH, _GRIPPER_GAIN,
            float(_FPS),
        )  # fmt: skip
        self._slots = np.arange(num_envs)
        self._compiled = self.device.type == "cpu"
        self.steps_in_background = self._compiled and num_envs >= _BACKGROUND_ENVS
        self._thread = BackgroundThread("mimicpipe-kinematic") if self.steps_in_background else None
        if type(self) is KinematicEnv and self._compiled and control == "ik_rel":
            # A class made of this one may look at every step, or change it.
            fewest, most = _STEPS_OF_A_STRETCH
            self.longest_stretch = min(max(_ROWS_OF_A_STRETCH // num_envs, fewest), most)
        with torch.inference_mode():
            self._ops = KinematicOps(self._rules, self.device)
            self._home = torch.tensor(HOME_POSITION, device=self.device)[:, None]
            self._home_signs = torch.tensor([1.0, -1.0, -1.0], device=self.device)  # the diagonal of the home rotation
            shape = len(half_sizes), num_envs, self.device
            self._state = KinematicState.empty(*shape, by_slot=self._compiled)
            self._view = self._look(self._state)
            # A step in the background writes its result here, while the state before it is shown.
            self._next = KinematicState.empty(*shape, by_slot=self._compiled)
            self._next_view = self._look(self._next)
        # A defined state before the first reset, which the caller makes with the attempts' own seeds.
        self.reset(self.all_ids(), np.arange(num_envs))

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
        return [poses[name].to(self.device, torch.float32, non_blocking=True) for name in self.object_names]

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance one control step of 1/20 s; see `MimicEnv.step`.

        Raises:
            ValueError: `actions` is not (num_envs, action_dim).
        """
        self.start_step(actions, env_ids)()

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        """Begin such a step; see `MimicEnv.start_step`.

        Raises: as `step`; and RuntimeError while an earlier step in the background has not ended.
        """
        if actions.shape != (self.num_envs, self.action_dim):
            raise ValueError(f"actions must be {(self.num_envs, self.action_dim)}, got {tuple(actions.shape)}")
        if not self._compiled:
            return partial(self._step_by_ops, actions, env_ids)
        slots = self._slots if env_ids is None else env_ids.numpy()
        step = partial(self._step_compiled, np.array(actions.numpy(), dtype=np.float32, order="C"), slots)
        end = step if self._thread is None else self._thread.start(step)

        def finish() -> None:
            end()
            if len(slots) < self.num_envs:
                moved = np.zeros(self.num_envs, dtype=np.bool_)
                moved[slots] = True
                kernels.carry_over(self._state.by_slot, self._next.by_slot, moved)
            self._state, self._next = self._next, self._state
            self._view, self._next_view = self._next_view, self._view

        return finish

    def _step_compiled(self, actions: npt.NDArray[np.float32], slots: npt.NDArray[np.int64]) -> None:
        before, after = self._state.by_slot, self._next.by_slot
        kernels.step(before, after, slots, actions, self.control == "ik_rel", _SCALE, *self._numbers)

    def start_stretch(
        self,
        slots: npt.NDArray[np.int64],
        sizes: Sequence[int],
        waypoints: Callable[[], Waypoints],
    ) -> Callable[[], Stretch]:
        """Begin several control steps; see `MimicEnv.start_stretch`."""
        eef = self.eef_names[0]

        def play(states: kernels.Singles, sizes: kernels.Ints, actions: kernels.Singles) -> None:
            given = waypoints()
            targets, grippers = given.targets[eef].numpy(), given.grippers[eef].numpy()
            noise = _NO_NOISE if given.noise is None else given.noise[eef].numpy()
            kernels.play(states, sizes, targets, grippers, noise, actions, _SCALE, *self._numbers)

        stretch = KinematicStretch(self._state.by_slot[slots], sizes, self.action_dim, play, self._succeeds, self._seen)
        end = stretch.run if self._thread is None else self._thread.start(stretch.run)

        def finish() -> Stretch:
            end()
            self._state.by_slot[slots] = stretch.final
            return stretch

        return finish

    @torch.inference_mode()
    def _step_by_ops(self, actions: Tensor, env_ids: Tensor | None) -> None:
        # Slots to step are sorted and unique, so as many as there are means all.
        if env_ids is None or env_ids.shape[0] == self.num_envs:
            self._ops.advance(self._state, actions)
            return
        part = self._state.gather(env_ids)
        self._ops.advance(part, actions.index_select(0, env_ids))
        self._state.scatter(part, env_ids)

    def close(self) -> None:
        """End the thread of steps in the background; safe to call twice."""
        if self._thread is not None:
            self._thread.close()

    # -- what the pipeline and generators see

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Observations {feature: (K, *shape)} float32; quaternions are wxyz."""
        return self._seen(self._pick(env_ids))

    def _seen(self, state: KinematicState) -> dict[str, Tensor]:
        with torch.inference_mode():
            features = self._ops.observe(state)
        return {name: _columns(values) for name, values in features.items()}

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
        if self._compiled and self.control == "ik_rel":
            out = torch.empty(target_eef_pose[eef].shape[0], self.action_dim)
            kernels.relative_actions(
                self._state.by_slot,
                self._slots if env_ids is None else env_ids.numpy(),
                target_eef_pose[eef].numpy(),
                gripper_action[eef].numpy(),
                _NO_NOISE if noise is None else noise.numpy(),
                _SCALE,
                out.numpy(),
            )
            return out
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

    def faults_of_actions(self, actions: Tensor) -> dict[int, str]:
        """{row: what is wrong with it} of actions (K, A): a quaternion without length."""
        return act.faults(self.control, actions)

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., 1)} of actions (..., A)."""
        return {self.eef_names[0]: act.gripper_part(actions)}

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """The task's signals {signal: (K,) bool}."""
        with torch.inference_mode():
            view = self._view if env_ids is None else self._look(self._pick(env_ids))
            signals = self.task.subtask_term_signals(view)
        return {name: signal.clone() for name, signal in signals.items()}

    def get_subtask_start_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """The task's start signals {signal: (K,) bool}."""
        with torch.inference_mode():
            view = self._view if env_ids is None else self._look(self._pick(env_ids))
            signals = self.task.subtask_start_signals(view)
        return {name: signal.clone() for name, signal in signals.items()}

    def success(self) -> Tensor:
        """(N,) bool: the task's success condition at this instant."""
        with torch.inference_mode():
            success = self.task.success(self._view)
        return success.clone()

    def _succeeds(self, state: KinematicState) -> Tensor:
        return self.task.success(self._look(state))

    def finite(self, env_ids: Tensor | None = None) -> Tensor:
        """(K,) bool: the slot's state has no NaN or infinity."""
        if self._compiled:
            states = self._state.by_slot if env_ids is None else self._state.by_slot[env_ids.numpy()]
            return torch.from_numpy(np.isfinite(states).all(axis=1))
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
