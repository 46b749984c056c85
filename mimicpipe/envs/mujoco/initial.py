"""The state of one slot as a row of numbers, and the rows that a reset draws; the same for every MuJoCo."""

import mujoco
import numpy as np

from mimicpipe.envs.mujoco import ik
from mimicpipe.envs.mujoco.arms import Arm
from mimicpipe.envs.mujoco.frames import Frames
from mimicpipe.envs.mujoco.kinematics import Array
from mimicpipe.envs.mujoco.panda import ARM_JOINTS, FINGER_JOINTS, MAX_FINGER
from mimicpipe.envs.tasks.base import Task
from mimicpipe.errors import ConfigError
from mimicpipe.rng import Seeds, Stream, uniforms

_START_NOISE = 0.02 * 3**0.5
"""Half width of the uniform start noise of the arm's joints, radians: standard deviation 0.02, as in robosuite."""
_START_NOISE_OFFSET = 1 << 20
"""Position of the start noise in the SCENE stream, beyond anything a task draws."""


class InitialStates:
    """Where slots begin.

    Args:
        model: the compiled scene.
        task: draws its bodies' places.
        arms: of the task.

    Attributes:
        frames: columns of the task's bodies.
        row: (S,) time, qpos (each arm with its fingers, fixtures' joints, objects), qvel, before anything is drawn.

    Raises:
        ConfigError: the scene has state beyond that.
    """

    def __init__(self, model: mujoco.MjModel, task: Task, arms: tuple[Arm, ...]) -> None:
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        if size != 1 + model.nq + model.nv:
            raise ConfigError(f"task {task.name}: fixtures with activations or plugins are not supported")
        names = [arm.prefix + name for arm in arms for name in (*ARM_JOINTS, *FINGER_JOINTS)]
        columns = [int(model.joint(name).qposadr[0]) for name in names]
        if columns != list(range(len(names))):
            raise AssertionError(f"the robots must come first in qpos, got addresses {columns}")
        self._task = task
        self._arms = arms
        self.frames = Frames(model, task)
        self.row = np.concatenate([[0.0], model.qpos0, np.zeros(model.nv)])
        for arm in arms:
            self.row[arm.first : arm.first + 7] = ik.REST_POSTURE
            self.row[arm.first + 7 : arm.first + 9] = MAX_FINGER

    def draw(self, seeds: Seeds) -> tuple[Array, Array]:
        """States (K, S) and fixtures (K, 7 F) of seeds (K,): arms near the rest posture, bodies where the task says."""
        state = np.tile(self.row, (len(seeds), 1))
        noise = uniforms(seeds, Stream.SCENE, 7 * len(self._arms), offset=_START_NOISE_OFFSET)
        for index, arm in enumerate(self._arms):
            state[:, arm.first : arm.first + 7] += (2.0 * noise[:, 7 * index : 7 * index + 7] - 1.0) * _START_NOISE
        fixtures = np.empty((len(seeds), self.frames.fixture_width))
        self.frames.set_poses(self._task.sample_object_poses(seeds), state, fixtures)
        joints = self._task.sample_joint_positions(seeds)
        for part, column in zip(self._task.parts, self.frames.joint_columns, strict=True):
            state[:, column] = joints[part.name]
        return state, fixtures
