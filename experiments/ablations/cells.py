"""The settings of the experiment, each a change of one factor, and the success of one setting in one task."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.generation_success.cells import wilson
from experiments.harness import Parts, built, compose, run_pipeline

TASKS = ("pick", "stack", "square")
VARIANTS = ("D0", "D1")
_SUBTASKS = tuple(f"task.subtasks.panda.{index}" for index in range(2))
"""All three tasks have two subtasks of one arm."""


@dataclass(frozen=True)
class Setting:
    """One factor at one value; everything else is as the task's config has it."""

    factor: str
    value: str
    overrides: tuple[str, ...] = ()
    tasks: tuple[str, ...] = TASKS
    """Those it can be tried in."""


BASE = Setting("as configured", "")


def _each(key: str, value: str) -> tuple[str, ...]:
    return tuple(f"{subtask}.{key}={value}" for subtask in _SUBTASKS)


def _strategy(name: str) -> Setting:
    # Away with the arguments of the task's own strategy: a mapping on the command line is merged, not replaced.
    without = tuple(f"~{subtask}.selection_strategy_kwargs" for subtask in _SUBTASKS)
    return Setting("selection strategy", name, (*without, *_each("selection_strategy", name)))


def _settings() -> Iterator[Setting]:
    yield BASE
    for name in ("random", "nearest_neighbor_object", "nearest_neighbor_robot_distance", "balanced"):
        yield _strategy(name)
    for value, name in (("false", "attempt"), ("true", "subtask")):
        yield Setting("a source demo for each", name, (f"task.datagen.generation_select_src_per_subtask={value}",))
    for count, name in (("1", "1"), ("3", "3"), ("null", "10")):  # ten come with each task
        yield Setting("source demos", name, (f"pool.max_demos={count}",))
    for steps in ("0", "5", "15", "50"):
        yield Setting("interpolation steps", steps, _each("num_interpolation_steps", steps))
    for scale in ("0", "0.03", "0.1", "0.2"):
        yield Setting("action noise", scale, _each("action_noise", scale))
    for low, high in ((0, 0), (5, 10), (10, 20)):
        offset = f"{_SUBTASKS[0]}.subtask_term_offset_range=[{low},{high}]"
        tasks = TASKS if high < 20 else ("stack", "square")  # pick is over less than 20 steps behind the grasp
        yield Setting("offset of the segment's end", f"{low} to {high}", (offset,), tasks)
    for error in ("0", "2.5", "5", "10"):
        noise = {"position": float(error) / 1000, "rotation": round(math.radians(float(error)), 4)}
        overrides = tuple(f"generator.pose_noise.{key}={value}" for key, value in noise.items())
        yield Setting("error of objects' poses", f"{error} mm, {error}°", overrides, ("pick", "stack"))


SETTINGS = tuple(_settings())


@dataclass(frozen=True)
class Cell:
    """A setting in a task and variant."""

    setting: Setting
    task: str
    variant: str

    def overrides(self, attempts: int | None = None) -> tuple[str, ...]:
        """The cell on `run.py`'s command line; None: as many attempts as conf/experiment/ablations.yaml has."""
        budget = () if attempts is None else (f"num_demos={attempts}", f"max_attempts={attempts}")
        what = "experiment=ablations", f"task={self.task}", f"task.variant={self.variant}"
        return (*what, *self.setting.overrides, *budget)

    def config_hash(self, attempts: int | None = None) -> str:
        """Equal where two settings come to the same."""
        return compose(*self.overrides(attempts)).hash()

    def measure(self, attempts: int | None = None) -> dict[str, Any]:
        """Make the attempts: one row."""
        with built(*self.overrides(attempts)) as parts:
            return self._row(parts)

    def _row(self, parts: Parts) -> dict[str, Any]:
        state = run_pipeline(parts).state
        budget, reasons = state.budget, dict(state.counters.reasons)
        rate, interval = budget.successes / budget.attempts, wilson(budget.successes, budget.attempts)
        return {
            "factor": self.setting.factor,
            "value": self.setting.value,
            "task": self.task,
            "variant": self.variant,
            "attempts": budget.attempts,
            "successes": budget.successes,
            "success_rate": rate,
            "wilson_95": list(interval),
            "failures": {reason: count for reason, count in sorted(reasons.items()) if reason != "success"},
            "config_hash": parts.config.hash(),
        }


CELLS = tuple(
    Cell(setting, task, variant)
    for task in TASKS
    for variant in VARIANTS
    for setting in SETTINGS
    if task in setting.tasks
)
