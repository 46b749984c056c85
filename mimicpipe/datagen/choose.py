"""Source demos of the rows of a planning call: chosen where the attempt has none yet, remembered where it has.

What one attempt remembers is one demo for each of its *cells*; `EefSpec.cell` says which subtasks share one.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from mimicpipe import rng
from mimicpipe.datagen import rigid
from mimicpipe.datagen.batch import EefSpec, Ints, Rows, World
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.selection import STRATEGIES, SelectionContext, SelectionStrategy
from mimicpipe.datagen.selection import Floats as SourcePoses
from mimicpipe.datagen.subtask import SubTaskConfig

_NONE = -1


class SegmentStarts(Protocol):
    """Where segments start."""

    def of_first_demos(self, seeds: rng.Seeds, subtask: Ints, count: int, /) -> Ints:
        """(K, count) start of one subtask's segment in each of the first `count` demos for each of K attempts."""
        ...


class DemoChooser:
    """Runs selection strategies and remembers what they chose, for every slot.

    Args:
        pool: the source demos.
        num_envs: number of slots.
        num_cells: demos remembered for each.
        starts: {eef: where segments start, which strategies look at}; None is the pool's own.
    """

    def __init__(
        self,
        pool: DataGenInfoPool,
        num_envs: int,
        num_cells: int,
        starts: Mapping[str, SegmentStarts] | None = None,
    ) -> None:
        self._pool = pool
        self._starts: Mapping[str, SegmentStarts] = pool.boundaries if starts is None else starts
        self._strategies: list[tuple[SelectionStrategy, dict[str, object], bool]] = []
        self._indices = {eef: self._index_all(configs) for eef, configs in pool.subtask_configs.items()}
        self._demo = np.full((num_envs, num_cells), _NONE, dtype=np.int64)

    def _index_all(self, configs: Sequence[SubTaskConfig]) -> Ints:
        """(S,) index into the strategies; subtasks whose strategy, arguments and kind are the same share a call."""
        return np.asarray([self._index(config) for config in configs], dtype=np.int64)

    def _index(self, config: SubTaskConfig) -> int:
        strategy = config.selection_strategy
        function = STRATEGIES[strategy] if isinstance(strategy, str) else strategy
        entry = (function, dict(config.selection_strategy_kwargs), config.object_ref is not None)
        if entry not in self._strategies:
            self._strategies.append(entry)
        return self._strategies.index(entry)

    def forget(self, slots: Ints) -> None:
        """New attempts begin in these slots."""
        self._demo[slots] = _NONE

    def remember(self, spec: EefSpec, batch: Rows, demo: Ints) -> None:
        """Let attempts use a demo (M,) that was chosen elsewhere."""
        self._demo[batch.slots, spec.cell[batch.subtask]] = demo

    def choose(self, spec: EefSpec, batch: Rows, world: World, errors: dict[int, Exception]) -> tuple[Rows, Ints]:
        """The rows that have a source demo, and it (M,); a row whose strategy failed is put into `errors`."""
        cells = spec.cell[batch.subtask]
        demo = self._demo[batch.slots, cells]
        missing = demo == _NONE
        if not missing.any():
            return batch, demo
        strategies = self._indices[spec.name][batch.subtask]
        for number in np.unique(strategies[missing]).tolist():
            at = np.flatnonzero(missing & (strategies == number))
            some = batch if len(at) == len(demo) else batch.take(at)
            try:
                demo[at] = self._run(spec, some, world, number)
            except Exception as error:  # noqa: BLE001 - raised again in the coroutines of these rows
                errors.update(dict.fromkeys(some.rows.tolist(), error))
        self._demo[batch.slots, cells] = demo
        found = demo != _NONE
        return (batch, demo) if found.all() else (batch.take(np.flatnonzero(found)), demo[found])

    def _run(self, spec: EefSpec, batch: Rows, world: World, number: int) -> Ints:
        strategy, kwargs, has_object = self._strategies[number]
        demo = np.asarray(strategy(self._context(spec, batch, world, has_object), **kwargs))
        if demo.shape != batch.rows.shape or demo.dtype != np.int64 or ((demo < 0) | (demo >= batch.visible)).any():
            raise ValueError(
                f"selection strategy {getattr(strategy, '__name__', strategy)} must give {len(batch.rows)} int64 demo "
                f"indices, each below its row's num_demos; got {demo.dtype} of shape {demo.shape}: {demo.tolist()}"
            )
        return demo

    def _context(self, spec: EefSpec, batch: Rows, world: World, has_object: bool) -> SelectionContext:
        timeline, objects, rows = self._pool.timeline, spec.objects[batch.subtask], batch.rows
        parts, starts = len(self._pool.object_names), _Starts(self._pool, self._starts[spec.name], batch)

        def require_object() -> None:
            if not has_object:
                raise ValueError(f"a subtask of {spec.name!r} has no object_ref, so there is no object to measure")

        def now() -> rigid.Floats:
            require_object()
            return world.object_poses(objects, rows)

        def source(table: str) -> SourcePoses:
            require_object()
            return _as_poses(timeline.rows(table, starts.times(), objects[:, None], parts))

        return SelectionContext(
            num_demos=batch.visible,
            uniforms=rng.uniforms(batch.seeds, rng.Stream.SELECTION, 1, offset=spec.draw[batch.subtask])[:, 0],
            eef_pose=lambda: _rows_first(world.eef_poses(spec.name, rows)),
            object_pose=lambda: _rows_first(now()),
            eef_in_object=lambda: _rows_first(rigid.compose(rigid.invert(now()), world.eef_poses(spec.name, rows))),
            source_eef_pose=lambda: _as_poses(timeline.rows(f"eef/{spec.name}", starts.times())),
            source_object_pose=lambda: source("objects"),
            source_eef_in_object=lambda: source(f"in_object/{spec.name}"),
            attempt=lambda: world.attempts(rows),
            run_seed=lambda: world.run_seeds(rows),
            draw=spec.draw[batch.subtask],
        )


def _as_poses(values: SourcePoses) -> SourcePoses:
    """(K, D, 4, 4) view of component-major values (16, K, D)."""
    return values.reshape(4, 4, *values.shape[1:]).transpose(2, 3, 0, 1)


def _rows_first(pose: rigid.Floats) -> SourcePoses:
    """(K, 4, 4) float32 of (3, 4, K)."""
    full = np.empty((4, 4, pose.shape[2]), dtype=np.float32)
    full[:3] = pose
    full[3] = np.asarray([0.0, 0.0, 0.0, 1.0])[:, None]
    return full.transpose(2, 0, 1)


class _Starts:
    """Where the rows' segments start in every demo, drawn when a strategy first asks."""

    def __init__(self, pool: DataGenInfoPool, starts: SegmentStarts, batch: Rows) -> None:
        self._pool, self._starts, self._batch = pool, starts, batch
        self._times: Ints | None = None

    def times(self) -> Ints:
        """(K, D) times on the pool's timeline."""
        if self._times is None:
            batch, pool = self._batch, self._pool
            count = int(batch.visible.max())
            begin = self._starts.of_first_demos(batch.seeds, batch.subtask, count)
            self._times = pool.start_times[:count] + begin
        return self._times
