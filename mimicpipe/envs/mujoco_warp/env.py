"""`env=mujoco_warp`: N slots of one scene of `env=mujoco`, all of it on one device.

States are rows (N, S + 7 F) of float32: time, qpos, qvel, poses of fixtures. A control step is, on the caller's stream,
IK of all slots in one launch for each arm, and one of `store` and `look` each behind the physics, which is one graph on
a stream of its own. The number of launches does not depend on N; nothing is copied to the host but two numbers, which
are looked at a step later.

What is exact: everything here is one thread a slot, or an elementwise operation of torch. MuJoCo-Warp's physics gives a
slot the same bits in any batch on the CPU. On a GPU it lists contacts in the order in which threads find them, so sums
over a slot's contacts may differ in their last bits from run to run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import warp as wp
from torch import Tensor

from mimicpipe.envs.actions import (
    GRIPPER_DIM,
    NOISE_DIM,
    action_dim,
    action_feature,
    check_control,
    faults,
    gripper_part,
)
from mimicpipe.envs.base import MimicEnv, require_known
from mimicpipe.envs.mujoco.arms import arms_of
from mimicpipe.envs.mujoco.checks import check_config, torch_device
from mimicpipe.envs.mujoco.initial import InitialStates
from mimicpipe.envs.mujoco.observations import observation_features
from mimicpipe.envs.mujoco.render import StateRenderer
from mimicpipe.envs.mujoco.scene import FRONT, SUBSTEPS, TIMESTEP, build_model, camera_names
from mimicpipe.envs.mujoco.servos import DIVERGED
from mimicpipe.envs.mujoco_warp import ik_kernels
from mimicpipe.envs.mujoco_warp.device_model import arm_models, body_columns
from mimicpipe.envs.mujoco_warp.physics import WarpPhysics
from mimicpipe.envs.mujoco_warp.render import BatchRenderer
from mimicpipe.envs.mujoco_warp.seen import Seen
from mimicpipe.envs.mujoco_warp.status import Status
from mimicpipe.envs.mujoco_warp.streams import CallerStream
from mimicpipe.envs.tasks.base import Task
from mimicpipe.rng import Seeds


class MujocoWarpEnv(MimicEnv):
    """N tables, each with a Franka Panda for each eef of one task, and with its objects; see `MujocoEnv`.

    Args:
        task: scene, arms, success and signals.
        num_envs: number of slots N >= 1.
        device: where everything is, "cuda:0" or, slowly, "cpu".
        cameras: any of "front", "wrist" (of two arms "<eef>_wrist"); adds `observation.images.<camera>`.
        image_size: (height, width) of the frames, pixels.
        control: "ik_rel" or "ik_abs", see `mimicpipe.envs.actions`.
        max_contacts: room for contacts, per slot on average.

    Raises:
        ConfigError: a value out of its range, or a camera or device this env or machine does not have.
    """

    fps = round(1.0 / (SUBSTEPS * TIMESTEP))
    noise_dim = NOISE_DIM
    gripper_dim = GRIPPER_DIM

    def __init__(
        self,
        task: Task,
        num_envs: int,
        device: str = "cuda:0",
        cameras: Sequence[str] = (),
        image_size: tuple[int, int] = (128, 128),
        control: str = "ik_rel",
        max_contacts: int = 64,
    ) -> None:
        check_config(num_envs, cameras, camera_names(task), image_size, None)
        self.task = task
        self.num_envs = num_envs
        self.device = torch_device(device)
        self.steps_in_background = self.device.type == "cuda"
        self.control = check_control(control)
        self.arms = arms_of(task, control)
        self.eef_names = tuple(arm.name for arm in self.arms)
        self.object_names = task.body_names
        self.task_description = task.description
        self.action_dim = action_dim(control) * len(self.arms)
        self.action_feature = action_feature(control, [arm.prefix for arm in self.arms])
        self.observation_features = observation_features(task, self.arms, cameras, image_size)
        self.model = build_model(task, image_size, prisms=True)
        self._initial = InitialStates(self.model, task, self.arms)
        self._build(max_contacts, cameras, image_size)

    def _build(self, max_contacts: int, cameras: Sequence[str], image_size: tuple[int, int]) -> None:
        """Everything on the device; compiles the kernels, which takes a minute the first time."""
        wp.config.log_level = wp.LOG_ERROR  # its banner, and a line for each module, belong on nobody's terminal
        wp.init()
        on, count = self.device, self.num_envs
        self._warp_device = wp.device_from_torch(on)
        frames, row = self._initial.frames, self._initial.row
        self._models = arm_models(self.arms, self.control, self._warp_device)
        columns = body_columns(frames, len(row), self._warp_device)
        self._seen = Seen(
            self.task, self.arms, self._models, frames, columns, count, len(row), DIVERGED, self.device
        )  # fmt: skip
        self._state = torch.zeros(count, len(row) + frames.fixture_width, device=on)
        self._active = torch.zeros(count, dtype=torch.int32, device=on)
        self._actions = torch.zeros(count, self.action_dim, device=on)
        self._slots = torch.arange(count, device=on)
        self._status = Status(on, max_contacts)
        self._running = False
        self._stream = CallerStream(on)
        self._no_noise = wp.zeros((0, 0), dtype=float, device=self._warp_device)
        self._diverged = wp.from_torch(self._seen.diverged)
        self._shared = {
            name: wp.from_torch(getattr(self, name)) for name in ("_state", "_active", "_actions", "_slots")
        }
        self.reset(self._slots, np.zeros(count, dtype=np.int64))
        sane = np.concatenate(self._initial.draw(np.zeros(1, dtype=np.int64)), axis=1)
        spare = wp.array(sane.astype(np.float32), dtype=float, device=self._warp_device)
        self.physics = WarpPhysics(self.model, count, on, SUBSTEPS, max_contacts, spare)
        self._ctrl = wp.from_torch(self.physics.ctrl)
        self._active.zero_()
        self._look()
        self._begin()()  # moves no slot, but loads a state into the physics
        self.physics.prepare()
        self._renderer = None
        if cameras:
            self._renderer = BatchRenderer(self.model, cameras, image_size, count, on, spare)
            self.observe()  # compiles it

    # -- state -------------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        """What was seen is of an earlier state."""
        self._fresh = False

    def _look(self) -> Seen:
        if not self._fresh:
            self._seen.look(self._shared["_state"], self._stream())
            self._fresh = True
        return self._seen

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Arms near the rest posture, gripper open, objects where the task puts them; all from `seeds` alone.

        The same draws as of `env=mujoco`, made on the host, which has the seeds, and written in one copy.
        """
        rows = np.concatenate(self._initial.draw(np.asarray(seeds)), axis=1)
        self._state.index_copy_(0, env_ids, self._to_device(rows))
        self._touch()

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """(K, S + 7 F) float64: time, qpos, qvel, then positions and wxyz quaternions of the task's F fixtures."""
        return (self._state if env_ids is None else self._state.index_select(0, env_ids)).double()

    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Restore states from `get_state`; those of `env=mujoco` are rounded to float32."""
        ids = self._slots if env_ids is None else env_ids
        self._state.index_copy_(0, ids, state.to(self.device, torch.float32))
        self._touch()

    def finite(self, env_ids: Tensor | None = None) -> Tensor:
        """(K,) bool: the slot's state has no NaN and no diverged number."""
        return self._chosen(self._look().diverged == 0, env_ids)

    # -- stepping ----------------------------------------------------------------------------------------------------

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance one control step (0.05 s) of all slots or of `env_ids`; see `MimicEnv.step`.

        Raises:
            ValueError: the shape is wrong, or an action asked for no finite motion in a slot that has not diverged.
            RuntimeError: a slot had more contacts than there is room for; or a step is still running.
        """
        self.start_step(actions, env_ids)()

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        """Begin such a step; see `MimicEnv.start_step`.

        Raises: as `step`; on a GPU what is wrong with actions and contacts is raised one or a few steps later.
        """
        if actions.shape != (self.num_envs, self.action_dim):
            raise ValueError(f"actions must be {(self.num_envs, self.action_dim)}, got {tuple(actions.shape)}")
        if self._running:
            raise RuntimeError("a step is still running; end it before the next")
        self._status.check()
        self._look()
        self._actions.copy_(actions)
        if env_ids is None:
            self._active.fill_(1)
        else:
            self._active.zero_().index_fill_(0, env_ids, 1)
        return self._begin()

    def _begin(self) -> Callable[[], None]:
        """Step the slots that `_active` marks by `_actions`."""
        shared = self._shared
        sources = [shared["_state"], self._diverged, shared["_actions"], shared["_active"]]
        for model in self._models:
            self._launch(ik_kernels.servo_targets, self.num_envs, [model, *sources, self._ctrl, self._status.words])
        if not self.steps_in_background:
            self._status.check()
        end_physics = self.physics.start(shared["_state"], shared["_active"], self._diverged, self._status.words)
        self._running = True

        def end() -> None:
            end_physics()
            self._running = False
            self._touch()
            if self.steps_in_background:
                self._status.ask()
            else:
                self._status.check()

        return end

    # -- kinematics --------------------------------------------------------------------------------------------------

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        """Pose (K, 4, 4) of the grasp point between the fingertips; z is the approach direction."""
        require_known("eef", eef_name, self.eef_names)
        return self._chosen(self._look().view.eef_poses[eef_name], env_ids)

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object, fixture or part: (K, 4, 4)} of the bodies' frames."""
        return {name: self._chosen(pose, env_ids) for name, pose in self._look().view.object_poses.items()}

    # -- actions -----------------------------------------------------------------------------------------------------

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        """Actions (K, A) that lead from the current state to the target poses; see `MimicEnv`."""
        ids = self._slots if env_ids is None else env_ids
        out = torch.empty(len(ids), self.action_dim, device=self.device)
        slots, actions = wp.from_torch(ids), wp.from_torch(out)
        for name, model in zip(self.eef_names, self._models, strict=True):
            noise = (action_noise or {}).get(name)
            given = self._no_noise if noise is None else wp.from_torch(noise)
            asked = [wp.from_torch(target_eef_pose[name]), wp.from_torch(gripper_action[name]), given]
            inputs = [model, self._shared["_state"], slots, *asked, int(noise is not None), actions]
            self._launch(ik_kernels.encode, len(ids), inputs)
        return out

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Target poses {eef: (K, 4, 4)} that actions (K, A) ask for from the current state."""
        ids = self._slots if env_ids is None else env_ids
        slots, given = wp.from_torch(ids), wp.from_torch(actions.to(self.device, torch.float32))
        out = {name: torch.empty(len(ids), 4, 4, device=self.device) for name in self.eef_names}
        for name, model in zip(self.eef_names, self._models, strict=True):
            inputs = [model, self._shared["_state"], slots, given, wp.from_torch(out[name])]
            self._launch(ik_kernels.decode, len(ids), inputs)
        return out

    def faults_of_actions(self, actions: Tensor) -> dict[int, str]:
        """{row: what is wrong with it} of actions (K, A): a quaternion without length."""
        return faults(self.control, actions)

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., 1)} of actions (..., A): negative closes, else opens."""
        return {arm.name: gripper_part(actions[..., arm.action]) for arm in self.arms}

    # -- task and observations ---------------------------------------------------------------------------------------

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool} of the task."""
        signals = self.task.subtask_term_signals(self._look().view)
        return {name: self._chosen(value, env_ids) for name, value in signals.items()}

    def get_subtask_start_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool} of the task."""
        signals = self.task.subtask_start_signals(self._look().view)
        return {name: self._chosen(value, env_ids) for name, value in signals.items()}

    def success(self) -> Tensor:
        """(N,) bool: the task's goal state holds at this instant."""
        return self.task.success(self._look().view)

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Observations of the current state, {feature: (K, *shape)}."""
        seen = self._look()
        shown = dict(seen.observations)
        if self._renderer is not None:
            frames = self._renderer.render(self._shared["_state"], self._diverged, self._stream())
            shown |= {f"observation.images.{name}": frame for name, frame in frames.items()}
        return {name: self._chosen(value, env_ids) for name, value in shown.items()}

    def frame_renderer(self, image_size: tuple[int, int]) -> StateRenderer:
        """Draws states as the front camera sees them, with MuJoCo's own renderer on the host; see `MimicEnv`."""
        return StateRenderer(self.model, FRONT, image_size)

    # -- borders -----------------------------------------------------------------------------------------------------

    def _launch(self, kernel: Any, count: int, inputs: list[Any]) -> None:
        """One thread for each of `count` rows, on the caller's stream."""
        wp.launch(kernel, count, inputs, device=self._warp_device, stream=self._stream())

    def _to_device(self, array: npt.NDArray[np.float64]) -> Tensor:
        """As float32, without waiting: the driver takes its own copy of memory that is not pinned."""
        return torch.from_numpy(array.astype(np.float32)).to(self.device, non_blocking=True)

    def _chosen(self, tensor: Tensor, env_ids: Tensor | None) -> Tensor:
        """Rows of a shared tensor as the caller's own tensor."""
        return tensor.clone() if env_ids is None else tensor.index_select(0, env_ids)
