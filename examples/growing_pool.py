"""A pool that grows while generators run, and a generator that waits for it: attempt k always sees the same demos."""

from collections import deque
from typing import Any

from examples.mirrored_pool import mirrored
from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.datagen.waypoint import RequestPort
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pools.growing import CustomDataGenInfoPool
from mimicpipe.pools.hdf5 import Hdf5Pool


class MirrorPool(CustomDataGenInfoPool):
    """Begins with the demos of a file and takes up their mirror images one by one.

    Args:
        env, subtask_configs: as `DataGenInfoPool`.
        path: the file.
        max_demos, on_error: as `Hdf5Pool`.
    """

    def __init__(
        self, env: MimicEnv, subtask_configs: SubtaskConfigs, path: str, max_demos: int | None, on_error: Any
    ) -> None:
        super().__init__(env, subtask_configs)
        read = Hdf5Pool(path, max_demos=max_demos, on_error=on_error).load(env, subtask_configs)
        self.add_demos(read.demos)
        self._sources = deque(read.demos)

    def _convert_source_to_episode(self, source: SourceDemo) -> SourceDemo:
        return mirrored(source)

    async def grow_to(self, count: int) -> int:
        """Add sources until there are `count` demos, or no source is left; returns how many of them there are."""
        while self.num_datagen_infos < count and self._sources:
            await self.add_from_custom_source(self._sources.popleft())
        return min(count, self.num_datagen_infos)


class GrowingDataGenerator(DataGenerator):
    """One more demo every `every` attempts. What attempt k may choose from depends on k alone, whatever num_envs is."""

    def __init__(self, every: int, **others: Any) -> None:
        super().__init__(**others)
        self._every = every
        self._first = self.src_demo_datagen_info_pool.num_datagen_infos

    async def generate(
        self,
        env_id: int,
        success_term: Any,
        env_reset_queue: RequestPort,
        env_action_queue: RequestPort,
        *,
        attempt: Attempt,
        **_: Any,
    ) -> dict[str, Any]:
        """As `DataGenerator.generate`, from the first demos only."""
        pool = self.src_demo_datagen_info_pool
        assert isinstance(pool, MirrorPool)
        visible = await pool.grow_to(self._first + attempt.index // self._every)
        return await super().generate(
            env_id, success_term, env_reset_queue, env_action_queue, attempt=attempt, visible=visible
        )
