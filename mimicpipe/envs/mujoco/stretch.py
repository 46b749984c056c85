"""Several control steps of some slots in one go, in the background: what they meet on the way is looked at afterwards.

A control step's fixed costs (the hand-over to another thread and back, small arrays, the loop's own Python) are as high
as the physics of a few slots, and meanwhile the physics' threads stand still. In a stretch each thread takes its share
of the slots through all steps, by itself. The steps are the same calls on the same numbers as single ones, so every bit
is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.envs.actions import action_dim
from mimicpipe.envs.mujoco.actions import Actions, encode
from mimicpipe.envs.mujoco.arms import Arm
from mimicpipe.envs.mujoco.frames import Frames
from mimicpipe.envs.mujoco.kernels import Ints
from mimicpipe.envs.mujoco.kinematics import ArmPose, Array, HandPose
from mimicpipe.envs.mujoco.physics import Lane
from mimicpipe.envs.mujoco.servos import Posture, controls_of, posture_of
from mimicpipe.envs.mujoco.views import low_dim_observations, task_view
from mimicpipe.envs.stretch_rows import rows_before
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pipeline.protocol import Waypoints


@dataclass(frozen=True, slots=True)
class Scene:
    """What stays the same in an env."""

    task: Task
    arms: Sequence[Arm]
    control: str
    frames: Frames


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
        targets: of each arm.
    """

    def __init__(
        self, scene: Scene, slots: Ints, sizes: Sequence[int], start: Array, fixtures: Array, posture: Posture,
        targets: Sequence[Targets],
    ) -> None:  # fmt: skip
        self._scene = scene
        self._slots = slots
        self._sizes = sizes
        self._fixtures = fixtures
        self._targets = targets
        self._posture = posture
        count, rows = len(slots), sum(sizes)
        # The states to start from, then those after each step; and the hands in them.
        self._states = np.empty((count + rows, start.shape[1]))
        self._states[:count] = start
        self._hands = [HandPose(np.empty((3, 3, count + rows)), np.empty((3, count + rows))) for _ in scene.arms]
        self._put_hands(slice(count), posture)
        self._actions = np.empty((rows, action_dim(scene.control) * len(scene.arms)), dtype=np.float32)
        self.final = start
        """(K, S) where each slot has come to."""

    def run(self, lane: Lane, share: Ints) -> None:
        """Take the steps of a share (M,) of the K slots, in ascending order, in one of the env's threads.

        Raises:
            ValueError: an action asks for no finite motion in a slot that has not diverged.
        """
        scene, first, after = self._scene, 0, len(self._slots)
        state, posture = self.final[share], self._posture.select(share)
        for size in self._sizes:
            here = share[: np.searchsorted(share, size)]
            if not len(here):
                break
            rows, local = first + here, np.arange(len(here))
            before = state[: len(here)]
            wanted = self._wanted(rows, local, posture.poses)
            controls = controls_of(
                scene.control, scene.arms, wanted, before, self._fixtures[here], posture, local, self._slots[here]
            )
            before[:] = lane.step(before, controls)
            posture = posture_of(scene.arms, before)
            self._actions[rows] = wanted
            self._states[after + here] = before
            self._put_hands(after + here, posture)
            first, after = first + size, after + size
        self.final[share] = state

    def _wanted(self, rows: Ints, local: Ints, poses: Sequence[ArmPose]) -> Actions:
        """(M, A) actions towards the targets of rows (M,); these have the arms' poses `local` (M,)."""
        out = []
        for targets, pose in zip(self._targets, poses, strict=True):
            noise = None if targets.noise is None else targets.noise[rows]
            out.append(encode(self._scene.control, targets.poses[rows], targets.grippers[rows], noise, local, pose))
        return out[0] if len(out) == 1 else np.concatenate(out, axis=1)

    def _put_hands(self, at: Ints | slice, posture: Posture) -> None:
        for hands, pose in zip(self._hands, posture.poses, strict=True):
            hands.rot[..., at], hands.pos[..., at] = pose.rot, pose.pos

    # -- what there is to see afterwards

    @property
    def actions(self) -> Tensor:
        """(R, A) float32."""
        return torch.from_numpy(self._actions)

    def success(self) -> Tensor:
        """(R,) bool: the task's goal state holds after the row's action."""
        scene, behind = self._scene, slice(len(self._slots), None)
        state = self._states[behind]
        bodies = scene.frames.rows(state, self._all_fixtures()[behind])
        hands = [HandPose(hand.rot[..., behind], hand.pos[..., behind]) for hand in self._hands]
        return scene.task.success(task_view(scene.task, scene.arms, scene.frames, state, bodies, hands))

    def observe(self) -> dict[str, Tensor]:
        """{feature: (R, *shape)} before the row's action."""
        scene = self._scene
        bodies = scene.frames.rows(self._states, self._all_fixtures())
        before = rows_before(np.asarray(self._sizes))
        seen = low_dim_observations(scene.arms, scene.frames, self._states, bodies, self._hands, before)
        return {name: torch.from_numpy(value) for name, value in seen.items()}

    def _all_fixtures(self) -> Array:
        return np.concatenate([self._fixtures, *(self._fixtures[:size] for size in self._sizes)])


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
