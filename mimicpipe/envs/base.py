"""The contract of a batched simulator: N environments ("slots") behind one object, every call on a batch.

Names are Isaac Lab Mimic's (`ManagerBasedRLMimicEnv`); every one takes a batch. Poses are (N, 4, 4) float32 in each
slot's own frame, metres. One control step is 1/fps seconds. An env draws random numbers only in `reset`, from the seeds
it is given, so that an episode is a function of (seed, actions).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.pipeline.protocol import Stretch, Waypoints
from mimicpipe.rng import Seeds


@dataclass(frozen=True)
class Feature:
    """One column of the dataset, in LeRobot's words."""

    dtype: str
    """float32, float64, int64, bool and so on; "image" or "video" for a camera's frames (uint8); "depth" for those of a
    camera of depth (uint16, millimetres); "string" for text (uint8, see `envs.text`)."""
    shape: tuple[int, ...]
    """Shape of one frame's value; (H, W, 3) for a camera, (H, W, 1) for depth, (L,) for text of at most L bytes."""
    names: tuple[str, ...] | None = None
    """One name per element of the (first) axis."""


@dataclass(frozen=True)
class TaskSettings:
    """How demos of a task are generated, where the env itself says so."""

    subtasks: dict[str, list[SubTaskConfig]]
    """{eef: its subtasks in order}."""
    constraints: list[SubTaskConstraintConfig]
    datagen: DataGenConfig


class FrameRenderer(Protocol):
    """Draws states for people to look at."""

    def render(self, states: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
        """Frames (K, H, W, 3) of states (K, S) from `get_state`."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class MimicEnv(ABC):
    """A batch of environments as the pipeline and the generators see it.

    Attributes:
        num_envs: number of slots N.
        device: device of every tensor taken and returned.
        fps: control rate, Hz.
        eef_names: end effectors, in the order of the action vector.
        object_names: keys of `get_object_poses`.
        action_dim: A, length of one slot's action.
        noise_dim: length of the pose part of one eef's action, which action noise is added to.
        gripper_dim: G, length of one eef's gripper action.
        task_description: the language instruction recorded with each frame.
        observation_features: feature of every key of `observe()`; low-dimensional ones are float32.
        action_feature: feature of `action`.
        steps_in_background: whether Python work is worth doing between `start_step` and the end of the step.
        longest_stretch: most control steps that `start_stretch` takes in one go; 1 where there is none.
        task_settings: what a run goes by whose `task` names no subtasks; None, as here, where `task` says it all.
    """

    steps_in_background: bool = False
    longest_stretch: int = 1
    task_settings: TaskSettings | None = None
    num_envs: int
    device: torch.device
    fps: int
    eef_names: tuple[str, ...]
    object_names: tuple[str, ...]
    action_dim: int
    noise_dim: int
    gripper_dim: int
    task_description: str
    observation_features: dict[str, Feature]
    action_feature: Feature

    @abstractmethod
    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Put slots `env_ids` (K,) int64 into initial states drawn from `seeds` (K,), in one batched call."""

    @abstractmethod
    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance one control step.

        Args:
            actions: (N, A) float32; rows of slots outside `env_ids` are ignored.
            env_ids: (K,) int64, sorted: the slots to advance; None is all. The others keep their state.
        """

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        """Begin a control step; arguments as of `step`.

        Returns:
            A function to call once, which ends the step, waiting for it if need be. Until then the env shows the state
            before the step, and every call is allowed that does not change or step one of these slots.
        """
        return partial(self.step, actions, env_ids)

    def start_stretch(
        self,
        slots: npt.NDArray[np.int64],
        sizes: Sequence[int],
        waypoints: Callable[[], Waypoints],
    ) -> Callable[[], Stretch]:
        """Begin several control steps with a waypoint each, the same as single steps of these actions, bit for bit.

        There is a row for each step of each slot, R in all: step m has `sizes[m]` rows, those of the first
        `sizes[m]` slots, behind the rows of the steps before it.

        Args:
            slots: (K,) on the host; the more steps a slot takes, the further in front it stands.
            sizes: (T,) rows of each step, not increasing; the first is K.
            waypoints: gives those of the R rows; may be called in the background, once.

        Returns:
            A function to call once, which ends the stretch, waiting for it if need be. Until then the env shows the
            states before it, and every call is allowed that does not change or step one of these slots.
        """
        raise NotImplementedError(f"{type(self).__name__} takes one step at a time")

    @abstractmethod
    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Current observations, {feature: (K, *shape)}; K = N where `env_ids` is None. Fresh after reset and step."""

    @abstractmethod
    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        """Pose (K, 4, 4) of an end effector."""

    @abstractmethod
    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object: (K, 4, 4)}."""

    @abstractmethod
    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        """Actions (K, A) that lead from the current state to the target poses.

        Args:
            target_eef_pose: {eef: (K, 4, 4)}.
            gripper_action: {eef: (K, G)}.
            action_noise: {eef: (K, noise_dim)}, already drawn and scaled, added to the pose part in action units.
            env_ids: (K,) slots; None is all.
        """

    @abstractmethod
    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Target poses {eef: (K, 4, 4)} that actions (K, A) ask for from the current state; inverse of the above."""

    @abstractmethod
    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., G)} of actions (..., A)."""

    def faults_of_actions(self, actions: Tensor) -> dict[int, str]:
        """{row: what is wrong with it} of actions (K, A) that cannot be executed, though they are finite.

        An attempt whose generator puts one fails, and no other; the words follow "an action that".
        """
        del actions
        return {}

    @abstractmethod
    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool}, true once the subtask that the signal ends is done."""

    def get_subtask_start_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool}, true once the subtask's skill segment has begun; empty where a task has none."""
        del env_ids
        return {}

    @abstractmethod
    def success(self) -> Tensor:
        """(N,) bool: the task's success condition at this instant. Holding it over time is the pipeline's business."""

    @abstractmethod
    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """Complete state (K, S) float64: with `set_state`, the future is a function of the actions, bit for bit."""

    @abstractmethod
    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Restore states (K, S) from `get_state`."""

    def finite(self, env_ids: Tensor | None = None) -> Tensor:
        """(K,) bool: the slot's state has no NaN or infinity."""
        return torch.isfinite(self.get_state(env_ids)).all(dim=-1)

    def frame_renderer(self, image_size: tuple[int, int]) -> FrameRenderer | None:
        """What draws this env's states, (height, width) pixels; None, as here, where it cannot draw.

        Raises:
            ConfigError: this machine lacks what it needs, e.g. OpenGL.
        """
        del image_size
        return None

    @property
    def obs_buf(self) -> dict[str, Tensor]:
        """Observations of all slots, under Isaac Lab's name."""
        return self.observe()

    def close(self) -> None:  # noqa: B027 - most envs hold nothing that must be released
        """Release native resources (thread pools, GL contexts)."""

    def all_ids(self) -> Tensor:
        """(N,) every slot's index."""
        return torch.arange(self.num_envs, device=self.device)


def require_known(kind: str, name: str, known: Sequence[str]) -> None:
    """Raise KeyError that lists the valid names unless `name` is one of them."""
    if name not in known:
        raise KeyError(f"unknown {kind} {name!r}; this env has {', '.join(known)}")
