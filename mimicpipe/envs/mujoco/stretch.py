"""Several control steps of some slots in one go, in the background: what they meet on the way is looked at afterwards.

A control step's fixed costs (the hand-over to another thread and back, small arrays, the loop's own Python) are as high
as the physics of a few slots. A stretch pays most of them once. Its steps are the same calls on the same numbers as
those of single steps, so every bit is the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.envs.mujoco.actions import Actions, encode
from mimicpipe.envs.mujoco.arms import Arm
from mimicpipe.envs.mujoco.frames import Frames
from mimicpipe.envs.mujoco.kernels import Ints
from mimicpipe.envs.mujoco.kinematics import ArmPose, Array
from mimicpipe.envs.mujoco.physics import Physics
from mimicpipe.envs.mujoco.servos import Posture, controls_of, posture_of
from mimicpipe.envs.mujoco.views import low_dim_observations, task_view
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pipeline.protocol import Waypoints


@dataclass(frozen=True, slots=True)
class Scene:
    """What stays the same in an env."""

    task: Task
    arms: Sequence[Arm]
    control: str
    frames: Frames
    physics: Physics


@dataclass(frozen=True, slots=True)
class Targets:
    """One arm's waypoints, a row for each step of each slot."""

    poses: npt.NDArray[np.float32]
    """(R, 4, 4)."""
    grippers: Actions
    """(R, G)."""
    noise: Actions | None
    """(R, noise_dim)."""


class MujocoStretch:
    """See `MimicEnv.start_stretch`, which says what the rows are.

    Args:
        scene: of the env.
        slots: (K,).
        sizes: rows of each step, not increasing.
        start: (K, S) states to start from.
        fixtures: (K, 7 F).
        posture: of the arms in the states to start from.
        waypoints: gives those of the rows, in the background.
    """

    def __init__(
        self, scene: Scene, slots: Ints, sizes: Sequence[int], start: Array, fixtures: Array, posture: Posture,
        waypoints: Callable[[], Waypoints],
    ) -> None:  # fmt: skip
        self._scene = scene
        self._slots = slots
        self._sizes = sizes
        self._fixtures = fixtures
        self._waypoints = waypoints
        self._targets: list[Targets] = []
        count, rows = len(slots), sum(sizes)
        self._states = np.empty((count + rows, start.shape[1]))
        self._states[:count] = start
        self._postures = [posture]
        self._actions: list[Actions] = []
        self.final = start
        """(K, S) where each slot has come to."""

    def run(self) -> None:
        """Take the steps.

        Raises:
            ValueError: an action asks for no finite motion in a slot that has not diverged.
        """
        scene, first, after = self._scene, 0, len(self._slots)
        self._targets = targets_of(self._waypoints(), scene.arms)
        for size in self._sizes:
            rows, here = np.arange(size), self._postures[-1]
            state = self.final[:size]
            wanted = self._wanted(first, rows, here.poses)
            fixtures = self._fixtures[:size]
            slots = self._slots[:size]
            controls = controls_of(scene.control, scene.arms, wanted, state, fixtures, here, rows, slots)
            moved = scene.physics.step(state, controls)
            self._states[after : after + size] = moved
            self.final[:size] = moved
            self._actions.append(wanted)
            self._postures.append(posture_of(scene.arms, moved))
            first, after = first + size, after + size

    def _wanted(self, first: int, rows: Ints, poses: Sequence[ArmPose]) -> Actions:
        """(K, A) actions towards the targets from row `first` on."""
        at = slice(first, first + len(rows))
        out = []
        for targets, pose in zip(self._targets, poses, strict=True):
            noise = None if targets.noise is None else targets.noise[at]
            out.append(encode(self._scene.control, targets.poses[at], targets.grippers[at], noise, rows, pose))
        return out[0] if len(out) == 1 else np.concatenate(out, axis=1)

    # -- what there is to see afterwards: the states to start from, then those after each step

    @property
    def actions(self) -> Tensor:
        """(R, A) float32."""
        return torch.from_numpy(np.concatenate(self._actions))

    def success(self) -> Tensor:
        """(R,) bool: the task's goal state holds after the row's action."""
        scene, count = self._scene, len(self._slots)
        state = self._states[count:]
        bodies = scene.frames.rows(state, self._all_fixtures()[count:])
        view = task_view(scene.task, scene.arms, scene.frames, state, bodies, self._poses(self._postures[1:]))
        return scene.task.success(view)

    def observe(self) -> dict[str, Tensor]:
        """{feature: (R, *shape)} before the row's action."""
        scene = self._scene
        bodies = scene.frames.rows(self._states, self._all_fixtures())
        poses = self._poses(self._postures)
        seen = low_dim_observations(scene.arms, scene.frames, self._states, bodies, poses, self._before())
        return {name: torch.from_numpy(value) for name, value in seen.items()}

    def _before(self) -> Ints:
        """(R,) which state each row's action starts from."""
        begins = [0, len(self._slots)]
        for size in self._sizes[:-2]:
            begins.append(begins[-1] + size)
        return np.concatenate([begin + np.arange(size) for begin, size in zip(begins, self._sizes, strict=False)])

    def _all_fixtures(self) -> Array:
        return np.concatenate([self._fixtures, *(self._fixtures[:size] for size in self._sizes)])

    def _poses(self, postures: Sequence[Posture]) -> list[ArmPose]:
        """One `ArmPose` of each arm over the states of all postures."""
        return [joined([posture.poses[i] for posture in postures]) for i in range(len(self._scene.arms))]


def joined(poses: Sequence[ArmPose]) -> ArmPose:
    """One batch of several."""
    parts = ("rot", "pos", "axes", "origins")
    return ArmPose(*(np.concatenate([getattr(pose, part) for pose in poses], axis=-1) for part in parts))


def targets_of(waypoints: Waypoints, arms: Sequence[Arm]) -> list[Targets]:
    """The arms' waypoints from tensors on any device."""
    return [
        Targets(
            waypoints.targets[arm.name].cpu().numpy(),
            waypoints.grippers[arm.name].cpu().numpy(),
            waypoints.noise[arm.name].cpu().numpy() if waypoints.noise else None,
        )
        for arm in arms
    ]
