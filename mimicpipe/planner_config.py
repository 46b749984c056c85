"""Schemas of the group `planner`, and which planner serves which env."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from mimicpipe.errors import ConfigError
from mimicpipe.generator_config import SKILL_GENERATOR
from mimicpipe.schema import at_least, within

LINEAR_PLANNER = "mimicpipe.planners.linear.LinearPlanner"
RRT_PLANNER = "mimicpipe.planners.rrt.RrtPlanner"
_MUJOCO_ENV = "mimicpipe.envs.mujoco.env.MujocoEnv"


def _above(default: float, most: float) -> Any:
    return field(default=default, metadata={"above": 0, "max": most})


_SLOWEST = 0.001
"""Least speed, m/s and rad/s: a way would take minutes, longer than an episode, and nothing is gained below."""


@dataclass
class PlannerConfig:
    """`planner`: what every planner has."""

    _target_: str = MISSING
    _convert_: str = "all"


@dataclass
class LinearPlannerConfig(PlannerConfig):
    """`planner=linear`."""

    max_speed: float = within(_SLOWEST, 10, 0.25)
    max_turn: float = within(_SLOWEST, 100, 1.5)
    settle_steps: int = at_least(0, 2)


@dataclass
class RrtPlannerConfig(LinearPlannerConfig):
    """`planner=rrt`."""

    workers: int | None = at_least(1, None)
    joint_speed: float = within(_SLOWEST, 1, 0.5)
    clearance: float = _above(0.005, 0.1)
    max_iterations: int = within(1, 1_000_000, 600)
    goal_tries: int = within(1, 100_000, 12)
    shortcuts: int = within(0, 100_000, 120)
    timeout_s: float = within(1, 1_000_000, 30.0)  # a process that is replaced takes seconds to start


PLANNER_SCHEMAS: dict[str, type] = {
    LINEAR_PLANNER: LinearPlannerConfig,
    RRT_PLANNER: RrtPlannerConfig,
}


def check_planner(run: dict[str, Any]) -> None:
    """Raise ConfigError where the run's generator would use a planner that cannot serve its env."""
    used = run["generator"]["_target_"] == SKILL_GENERATOR and run["planner"]["_target_"] == RRT_PLANNER
    if used and run["env"]["_target_"] != _MUJOCO_ENV:
        raise ConfigError("planner=rrt: needs the collision model of env=mujoco; use planner=linear with this env")
