"""`pool=growing`: successful episodes become source demos, while generators run.

    attempt succeeds ──► waits for all earlier ones ──► rule: rate, diversity ──► the next demo of the pool
                                                                                        │
    attempt k sees the demos that attempts before k - delay have given ◄────────────────┘

Outcomes are settled in attempt order, and the rule looks at nothing else, so which demos there are, and which of them
attempt k may choose from, is a function of the attempts' indices: the same at every num_envs.
"""

import asyncio
import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.selection import pose_distance
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import SourceDemoError
from mimicpipe.pipeline.episode import Attempt, Outcome
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pools.base import OnError
from mimicpipe.pools.hdf5 import Hdf5Pool
from mimicpipe.recorders.hdf5_columns import datagen_columns

_TURN_WEIGHT = 0.1
"""A turn of one radian counts as this many metres."""


class CustomDataGenInfoPool(DataGenInfoPool):
    """A pool that takes up demos from anywhere while generators run; a subclass says how a source becomes a demo."""

    async def add_from_custom_source(self, source: Any) -> None:
        """Convert a source and add it under the lock; never await a queue while holding it.

        Raises:
            SourceDemoError: it cannot be used; the pool is left as it was.
        """
        async with self.asyncio_lock:
            self._add_episode(self._convert_source_to_episode(source))

    def _convert_source_to_episode(self, source: Any) -> SourceDemo:
        return source


@dataclass(frozen=True, slots=True)
class Success:
    """A successful episode, T steps."""

    attempt: int
    initial_state: Tensor
    actions: Tensor
    columns: dict[str, Tensor]
    """Those of `datagen_columns`."""


class GrowingPool(CustomDataGenInfoPool):
    """Begins with the demos of a file and takes up episodes of the run.

    Args:
        env, subtask_configs: as `DataGenInfoPool`.
        path, demo_keys, max_demos, on_error: as `Hdf5Pool`, for the demos that it begins with.
        every: take up one of so many successes, at most.
        min_distance: metres by which the objects of a new demo must have begun apart from those of every other one,
            all taken together; a turn of 1 rad counts as 0.1 m.
        limit: demos at which it stops growing.
        delay: attempt k sees the demos given by attempts before k - delay, and waits for these. As many attempts as
            this can run at the same time, so it should be larger than num_envs, twice for full speed.
        check_skills: as `DataGenInfoPool`.
    """

    def __init__(
        self,
        env: MimicEnv,
        subtask_configs: SubtaskConfigs,
        path: str | Path | Sequence[str | Path],
        demo_keys: Sequence[str] | None = None,
        max_demos: int | None = None,
        on_error: OnError = "raise",
        every: int = 10,
        min_distance: float = 0.02,
        limit: int = 100,
        delay: int = 128,
        check_skills: bool = False,
    ) -> None:
        super().__init__(env, subtask_configs, check_skills=check_skills)
        read = Hdf5Pool(path, demo_keys, max_demos, on_error).load(env, subtask_configs)
        self.add_demos(read.demos, on_error=on_error)
        self.skipped[:0] = [f"{demo}: {reason}" for demo, reason in read.skipped]
        self.require_demos()
        self._every, self._min_distance, self._limit, self._delay = every, min_distance, limit, delay
        self._begun_with = self.num_datagen_infos
        self._given_by: list[int] = []
        """Attempts that have given a demo, in order."""
        self._successes: dict[int, Success] = {}
        self._since_last = 0
        self._settled = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    # ---- what the run tells

    def frame(self, env: MimicEnv, env_ids: Tensor | None, actions: Tensor) -> dict[str, Tensor]:
        """See `pipeline.trace.EpisodeWatcher`."""
        return datagen_columns(env, env_ids, actions)

    def succeeded(self, outcome: Outcome, initial_state: Tensor, actions: Tensor, columns: dict[str, Tensor]) -> None:
        """Keep an episode until it is settled."""
        self._successes[outcome.attempt] = Success(outcome.attempt, initial_state, actions, columns)

    def settled(self, outcome: Outcome) -> None:
        """Take the episode up if the rule says so, and let attempts go on that waited for this one."""
        success = self._successes.pop(outcome.attempt, None)
        if success is not None and outcome.success and self.num_datagen_infos < self._limit:
            self._since_last += 1
            if self._since_last >= self._every:
                self._take_up(self._convert_source_to_episode(success))
        self._settled = outcome.attempt + 1
        still = []
        for wanted, future in self._waiting:
            if wanted > self._settled:
                still.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    def _take_up(self, demo: SourceDemo) -> None:
        if self._distance(demo.info) < self._min_distance:
            return
        try:
            # Between two awaits, in the pool's thread, so nobody sees half of it, and no lock is needed.
            self._add_episode(demo)
        except SourceDemoError as error:
            self.skipped.append(str(error))
            return
        self._given_by.append(int(demo.name.removeprefix("attempt_")))
        self._since_last = 0

    def _distance(self, info: DatagenInfo) -> float:
        """How far the demo's objects begin from those of the nearest demo; infinite without objects."""
        if not self.object_names:
            return float("inf")
        there = np.stack([_begins(each, self.object_names) for each in self.datagen_infos])
        apart = pose_distance(there, _begins(info, self.object_names)[None], 1.0, _TURN_WEIGHT)
        return float(apart.sum(axis=1).min())

    def _convert_source_to_episode(self, source: Success) -> SourceDemo:
        groups: dict[str, dict[str, Tensor]] = {}
        for column, values in source.columns.items():
            _, key, name = column.split(".", 2)
            groups.setdefault(key, {})[name] = values
        info = DatagenInfo(
            eef_pose=groups["eef_pose"],
            object_poses=groups.get("object_pose", {}),
            subtask_term_signals=groups.get("subtask_term_signals", {}),
            target_eef_pose=groups["target_eef_pose"],
            gripper_action=groups["gripper_action"],
            subtask_start_signals=groups.get("subtask_start_signals", {}),
        )
        return SourceDemo(f"attempt_{source.attempt}", info, source.actions, source.initial_state)

    # ---- what attempts see

    async def snapshot(self, env_id: int, attempt: Attempt, run: RunState | None) -> int:
        """Demos that attempt k may choose from: those of the file, and those given by attempts before k - delay."""
        wanted = attempt.index - self._delay
        if self._settled < wanted:
            if run is None:
                raise ValueError("a growing pool needs the run, to wait for earlier attempts: generate(..., run=run)")
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((wanted, future))
            with run.away(env_id):
                await future
        return self._begun_with + bisect.bisect_left(self._given_by, wanted)


def _begins(info: DatagenInfo, names: Sequence[str]) -> np.ndarray:
    """(O, 4, 4) poses of the objects at a demo's first step."""
    return np.stack([info.object_poses[name][0].cpu().numpy() for name in names])
