"""`env=mujoco`: N slots of one scene with one or two arms, stepped in a batch on the CPU.

State lives in one array (N, S): time, qpos, qvel; the poses of a task's fixtures in a second. A control step is: IK of
all slots in a few calls on (…, N) arrays for each arm, then one call of MuJoCo's `rollout`, whose threads take ten
physics steps per slot without the GIL. Solver warm starts are zeroed at each control step, so the state and the action
alone determine the next state, bit for bit, in any slot, at any num_envs and thread count. Poses come from `kinematics`
and `frames`, not from MuJoCo, and are computed once per step.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
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
from mimicpipe.envs.mujoco.actions import Actions, asked_pose, encode
from mimicpipe.envs.mujoco.arms import arms_of
from mimicpipe.envs.mujoco.checks import check_config, torch_device
from mimicpipe.envs.mujoco.initial import InitialStates
from mimicpipe.envs.mujoco.kernels import Ints
from mimicpipe.envs.mujoco.kinematics import ArmPose, Array
from mimicpipe.envs.mujoco.observations import observation_features
from mimicpipe.envs.mujoco.physics import Physics
from mimicpipe.envs.mujoco.render import CameraRenderer, StateRenderer
from mimicpipe.envs.mujoco.scene import FRONT, SUBSTEPS, TIMESTEP, build_model, camera_names
from mimicpipe.envs.mujoco.servos import Posture, controls_of, posture_of, sane
from mimicpipe.envs.mujoco.stretch import MujocoStretch, Scene, targets_of
from mimicpipe.envs.mujoco.views import Bodies, low_dim_observations, task_view
from mimicpipe.envs.tasks.base import Task, TaskView
from mimicpipe.pipeline.protocol import Stretch, Waypoints
from mimicpipe.rng import Seeds

_ROWS_OF_A_STRETCH = 512
_STEPS_OF_A_STRETCH = (4, 16)
"""A stretch takes so many control steps that this many rows come together, within these bounds."""


class MujocoEnv(MimicEnv):
    """N tables, each with a Franka Panda for each eef of one task, and with its objects.

    Args:
        task: scene, arms, success and signals.
        num_envs: number of slots N >= 1.
        device: where tensors are taken and returned; physics runs on the CPU in any case.
        cameras: any of "front", "wrist" (of two arms "<eef>_wrist"); adds `observation.images.<camera>`.
        image_size: (height, width) of the frames, pixels.
        control: "ik_rel" or "ik_abs", see `mimicpipe.envs.actions`.
        threads: physics threads; None is one per CPU this process may use.

    Raises:
        ConfigError: a value out of its range, or a camera or device this env or machine does not have.
    """

    steps_in_background = True
    fps = round(1.0 / (SUBSTEPS * TIMESTEP))
    noise_dim = NOISE_DIM
    gripper_dim = GRIPPER_DIM

    def __init__(
        self,
        task: Task,
        num_envs: int,
        device: str = "cpu",
        cameras: Sequence[str] = (),
        image_size: tuple[int, int] = (128, 128),
        control: str = "ik_rel",
        threads: int | None = None,
    ) -> None:
        check_config(num_envs, cameras, camera_names(task), image_size, threads)
        self.task = task
        self.num_envs = num_envs
        self.device = torch_device(device)
        self.control = check_control(control)
        self.arms = arms_of(task, control)
        self.eef_names = tuple(arm.name for arm in self.arms)
        self.object_names = task.body_names
        self.task_description = task.description
        self.action_dim = action_dim(control) * len(self.arms)
        self.action_feature = action_feature(control, [arm.prefix for arm in self.arms])
        self.observation_features = observation_features(task, self.arms, cameras, image_size)

        self.model = build_model(task, image_size)
        self._renderer = CameraRenderer(self.model, cameras, image_size) if cameras else None
        self._initial = InitialStates(self.model, task, self.arms)
        self._frames = self._initial.frames
        self._state = np.empty((num_envs, len(self._initial.row)))
        self._fixtures = np.empty((num_envs, self._frames.fixture_width))
        self._slots = np.arange(num_envs)
        self.physics = Physics(self.model, num_envs, SUBSTEPS, threads)
        self._scene = Scene(task, self.arms, control, self._frames)
        if type(self) is MujocoEnv and self.device.type == "cpu" and not cameras:
            # A class made of this one may look at every step, or change it.
            fewest, most = _STEPS_OF_A_STRETCH
            self.longest_stretch = min(max(_ROWS_OF_A_STRETCH // num_envs, fewest), most)
        self.reset(self.all_ids(), np.zeros(num_envs, dtype=np.int64))
        self._compile()

    def _compile(self) -> None:
        """Run each compiled loop once, so that the first process of a machine does not compile in its first steps."""
        noise, gripper = torch.zeros(self.num_envs, NOISE_DIM), torch.ones(self.num_envs, 1)
        action = self.target_eef_pose_to_action(
            self._task_view().eef_poses, dict.fromkeys(self.eef_names, gripper), dict.fromkeys(self.eef_names, noise)
        )
        self._controls(action.cpu().numpy(), self._state, self._slots)
        self._low_dim_observations(self._slots)

    # -- state -------------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        """Forget what was derived from the state."""
        self._known_posture: Posture | None = None
        self._view: TaskView | None = None
        self._bodies: Bodies | None = None

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Arms near the rest posture, gripper open, objects where the task puts them; all from `seeds` alone."""
        rows = env_ids.cpu().numpy()
        self._state[rows], self._fixtures[rows] = self._initial.draw(np.asarray(seeds))
        self._touch()

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """(K, S + 7 F) float64: time, qpos, qvel, then positions and wxyz quaternions of the task's F fixtures."""
        rows = slice(None) if env_ids is None else env_ids.cpu().numpy()
        return self._out(np.concatenate([self._state[rows], self._fixtures[rows]], axis=1))

    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Restore states from `get_state`."""
        rows = slice(None) if env_ids is None else env_ids.cpu().numpy()
        values = state.cpu().numpy()
        self._state[rows] = values[:, : self._state.shape[1]]
        self._fixtures[rows] = values[:, self._state.shape[1] :]
        self._touch()

    def finite(self, env_ids: Tensor | None = None) -> Tensor:
        """(K,) bool: the slot's state has no NaN and no diverged number."""
        return self._out(sane(self._state if env_ids is None else self._state[env_ids.cpu().numpy()]))

    # -- stepping ----------------------------------------------------------------------------------------------------

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance one control step (0.05 s) of all slots or of `env_ids`; see `MimicEnv.step`.

        Raises:
            ValueError: the shape is wrong, or an action asks for no finite motion in a slot that has not diverged.
            RuntimeError: the env is closed.
        """
        self.start_step(actions, env_ids)()

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        """Begin such a step; see `MimicEnv.start_step`. The physics runs in its own threads, without the GIL.

        Raises: as `step`; and RuntimeError while an earlier step has not ended.
        """
        if actions.shape != (self.num_envs, self.action_dim):
            raise ValueError(f"actions must be {(self.num_envs, self.action_dim)}, got {tuple(actions.shape)}")
        slots = self._slots if env_ids is None else env_ids.cpu().numpy()
        wanted = actions.to("cpu", torch.float32).numpy()
        if env_ids is not None:
            wanted = wanted[slots]
        state = self._state if env_ids is None else self._state[slots]
        controls = self._controls(wanted, state, slots)
        after: list[Array] = []
        seen: list[Posture] = []

        def work() -> None:
            after.append(self.physics.step(state, controls))
            if env_ids is None:
                seen.append(posture_of(self.arms, after[0]))

        end = self.physics.start(work)

        def finish() -> None:
            end()
            self._state[slots] = after[0]
            self._touch()
            if seen:
                self._known_posture = seen[0]

        return finish

    def start_stretch(
        self,
        slots: Ints,
        sizes: Sequence[int],
        waypoints: Callable[[], Waypoints],
    ) -> Callable[[], Stretch]:
        """Begin several control steps; see `MimicEnv.start_stretch`. They run as `start_step`'s, one after the other.

        Raises: as `start_step`, some of it when the stretch is ended.
        """
        start, targets = self._posture().select(slots), targets_of(waypoints(), self.arms)
        stretch = MujocoStretch(self._scene, slots, sizes, self._state[slots], self._fixtures[slots], start, targets)
        shares = [np.arange(first, len(slots), self.physics.threads) for first in range(self.physics.threads)]
        end = self.physics.start_lanes([partial(stretch.run, share=share) for share in shares if len(share)])

        def finish() -> Stretch:
            end()
            self._state[slots] = stretch.final
            self._touch()
            return stretch

        return finish

    def _controls(self, wanted: Actions, state: Array, slots: Ints) -> Array:
        """Servo targets (K, nu) of one control step from states (K, S), and fixtures (K, 7 F)."""
        fixtures = self._fixtures[slots]
        return controls_of(self.control, self.arms, wanted, state, fixtures, self._posture(), slots, slots)

    # -- kinematics --------------------------------------------------------------------------------------------------

    def _posture(self) -> Posture:
        if self._known_posture is None:
            self._known_posture = posture_of(self.arms, self._state)
        return self._known_posture

    def _arm_poses(self) -> list[ArmPose]:
        return self._posture().poses

    def _task_view(self) -> TaskView:
        """What the task may see of all slots, float32 tensors on the CPU."""
        if self._view is None:
            self._view = task_view(
                self.task, self.arms, self._frames, self._state, self._body_rows(), self._arm_poses()
            )
        return self._view

    def _body_rows(self) -> Bodies:
        """One row per slot with all bodies' poses, and their columns."""
        if self._bodies is None:
            self._bodies = self._frames.rows(self._state, self._fixtures)
        return self._bodies

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        """Pose (K, 4, 4) of the grasp point between the fingertips; z is the approach direction."""
        require_known("eef", eef_name, self.eef_names)
        return self._select(self._task_view().eef_poses[eef_name], env_ids)

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object, fixture or part: (K, 4, 4)} of the bodies' frames."""
        return {name: self._select(pose, env_ids) for name, pose in self._task_view().object_poses.items()}

    # -- actions -----------------------------------------------------------------------------------------------------

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        """Actions (K, A) that lead from the current state to the target poses; see `MimicEnv`."""
        slots = self._slots if env_ids is None else env_ids.cpu().numpy()
        out = []
        for name, pose in zip(self.eef_names, self._arm_poses(), strict=True):
            noise = (action_noise or {}).get(name)
            given = None if noise is None else noise.cpu().numpy()
            target, gripper = target_eef_pose[name].cpu().numpy(), gripper_action[name].cpu().numpy()
            out.append(encode(self.control, target, gripper, given, slots, pose))
        return self._out(out[0] if len(out) == 1 else np.concatenate(out, axis=1))

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Target poses {eef: (K, 4, 4)} that actions (K, A) ask for from the current state."""
        values = actions.to("cpu", torch.float32).numpy()
        out = {}
        for arm, pose in zip(self.arms, self._arm_poses(), strict=True):
            current = pose if env_ids is None else pose.select(env_ids.cpu().numpy())
            with np.errstate(all="ignore"):  # a diverged slot computes NaN beside the others; `finite` reports it
                out[arm.name] = _pose_tensor(*asked_pose(self.control, values[:, arm.action], current)).to(self.device)
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
        signals = self.task.subtask_term_signals(self._task_view())
        return {name: self._select(value, env_ids) for name, value in signals.items()}

    def get_subtask_start_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool} of the task."""
        signals = self.task.subtask_start_signals(self._task_view())
        return {name: self._select(value, env_ids) for name, value in signals.items()}

    def success(self) -> Tensor:
        """(N,) bool: the task's goal state holds at this instant."""
        return self.task.success(self._task_view()).to(self.device)

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Observations of the current state, {feature: (K, *shape)}; frames are rendered for the asked slots only."""
        slots = self._slots if env_ids is None else env_ids.cpu().numpy()
        out = {name: self._out(value) for name, value in self._low_dim_observations(slots).items()}
        if self._renderer is not None:
            frames = self._renderer.render(self._state[slots, 1 : 1 + self.model.nq], self._fixtures[slots])
            out |= {f"observation.images.{name}": self._out(frame) for name, frame in frames.items()}
        return out

    def _low_dim_observations(self, slots: Ints) -> dict[str, npt.NDArray[np.float32]]:
        return low_dim_observations(self.arms, self._frames, self._state, self._body_rows(), self._arm_poses(), slots)

    def frame_renderer(self, image_size: tuple[int, int]) -> StateRenderer:
        """Draws states as the front camera sees them; see `MimicEnv`."""
        return StateRenderer(self.model, FRONT, image_size)

    def close(self) -> None:
        """Stop the physics threads and free the GL context; safe to call twice."""
        self.physics.close()
        if self._renderer is not None:
            self._renderer.close()

    # -- borders -----------------------------------------------------------------------------------------------------

    def _out(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _select(self, tensor: Tensor, env_ids: Tensor | None) -> Tensor:
        """Rows of a cached CPU tensor as the caller's own tensor."""
        out = tensor.clone() if env_ids is None else tensor[env_ids.cpu()]
        return out.to(self.device)


def _pose_tensor(pos: Array, rot: Array) -> Tensor:
    """(N, 4, 4) float32 poses from (3, N) and (3, 3, N)."""
    out = np.zeros((pos.shape[1], 4, 4), dtype=np.float32)
    out[:, :3, :3] = rot.transpose(2, 0, 1)
    out[:, :3, 3] = pos.T
    out[:, 3, 3] = 1.0
    return torch.from_numpy(out)
