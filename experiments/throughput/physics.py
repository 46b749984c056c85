"""(b) The pipeline on `env=mujoco` against the bare physics of the same steps, in the same process.

A first run of the pipeline tapes what it asks of MuJoCo's `rollout`: states and controls of every control step of every
slot. Played again, in full batches of all slots and in as many threads, the tape is exactly the physics of that run
(same contacts, ten substeps a step) and nothing else.
Tape, pipeline without recorder and pipeline with recorder=async take turns, so that a busy machine slows all alike.
"""

import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast
from unittest.mock import patch

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.rollout import Rollout

from experiments.harness import Generated, Parts, Sample, Stopwatch, built, compose, run_pipeline, torch_threads
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco.physics import Engine, Physics
from mimicpipe.envs.mujoco.scene import SUBSTEPS

GOAL = {64: 0.95}
"""{num_envs: least share of the bare physics' rate, with recorder=none}."""
ASYNC_GOAL = {64: 0.90}
"""{num_envs: the same with recorder=async, up to the last attempt}."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """So many attempts of a task at so many envs."""

    num_envs: int
    attempts: int
    task: str = "pick"


CASES = (Case(1, 12), Case(16, 96), Case(64, 512))


@dataclass(frozen=True)
class Call:
    """The physics of K control steps: states (K, S), controls (K, SUBSTEPS, nu)."""

    start: Array
    control: Array


class Tape:
    """Remembers every control step that an env's physics takes, and plays them with MuJoCo's `Rollout` alone."""

    def __init__(self, physics: Physics, num_envs: int) -> None:
        model = physics.model
        self._physics = physics
        self._num_envs = num_envs
        self._rollout = Rollout(nthread=physics.threads if physics.threads > 1 else 0)
        self._data = [mujoco.MjData(model) for _ in range(physics.threads)]
        self._states = np.empty((num_envs, SUBSTEPS, 1 + model.nq + model.nv))
        self._sensors = np.empty((num_envs, SUBSTEPS, model.nsensordata))
        self.calls: list[Call] = []

    def add(self, state: Array, control: Array) -> None:
        """Control steps from states (K, S); controls (K, nu)."""
        self.calls.append(Call(state.copy(), np.repeat(control[:, None], SUBSTEPS, axis=1)))

    def fill_batches(self) -> None:
        """Make full batches of what was added: a step needs its own state only, so the order does not matter."""
        start, control = np.concatenate([c.start for c in self.calls]), np.concatenate([c.control for c in self.calls])
        parts = range(0, len(start), self._num_envs)
        self.calls = [Call(start[at : at + self._num_envs], control[at : at + self._num_envs]) for at in parts]

    @property
    def env_steps(self) -> int:
        """Control steps of all slots on the tape."""
        return sum(len(call.start) for call in self.calls)

    def play(self, call: Call) -> Array:
        """Their physics; states (K, SUBSTEPS, S), valid until the next call."""
        count, threads = len(call.start), len(self._data)
        self._rollout.rollout(
            [self._physics.model] * count, self._data, call.start, call.control, nstep=SUBSTEPS, skip_checks=True,
            state=self._states[:count], sensordata=self._sensors[:count], chunk_size=max(1, count // (8 * threads)),
        )  # fmt: skip
        return self._states[:count]

    def close(self) -> None:
        """End the threads."""
        self._rollout.close()


@contextmanager
def taped(parts: Parts) -> Generator[Tape]:
    """Run the pipeline once, and tape its physics."""
    tape, engines_step = Tape(cast(MujocoEnv, parts.env).physics, parts.env.num_envs), Engine.step

    def step(engine: Engine, state: Array, control: Array) -> Array:
        tape.add(state, control)
        return engines_step(engine, state, control)

    try:
        with patch.object(Engine, "step", step):
            run_pipeline(parts)
        tape.fill_batches()
        yield tape
    finally:
        tape.close()


def play(tape: Tape) -> Sample:
    """Bare physics: every control step of the tape again, and nothing else."""
    watch = Stopwatch()
    for call in tape.calls:
        tape.play(call)
    return watch.sample(tape.env_steps)


def measure(cases: Sequence[Case] = CASES, repeats: int = 5) -> list[dict[str, Any]]:
    """One row per case: medians over rounds in which bare physics and pipelines take turns."""
    with torch_threads(1):
        return [_measure_case(case, repeats) for case in cases]


def _measure_case(case: Case, repeats: int) -> dict[str, Any]:
    budget = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    overrides = ("env=mujoco", f"task={case.task}", *budget)
    with (
        tempfile.TemporaryDirectory() as folder,
        built("recorder=none", *overrides) as parts,
        taped(parts) as tape,
    ):
        threads = cast(MujocoEnv, parts.env).physics.threads
        rounds: list[_Round] = []
        for number in range(-1, repeats):
            root = Path(folder) / str(number)
            config = compose("tracker=none", "recorder=async", f"dataset.root={root}", *overrides)
            done = _Round(play(tape), run_pipeline(parts), run_pipeline(parts, config))
            if number >= 0:  # the first round warms up
                rounds.append(done)
    steps = {r.none.until_generated.env_steps for r in rounds} | {tape.env_steps}
    if len(steps) != 1:
        raise AssertionError(f"every round must take the same steps, took {steps}")
    return _row(case, threads, rounds)


@dataclass(frozen=True)
class _Round:
    raw: Sample
    none: Generated
    async_: Generated


def _row(case: Case, threads: int, rounds: Sequence[_Round]) -> dict[str, Any]:
    def ratio(samples: Callable[[_Round], tuple[Sample, Sample]], *, cpu: bool = False) -> float:
        def cost(sample: Sample) -> float:
            return (sample.cpu_s if cpu else sample.wall_s) / sample.env_steps

        return median(cost(bare) / cost(pipeline) for pipeline, bare in map(samples, rounds))

    none_ratio, goal = ratio(lambda r: (r.none.until_generated, r.raw)), GOAL.get(case.num_envs)
    async_ratio, async_goal = ratio(lambda r: (r.async_.until_generated, r.raw)), ASYNC_GOAL.get(case.num_envs)
    return {
        "num_envs": case.num_envs,
        "task": case.task,
        "attempts": case.attempts,
        "env_steps": rounds[0].raw.env_steps,
        "physics_threads": threads,
        "raw_steps_per_s": median(r.raw.rate for r in rounds),
        "none_steps_per_s": median(r.none.until_generated.rate for r in rounds),
        "async_generated_steps_per_s": median(r.async_.until_generated.rate for r in rounds),
        "async_written_steps_per_s": median(r.async_.until_written.rate for r in rounds),
        "none_ratio": none_ratio,
        "none_cpu_ratio": ratio(lambda r: (r.none.until_generated, r.raw), cpu=True),
        "async_generated_ratio": async_ratio,
        "async_written_ratio": ratio(lambda r: (r.async_.until_written, r.raw)),
        "async_backpressure_s": median(r.async_.recorder["backpressure_s"] for r in rounds),
        "cpu_s": {
            "raw": median(r.raw.cpu_s for r in rounds),
            "none": median(r.none.until_generated.cpu_s for r in rounds),
            "async_written": median(r.async_.until_written.cpu_s for r in rounds),
        },
        "goal_ratio": goal,
        "goal_met": None if goal is None else none_ratio >= goal,
        "async_goal_ratio": async_goal,
        "async_goal_met": None if async_goal is None else async_ratio >= async_goal,
        "rounds_ratio": [round(r.none.until_generated.rate / r.raw.rate, 3) for r in rounds],
    }
