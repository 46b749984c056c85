"""(b) The pipeline on `env=mujoco` against the bare physics of the same steps, in the same process.

A first run of the pipeline tapes every call of MuJoCo's `rollout`: states, controls, batch and chunk sizes. Played
again, the tape is exactly the physics of that run (same contacts, same threads, ten substeps a call) and nothing else.
Tape, pipeline without recorder and pipeline with recorder=async take turns, so that a busy machine slows all alike.

`open_loop` is stricter than any closed loop can be: sixteen control steps a call, so the threads meet once instead of
sixteen times and the solver starts warm.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from experiments.harness import Generated, Parts, Sample, Stopwatch, built, compose, run_pipeline, torch_threads
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco.scene import SUBSTEPS, TIMESTEP

GOAL = {64: 0.80}
"""{num_envs: least share of the bare physics' rate, with recorder=none}."""
OPEN_LOOP_STEPS = 16

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """So many attempts of a task at so many envs."""

    num_envs: int
    attempts: int
    task: str = "pick"


CASES = (Case(1, 12), Case(16, 96), Case(64, 256))


@dataclass(frozen=True)
class Call:
    """The arguments of one call of `rollout`."""

    models: list[Any]
    start: Array
    control: Array
    options: dict[str, Any]


class Tape:
    """Stands in for an env's physics, and remembers every call that it passes on."""

    def __init__(self, physics: Any) -> None:
        self.physics = physics
        self.calls: list[Call] = []

    def rollout(self, models: list[Any], data: list[Any], start: Array, control: Array, /, **options: Any) -> Any:
        """As `mujoco.rollout.Rollout.rollout`."""
        self.calls.append(Call(models, start.copy(), control.copy(), options))
        return self.physics.rollout(models, data, start, control, **options)

    @property
    def env_steps(self) -> int:
        """Control steps of all slots on the tape."""
        return sum(len(call.start) for call in self.calls)


def record(parts: Parts) -> Tape:
    """Run the pipeline once, and tape its physics."""
    env = cast(MujocoEnv, parts.env)
    physics = env._rollout
    tape = Tape(physics)
    env._rollout = cast(Any, tape)
    try:
        run_pipeline(parts)
    finally:
        env._rollout = physics
    return tape


def play(tape: Tape, data: list[Any]) -> Sample:
    """Bare physics: every call of the tape again."""
    rollout = tape.physics.rollout
    watch = Stopwatch()
    for call in tape.calls:
        rollout(call.models, data, call.start, call.control, **call.options)
    return watch.sample(tape.env_steps)


def open_loop(tape: Tape, data: list[Any], steps: int = OPEN_LOOP_STEPS) -> Callable[[], Sample]:
    """Bare physics with `steps` control steps a call, over all stretches of the tape in which no slot of it was reset.

    Returns:
        A function that plays them; its samples have no steps where the tape has no such stretch.
    """
    blocks = _stretches(tape, steps)
    size = max((len(state) for state, _ in blocks), default=0)
    if not blocks:
        return lambda: Sample(0, 1.0, 1.0)
    models = max((call.models for call in tape.calls), key=len)
    states = np.empty((size, steps * SUBSTEPS, blocks[0][0].shape[1]))
    sensors = np.empty((size, steps * SUBSTEPS, models[0].nsensordata))

    def run() -> Sample:
        watch = Stopwatch()
        for state, control in blocks:
            n = len(state)
            tape.physics.rollout(
                models[:n], data, state, control, nstep=steps * SUBSTEPS, skip_checks=True,
                state=states[:n], sensordata=sensors[:n], chunk_size=max(1, n // (4 * len(data))),
            )  # fmt: skip
        return watch.sample(steps * sum(len(state) for state, _ in blocks))

    return run


def _stretches(tape: Tape, steps: int) -> list[tuple[Array, Array]]:
    """(states (M, S), controls (M, steps * SUBSTEPS, nu)) of slots that went on through `steps` full-batch calls."""
    width = max(len(call.start) for call in tape.calls)
    blocks = []
    for first in range(0, len(tape.calls) - steps + 1, steps):
        calls = tape.calls[first : first + steps]
        if any(len(call.start) != width for call in calls):
            continue  # with parked slots, a row is no longer a slot
        elapsed = calls[-1].start[:, 0] - calls[0].start[:, 0]  # column 0 is the time since the slot's reset
        went_on = np.flatnonzero(np.isclose(elapsed, (steps - 1) * SUBSTEPS * TIMESTEP))
        if went_on.size:
            control = np.concatenate([call.control[went_on] for call in calls], axis=1)
            blocks.append((calls[0].start[went_on], np.ascontiguousarray(control)))
    return blocks


def measure(cases: Sequence[Case] = CASES, repeats: int = 5) -> list[dict[str, Any]]:
    """One row per case: medians over rounds in which bare physics and pipelines take turns."""
    with torch_threads(1):
        return [_measure_case(case, repeats) for case in cases]


def _measure_case(case: Case, repeats: int) -> dict[str, Any]:
    budget = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    overrides = ("env=mujoco", f"task={case.task}", *budget)
    with tempfile.TemporaryDirectory() as folder, built("recorder=none", *overrides) as parts:
        env = cast(MujocoEnv, parts.env)
        tape = record(parts)
        play_open_loop = open_loop(tape, env._data)
        rounds: list[_Round] = []
        for number in range(-1, repeats):
            root = Path(folder) / str(number)
            config = compose("tracker=none", "recorder=async", f"dataset.root={root}", *overrides)
            done = _Round(
                play(tape, env._data),
                run_pipeline(parts),
                run_pipeline(parts, config),
                play_open_loop(),
            )
            if number >= 0:  # the first round warms up
                rounds.append(done)
    steps = {r.none.until_generated.env_steps for r in rounds} | {tape.env_steps}
    if len(steps) != 1:
        raise AssertionError(f"every round must take the same steps, took {steps}")
    return _row(case, len(env._data), rounds)


@dataclass(frozen=True)
class _Round:
    raw: Sample
    none: Generated
    async_: Generated
    open_loop: Sample


def _row(case: Case, threads: int, rounds: Sequence[_Round]) -> dict[str, Any]:
    def ratio(samples: Callable[[_Round], tuple[Sample, Sample]], *, cpu: bool = False) -> float:
        def cost(sample: Sample) -> float:
            return (sample.cpu_s if cpu else sample.wall_s) / sample.env_steps

        return median(cost(bare) / cost(pipeline) for pipeline, bare in map(samples, rounds))

    has_open_loop = rounds[0].open_loop.env_steps > 0
    none_ratio, goal = ratio(lambda r: (r.none.until_generated, r.raw)), GOAL.get(case.num_envs)
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
        "open_loop_steps_per_s": median(r.open_loop.rate for r in rounds) if has_open_loop else None,
        "none_ratio": none_ratio,
        "none_cpu_ratio": ratio(lambda r: (r.none.until_generated, r.raw), cpu=True),
        "none_open_loop_ratio": ratio(lambda r: (r.none.until_generated, r.open_loop)) if has_open_loop else None,
        "async_generated_ratio": ratio(lambda r: (r.async_.until_generated, r.raw)),
        "async_written_ratio": ratio(lambda r: (r.async_.until_written, r.raw)),
        "async_backpressure_s": median(r.async_.recorder["backpressure_s"] for r in rounds),
        "cpu_s": {
            "raw": median(r.raw.cpu_s for r in rounds),
            "none": median(r.none.until_generated.cpu_s for r in rounds),
            "async_written": median(r.async_.until_written.cpu_s for r in rounds),
        },
        "goal_ratio": goal,
        "goal_met": None if goal is None else none_ratio >= goal,
        "rounds_ratio": [round(r.none.until_generated.rate / r.raw.rate, 3) for r in rounds],
    }
