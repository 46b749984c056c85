"""Scripted experts of the tasks that come with the package: module `<task>` has `expert(task)`, its moves."""

import importlib
import pkgutil
from collections.abc import Callable

from mimicpipe.envs.tasks.base import Task
from mimicpipe.pools.experts import EXPERTS, Script

Expert = Callable[[Task], Script]


def expert_named(task_name: str) -> Expert | None:
    """The expert of a task: one registered in `EXPERTS`, or the one of this folder; None where there is neither."""
    if task_name in EXPERTS:
        return EXPERTS[task_name]
    if task_name not in _bundled():
        return None
    expert: Expert = importlib.import_module(f"{__name__}.{task_name}").expert
    return expert


def expert_names() -> list[str]:
    """Tasks that have an expert."""
    return sorted({*EXPERTS, *_bundled()})


def _bundled() -> list[str]:
    return [info.name for info in pkgutil.iter_modules(__path__)]
