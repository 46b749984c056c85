"""MuJoCo's physics for a batch of slots, in the background: threads of `mujoco.rollout`, and one that awaits them."""

import os
from collections.abc import Callable

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.rollout import Rollout

from mimicpipe.envs.background import BackgroundThread

Array = npt.NDArray[np.float64]

_SERVOS = mujoco.mjtState.mjSTATE_CTRL.value
_INPUTS = _SERVOS | mujoco.mjtState.mjSTATE_MOCAP_POS.value | mujoco.mjtState.mjSTATE_MOCAP_QUAT.value
"""What a row of control holds, without fixtures and with them."""
_CHUNKS_PER_THREAD = 8
"""A thread that is done early takes another of so many pieces: slots in contact cost more than others."""


class Physics:
    """Steps copies of one model.

    Args:
        model: the scene of every slot.
        num_envs: most slots in a step.
        substeps: physics steps in a control step.
        threads: physics threads; None is one per CPU this process may use.
    """

    def __init__(self, model: mujoco.MjModel, num_envs: int, substeps: int, threads: int | None) -> None:
        self.threads = min(threads or len(os.sched_getaffinity(0)), num_envs)
        # With one thread MuJoCo's pool would only add a hand-over: zero runs the physics in the calling thread.
        self._rollout = Rollout(nthread=self.threads if self.threads > 1 else 0)
        self._caller = BackgroundThread("mimicpipe-physics")
        self._substeps = substeps
        self.model = model
        self._models = [model] * num_envs
        self._data = [mujoco.MjData(model) for _ in range(self.threads)]
        self._control = np.zeros((num_envs, substeps, model.nu + 7 * model.nmocap))
        self._states = np.empty((num_envs, substeps, 1 + model.nq + model.nv))
        self._sensors = np.empty((num_envs, substeps, model.nsensordata))

    def start(self, job: Callable[[], None]) -> Callable[[], None]:
        """Begin a job in the background; it calls `step` once or several times.

        Returns:
            A function to call once: it waits for the job's end, and raises what the job has raised.

        Raises:
            RuntimeError: a job is still running, or the threads have ended.
        """
        return self._caller.start(job)

    def step(self, state: Array, control: Array) -> Array:
        """One control step of K slots in the calling thread and MuJoCo's.

        Args:
            state: (K, S) time, qpos, qvel.
            control: (K, nu + 7 F) servo targets, then positions and wxyz quaternions of F fixtures; held for the step.

        Returns:
            The states (K, S) after the step, valid until the next one.
        """
        count = len(state)
        self._control[:count] = control[:, None]
        if count:
            self.run(state, self._control[:count], self._states[:count], self._sensors[:count])
        return self._states[:count, -1]

    def run(self, state: Array, control: Array, states: Array, sensors: Array) -> None:
        """Physics of K slots in the calling thread and MuJoCo's, T physics steps without a break.

        Args:
            state: (K, S) to start from.
            control: (K, T, nu + 7 F).
            states: (K, T, S) room for the states after each.
            sensors: (K, T, nsensordata) room for the sensors.
        """
        count = len(state)
        self._rollout.rollout(
            self._models[:count], self._data, state, control, nstep=control.shape[1], skip_checks=True,
            control_spec=_INPUTS if self.model.nmocap else _SERVOS, state=states, sensordata=sensors,
            chunk_size=max(1, count // (_CHUNKS_PER_THREAD * self.threads)),
        )  # fmt: skip

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._caller.close()
        self._rollout.close()
