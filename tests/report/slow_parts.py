"""Parts of a run that are slow on purpose, so that it is known where the time goes."""

import asyncio
import time
from typing import Any

from mimicpipe.datagen.generator import DataGenerator

PLANNING_S = 0.02
WAITING_S = 0.2


class SlowPlanner(DataGenerator):
    """Every planning call takes `PLANNING_S` longer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plan_batch = self.planner.plan_batch

        def slow(*arguments: Any) -> Any:
            time.sleep(PLANNING_S)
            return plan_batch(*arguments)

        setattr(self.planner, "plan_batch", slow)  # noqa: B010 - a method, which the type checker guards


class Waiter(DataGenerator):
    """Every attempt awaits something else for `WAITING_S` first."""

    async def generate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(WAITING_S)
        return await super().generate(*args, **kwargs)
