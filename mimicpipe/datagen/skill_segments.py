"""Where the skills of source demos begin and end: SkillMimicGen's cut (Garrett et al., "SkillMimicGen", CoRL 2024).

A demo's subtask is a way to the object and a skill at it. The skill begins at the first step, from where the subtask
before has ended, at which the subtask's start signal is true; it ends where the subtask does. What lies between two
skills is left out: generation plans that way anew. A subtask without a start signal is all skill.
"""

import numpy as np
import numpy.typing as npt

from mimicpipe import rng
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.segments import find_skill_starts
from mimicpipe.datagen.timeline import GrowingRows

_Ints = npt.NDArray[np.int64]

_EEF_STRIDE = 1 << 48
_SUBTASK_STRIDE = 1 << 32
_BEHIND = 1 << 62
"""Stream positions of an eef's subtask s and demo d: _BEHIND, where the boundaries' own offsets do not reach, and eef *
_EEF_STRIDE + s * _SUBTASK_STRIDE + d."""


class SkillSegments:
    """Skills of all demos of a pool for one eef, with an attempt's offsets; it follows a pool that grows.

    Args:
        pool: the source demos.
        eef: whose skills.

    Raises:
        SourceDemoError: as `find_skill_starts`, for a demo of the pool.
    """

    def __init__(self, pool: DataGenInfoPool, eef: str) -> None:
        self._pool, self._eef = pool, eef
        self._configs = pool.subtask_configs[eef]
        self._starts = GrowingRows(len(self._configs))
        ranges = np.asarray([config.subtask_start_offset_range for config in self._configs], dtype=np.int64)
        self._low, self._span = ranges[:, 0], ranges[:, 1] - ranges[:, 0] + 1
        self._has_way = np.asarray([config.subtask_start_signal is not None for config in self._configs])
        self._stream_base = _BEHIND + pool.eef_names.index(eef) * _EEF_STRIDE
        self.update()

    def update(self) -> None:
        """Take in the demos that were added since."""
        pool = self._pool
        for number in range(len(self._starts.array), pool.num_datagen_infos):
            info, name = pool.datagen_infos[number], pool.demo_names[number]
            self._starts.append(find_skill_starts(info, self._configs, name))

    def of_segments(self, seeds: rng.Seeds, subtask: _Ints, demos: _Ints) -> _Ints:
        """(2, K) start and end of one subtask's skill in one demo for each of K attempts; all arguments (K,)."""
        whole, end = self._pool.boundaries[self._eef].of_segments(seeds, subtask, demos)
        begin = self._starts.array[demos, subtask] + self._offsets(seeds, subtask, demos, 1)[:, 0]
        return np.stack((np.where(self._has_way[subtask], begin, whole), end))

    def of_first_demos(self, seeds: rng.Seeds, subtask: _Ints, count: int) -> _Ints:
        """(K, count) where one subtask's skill starts in each of the first `count` demos for each of K attempts."""
        whole = self._pool.boundaries[self._eef].of_first_demos(seeds, subtask, count)
        begin = self._starts.array[:count, subtask].T + self._offsets(seeds, subtask, np.zeros_like(subtask), count)
        return np.where(self._has_way[subtask][:, None], begin, whole)

    def _offsets(self, seeds: rng.Seeds, subtask: _Ints, first_demo: _Ints, count: int) -> _Ints:
        position = self._stream_base + subtask * _SUBTASK_STRIDE + first_demo
        draws = rng.uniforms(seeds, rng.Stream.OFFSETS, count, offset=position)
        return self._low[subtask][:, None] + (draws * self._span[subtask][:, None]).astype(np.int64)
