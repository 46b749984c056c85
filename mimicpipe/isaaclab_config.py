"""What a run with `env=isaaclab` must keep to, before anything is imported."""

from collections.abc import Callable, Iterable
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.schema import show

ISAACLAB_ENV = "mimicpipe.envs.isaaclab.env.IsaacLabEnv"
ISAACLAB_TASK = "mimicpipe.envs.isaaclab.task.IsaacLabTask"
SOURCE_DEMOS = {"Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0": "pick", "Mimicpipe-Pick-Panda-IK-Abs-Mimic-v0": "pick"}
"""{gym id: the task whose bundled source demos serve it}: the same robot and task, in the same frames."""


def check_isaaclab_task(task: str | None, env: str | None) -> None:
    """Raise ConfigError where the `_target_` of `task` is that of task=isaaclab, and that of `env` another env's."""
    if task == ISAACLAB_TASK and env != ISAACLAB_ENV:
        raise ConfigError("task=isaaclab: is the task of an Isaac Lab environment; use it with env=isaaclab")


def check_isaaclab(run: dict[str, Any], is_allowed: Callable[[str, Iterable[str]], bool]) -> None:
    """Raise ConfigError where env=isaaclab cannot do what `task` or its own keys say."""
    env, task = run["env"], run["task"]
    if env["_target_"] != ISAACLAB_ENV:
        return
    if task["_target_"] != ISAACLAB_TASK:
        raise ConfigError(f"env=isaaclab: its task is env.task={env['task']}; use task=isaaclab, not {task['name']}")
    package, _, _ = env["task"].rpartition(":")
    if package and not is_allowed(package, run["allowed_targets"]):
        raise ConfigError(f"env.task={env['task']}: {package} would be imported; add it to allowed_targets first")
    if env["configure"] is not None and not isinstance(env["configure"], dict):
        raise ConfigError(f"env.configure={show(env['configure'])}: expected a mapping with _target_ and _partial_")
