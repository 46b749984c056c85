"""The source demos that generators draw from; it may grow while they run."""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe import poses
from mimicpipe.datagen.checks import check_finite, check_rotations, check_shapes, check_targets_are_followed
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.segments import Boundaries, find_boundaries, find_skill_starts
from mimicpipe.datagen.settling import gripper_changes
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.subtask import SubtaskConfigs, check_subtask_configs
from mimicpipe.datagen.timeline import GrowingRows, Timeline
from mimicpipe.errors import SourceDemoError
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.run_state import RunState

DemoReader = Callable[[Path], Sequence[SourceDemo]]
"""Reads every demo of a file."""


class PoolLock(asyncio.Lock):
    """A lock that knows which task holds it, so that waiting for a queue under it is refused instead of a deadlock."""

    def __init__(self) -> None:
        super().__init__()
        self._owner: asyncio.Task[object] | None = None

    async def acquire(self) -> Literal[True]:
        """Wait for the lock and take it."""
        await super().acquire()
        self._owner = asyncio.current_task()
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._owner = None
        super().release()

    def held_by_current_task(self) -> bool:
        """Whether the calling task holds the lock."""
        return self._owner is not None and self._owner is asyncio.current_task()


class DataGenInfoPool:
    """Source demos, checked and cut into segments when they are added.

    Adding is synchronous at its core (`_add_episode`), so a planner, which runs between two awaits, sees a demo
    completely or not at all. Which demos an attempt may choose from is its `visible` count: demos are numbered in the
    order they were added, and the attempt sees those below the count, however many are added while it runs. By default
    that is the pool's size when the attempt starts; whoever grows a pool and wants the same dataset at every num_envs
    passes a count that depends on the attempt's index alone.

    A pool belongs to the thread that made it, which is that of the run: planners read it without a lock. Another thread
    adds by `asyncio.run_coroutine_threadsafe(pool.add_episode(demo), loop).result()`; adding directly is refused there.

    Args:
        env: the simulator, for the names and sizes of its parts.
        subtask_configs: {eef: its subtasks in order}.
        device: where the trajectories are kept; None is the env's.
        asyncio_lock: taken while demos are added; None makes a `PoolLock`. A plain `asyncio.Lock` works, but awaiting a
            queue under it cannot be noticed.
        reader: reads a dataset file, for `load_from_dataset_file`.
        check_skills: whether a demo must show where its skills begin, as `generator=skillgen` needs.

    Raises:
        ConfigError: the subtasks do not fit the env.
    """

    def __init__(
        self,
        env: MimicSim,
        subtask_configs: SubtaskConfigs,
        device: torch.device | str | None = None,
        asyncio_lock: asyncio.Lock | None = None,
        *,
        reader: DemoReader | None = None,
        check_skills: bool = False,
    ) -> None:
        check_subtask_configs(subtask_configs, env.eef_names, env.object_names)
        self.env = env
        self.eef_names = tuple(env.eef_names)
        self.subtask_configs = {eef: tuple(subtask_configs[eef]) for eef in self.eef_names}
        self.device = torch.device(env.device if device is None else device)
        self.skipped: list[str] = []
        """What was wrong with each demo that `on_error="skip"` left out."""
        referenced = {c.object_ref for configs in self.subtask_configs.values() for c in configs}
        self.object_names = tuple(name for name in env.object_names if name in referenced)
        """Objects that some subtask refers to, in the env's order."""
        self._lock = PoolLock() if asyncio_lock is None else asyncio_lock
        self._reader = reader
        self._check_skills = check_skills
        self._thread = threading.get_ident()
        self._infos: list[DatagenInfo] = []
        self._demos: list[SourceDemo] = []
        self._names: list[str] = []
        self._starts = GrowingRows(1)
        self._boundaries = {eef: Boundaries(c, i) for i, (eef, c) in enumerate(self.subtask_configs.items())}
        self.timeline = Timeline(self._widths(env.gripper_dim))

    def _widths(self, gripper_dim: int) -> dict[str, int]:
        objects = len(self.object_names)
        widths = {"objects": 16 * objects}
        for eef in self.eef_names:
            widths |= {
                f"change/{eef}": 1,
                f"target/{eef}": 12 + gripper_dim,
                f"eef/{eef}": 16,
                f"in_object/{eef}": 16 * objects,
            }
        return widths

    @property
    def asyncio_lock(self) -> asyncio.Lock:
        """The lock to hold while adding demos. Never await a queue while holding it."""
        return self._lock

    @property
    def datagen_infos(self) -> Sequence[DatagenInfo]:
        """Trajectories of every demo, in the order they were added, on the pool's device."""
        return self._infos

    @property
    def demos(self) -> Sequence[SourceDemo]:
        """Every demo with its actions and states, but without its observations, in the same order."""
        return self._demos

    @property
    def demo_names(self) -> Sequence[str]:
        """Names of the demos, in the same order."""
        return self._names

    @property
    def num_datagen_infos(self) -> int:
        """Number of demos D."""
        return len(self._infos)

    @property
    def subtask_boundaries(self) -> dict[str, npt.NDArray[np.int64]]:
        """{eef: (D, S, 2)} start and end step of each segment, before offsets."""
        return {eef: table.segments for eef, table in self._boundaries.items()}

    @property
    def boundaries(self) -> MappingProxyType[str, Boundaries]:
        """{eef: boundaries with an attempt's offsets}."""
        return MappingProxyType(self._boundaries)

    @property
    def start_times(self) -> npt.NDArray[np.int64]:
        """(D,) where each demo begins on the timeline."""
        return self._starts.array[:, 0]

    async def snapshot(self, env_id: int, attempt: Attempt, run: RunState | None) -> int:  # noqa: ARG002
        """How many of the demos an attempt in slot `env_id` may choose from: the pool's size now.

        A pool that grows answers by the attempt's index alone, and waits until so many demos are there.
        """
        return self.num_datagen_infos

    async def add_episode(self, episode: SourceDemo) -> None:
        """Add one demo under the lock; raises SourceDemoError if it cannot be used."""
        async with self._lock:
            self._add_episode(episode)

    def _add_episode(self, episode: SourceDemo) -> None:
        """Check one demo and append it; an async caller holds the lock.

        Raises:
            SourceDemoError: names the demo and the key. The pool is left as it was.
            RuntimeError: called from another thread than the pool's.
        """
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "a pool is added to in the thread that made it, where the generators run; from another one use "
                "asyncio.run_coroutine_threadsafe(pool.add_episode(demo), loop).result()"
            )
        info = _on_device(episode.info, self.device)
        boundaries = self._check(info, episode.origin or episode.name)
        start = self.timeline.append(self._columns(info))
        self._starts.append([start])
        for eef, found in boundaries.items():
            self._boundaries[eef].append(found)
        self._infos.append(info)
        self._demos.append(replace(episode, info=info, observations={}))
        self._names.append(episode.name)

    def load_from_dataset_file(
        self, path: Path | str, select_demo_keys: Collection[str] | None = None, *, on_error: str = "raise"
    ) -> int:
        """Read a file with the pool's reader and add its demos; returns how many were added.

        Args:
            path: the dataset file.
            select_demo_keys: names of the demos to add; None is all.
            on_error: "raise", or "skip" to leave out a demo that cannot be used and note why in `skipped`.
        """
        if self._reader is None:
            raise SourceDemoError(f"{path}: the pool has no reader for dataset files; pass DataGenInfoPool(reader=...)")
        demos = list(self._reader(Path(path)))
        if select_demo_keys is not None:
            names = [demo.name for demo in demos]
            missing = [key for key in select_demo_keys if key not in names]
            if missing:
                raise SourceDemoError(
                    f"{path}: no demo {', '.join(missing)}; the file has {', '.join(names) or 'none'}"
                )
            demos = [demo for demo in demos if demo.name in select_demo_keys]
        return self.add_demos(demos, on_error=on_error)

    def add_demos(self, demos: Sequence[SourceDemo], *, on_error: str = "raise") -> int:
        """Add demos before the run starts; returns how many were added. `on_error` as in `load_from_dataset_file`."""
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error={on_error!r}: valid are 'raise' and 'skip'")
        added = 0
        for demo in demos:
            try:
                self._add_episode(demo)
            except SourceDemoError as error:
                if on_error == "raise":
                    raise
                self.skipped.append(str(error))
            else:
                added += 1
        return added

    def require_demos(self) -> None:
        """Raise SourceDemoError, with why the first was left out, if there is no demo."""
        if not self.num_datagen_infos:
            why = f", {len(self.skipped)} skipped; the first: {self.skipped[0]}" if self.skipped else ""
            raise SourceDemoError(f"pool: no usable demo{why}")

    def _check(self, info: DatagenInfo, where: str) -> dict[str, list[int]]:
        """Check a demo against env and subtasks; returns its boundaries {eef: S + 1 steps}."""
        for eef in self.eef_names:
            for key, group in (
                ("eef_pose", info.eef_pose),
                ("target_eef_pose", info.target_eef_pose),
                ("gripper_action", info.gripper_action),
            ):
                _require(group, eef, f"{where}: {key}/{eef}: no such end effector")
        for name in self.object_names:
            _require(info.object_poses, name, f"{where}: object_pose/{name}: no such object")
        check_shapes(info, where)
        for eef in self.eef_names:
            width = info.gripper_action[eef].shape[1]
            if width != self.env.gripper_dim:
                raise SourceDemoError(
                    f"{where}: gripper_action/{eef}: {width} numbers a step, the env's gripper takes "
                    f"{self.env.gripper_dim}; convert the demo"
                )
        check_finite(info, where)
        check_rotations(info, where)
        check_targets_are_followed(info, where)
        if self._check_skills:
            for configs in self.subtask_configs.values():
                find_skill_starts(info, configs, where)
        return {eef: find_boundaries(info, configs, where) for eef, configs in self.subtask_configs.items()}

    def _columns(self, info: DatagenInfo) -> dict[str, torch.Tensor]:
        """The demo's rows of every table of the timeline."""
        objects = [info.object_poses[name] for name in self.object_names]
        empty = torch.zeros(info.length, 0, device=self.device)
        columns = {"objects": _grouped(objects) if objects else empty}
        for eef in self.eef_names:
            pose = info.eef_pose[eef]
            relative = [poses.compose(poses.invert(reference), pose) for reference in objects]
            # The last row of a pose is the same everywhere, and these are the tables that much is read from.
            target = info.target_eef_pose[eef][:, :3].flatten(1)
            columns[f"target/{eef}"] = torch.cat((target, info.gripper_action[eef]), dim=1)
            columns[f"change/{eef}"] = gripper_changes(info.gripper_action[eef]).float()[:, None]
            columns[f"eef/{eef}"] = pose.flatten(1)
            columns[f"in_object/{eef}"] = _grouped(relative) if relative else empty
        return columns


def _require(group: dict[str, torch.Tensor], name: str, message: str) -> None:
    if name not in group:
        raise SourceDemoError(f"{message}; the demo has {', '.join(group) or 'none'}")


def _grouped(trajectories: list[torch.Tensor]) -> torch.Tensor:
    """(T, 16 * O): for each component of a pose, its value in each of O trajectories (T, 4, 4)."""
    return torch.stack(trajectories, dim=-1).flatten(1)


def _on_device(info: DatagenInfo, device: torch.device) -> DatagenInfo:
    """The demo as float32 on a device; arrays that already are stay shared."""

    def floats(group: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: value.to(device, torch.float32) for name, value in group.items()}

    def signals(group: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: value.to(device) for name, value in group.items()}

    return DatagenInfo(
        eef_pose=floats(info.eef_pose),
        object_poses=floats(info.object_poses),
        subtask_term_signals=signals(info.subtask_term_signals),
        target_eef_pose=floats(info.target_eef_pose),
        gripper_action=floats(info.gripper_action),
        subtask_start_signals=signals(info.subtask_start_signals),
    )
