"""The tasks that come with the package, found by looking: each module here that defines a `Task` is one."""

import importlib
import inspect
import pkgutil

from mimicpipe.envs import tasks
from mimicpipe.envs.tasks.base import Task


def task_classes() -> dict[str, type[Task]]:
    """{name: its class}, by name; a class is made with its variant, as `cls(variant="D0")`."""
    found = {}
    for info in pkgutil.iter_modules(tasks.__path__, f"{tasks.__name__}."):
        module = importlib.import_module(info.name)
        for cls in vars(module).values():
            if inspect.isclass(cls) and issubclass(cls, Task) and cls.__module__ == info.name and hasattr(cls, "name"):
                found[cls.name] = cls
    return dict(sorted(found.items()))
