"""MuJoCo's physics for a batch of slots, in the background.

A single step is spread over the threads of `mujoco.rollout`, while another thread awaits them. For several steps in one
go each thread takes some slots all the way (a `Lane`): to wait for each other at every step would cost more than what
the threads' shares differ by in the end.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

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


class Engine:
    """Steps copies of one model.

    Args:
        model: the scene of every slot.
        most: slots in a step.
        substeps: physics steps in a control step.
        threads: with one, the physics runs in the calling thread, as MuJoCo's pool would only add a hand-over.
    """

    def __init__(self, model: mujoco.MjModel, most: int, substeps: int, threads: int) -> None:
        self._threads = threads
        self._rollout = Rollout(nthread=threads if threads > 1 else 0)
        self._model = model
        self._models = [model] * most
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        self._inputs = _INPUTS if model.nmocap else _SERVOS
        self._control = np.zeros((most, substeps, model.nu + 7 * model.nmocap))
        self._states = np.empty((most, substeps, 1 + model.nq + model.nv))
        self._sensors = np.empty((most, substeps, model.nsensordata))

    def step(self, state: Array, control: Array) -> Array:
        """One control step of K slots, in the calling thread and MuJoCo's.

        Args:
            state: (K, S) time, qpos, qvel.
            control: (K, nu + 7 F) servo targets, then positions and wxyz quaternions of F fixtures; held for the step.

        Returns:
            The states (K, S) after the step, valid until the next one.
        """
        count = len(state)
        self._control[:count] = control[:, None]
        if count:
            self._rollout.rollout(
                self._models[:count], self._data, state, self._control[:count], nstep=self._control.shape[1],
                skip_checks=True, control_spec=self._inputs, state=self._states[:count],
                sensordata=self._sensors[:count], chunk_size=max(1, count // (_CHUNKS_PER_THREAD * self._threads)),
            )  # fmt: skip
        return self._states[:count, -1]

    def close(self) -> None:
        """End MuJoCo's threads; safe to call twice."""
        self._rollout.close()


class Lane:
    """One thread with physics of its own; arguments as of `Engine`, and the thread's name."""

    def __init__(self, model: mujoco.MjModel, most: int, substeps: int, name: str) -> None:
        self._engine = Engine(model, most, substeps, threads=1)
        self._thread = BackgroundThread(name)

    def start(self, job: Callable[[], None]) -> Callable[[], None]:
        """Begin a job in the thread, which calls `step` any number of times; see `BackgroundThread.start`."""
        return self._thread.start(job)

    def step(self, state: Array, control: Array) -> Array:
        """As `Engine.step`, in the calling thread alone."""
        return self._engine.step(state, control)

    def close(self) -> None:
        """End the thread; safe to call twice."""
        self._thread.close()
        self._engine.close()


class Physics:
    """The physics of an env's slots.

    Args:
        model: the scene of every slot.
        num_envs: most slots in a step.
        substeps: physics steps in a control step.
        threads: physics threads; None is one per CPU this process may use.
    """

    def __init__(self, model: mujoco.MjModel, num_envs: int, substeps: int, threads: int | None) -> None:
        self.threads = min(threads or len(os.sched_getaffinity(0)), num_envs)
        self.model = model
        self._engine = Engine(model, num_envs, substeps, self.threads)
        self._caller = BackgroundThread("mimicpipe-physics")
        share = -(-num_envs // self.threads)
        self._lanes = [Lane(model, share, substeps, f"mimicpipe-physics-{lane}") for lane in range(self.threads)]
        self._running = False

    def start(self, job: Callable[[], None]) -> Callable[[], None]:
        """Begin a job in the background, which calls `step`.

        Returns:
            A function to call once: it waits for the job's end, and raises what the job has raised.

        Raises:
            RuntimeError: a job is still running, or the threads have ended.
        """
        return self._started([self._caller], [job])

    def start_lanes(self, jobs: Sequence[Callable[[Lane], None]]) -> Callable[[], None]:
        """Begin jobs, each in a thread of its own, at most `threads` of them; as `start`."""
        lanes = self._lanes[: len(jobs)]
        return self._started(lanes, [partial(job, lane) for job, lane in zip(jobs, lanes, strict=True)])

    def _started(
        self, threads: Sequence[Lane | BackgroundThread], jobs: Sequence[Callable[[], None]]
    ) -> Callable[[], None]:
        if self._running:
            raise RuntimeError("a step is still running; end it before the next")
        ends = [thread.start(job) for thread, job in zip(threads, jobs, strict=True)]
        self._running = True

        def end() -> None:
            self._running = False
            with ExitStack() as stack:  # all of them end, whatever one raises
                for end_of_job in reversed(ends):
                    stack.callback(end_of_job)

        return end

    def step(self, state: Array, control: Array) -> Array:
        """As `Engine.step`, in all threads."""
        return self._engine.step(state, control)

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._caller.close()
        for lane in self._lanes:
            lane.close()
        self._engine.close()
