"""Where each subtask's segment begins and ends in a source demo, and how an attempt shifts those boundaries; and where
its skill begins (SkillGen).

A demo with S subtasks has S + 1 boundaries: 0 is where the first segment starts, i + 1 is where segment i ends and
segment i + 1 starts. An attempt adds to every boundary of every demo an offset drawn from the attempt's stream OFFSETS
at a position fixed by (eef, boundary, demo): the same whichever demos are looked at, in whatever batch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mimicpipe import rng
from mimicpipe.datagen.checks import rising_edge
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.datagen.timeline import GrowingRows
from mimicpipe.errors import SourceDemoError

_Ints = npt.NDArray[np.int64]

_EEF_STRIDE = 1 << 48
_BOUNDARY_STRIDE = 1 << 32
"""Stream positions of an eef's boundary b and demo d: eef * _EEF_STRIDE + b * _BOUNDARY_STRIDE + d."""


def find_boundaries(info: DatagenInfo, configs: Sequence[SubTaskConfig], where: str) -> list[int]:
    """The S + 1 boundaries of a demo, before offsets.

    A subtask ends one step after its signal's first 0→1 edge, so its segment holds the step at which the signal is
    first true; without a signal it ends with the demo.

    Raises:
        SourceDemoError: a signal is missing, never goes 0→1 or goes out of order, or the demo is shorter than the
            offset ranges allow.
    """
    boundaries = [0]
    signals: list[str] = []
    for index, config in enumerate(configs):
        name = config.subtask_term_signal
        if name is None:
            boundaries.append(info.length)
            continue
        key = f"{where}: subtask_term_signals/{name}"
        if name not in info.subtask_term_signals:
            raise SourceDemoError(
                f"{key}: no such signal, which ends subtask {index}; "
                f"the demo has {', '.join(info.subtask_term_signals) or 'none'}"
            )
        end = rising_edge(info.subtask_term_signals[name], key) + 1
        if end <= boundaries[-1]:
            raise SourceDemoError(
                f"{key}: out of order, it goes 0→1 at step {end - 1}, but {signals[-1]!r}, which ends the subtask "
                f"before, at step {boundaries[-1] - 1}; annotate the demo again or reorder task.subtasks"
            )
        boundaries.append(end)
        signals.append(name)
    _check_offsets_fit(boundaries, configs, info.length, where)
    return boundaries


def offset_ranges(configs: Sequence[SubTaskConfig]) -> list[tuple[int, int]]:
    """[low, high] of the offset of each of the S + 1 boundaries."""
    return [configs[0].first_subtask_start_offset_range, *(config.subtask_term_offset_range for config in configs)]


def _check_offsets_fit(boundaries: list[int], configs: Sequence[SubTaskConfig], length: int, where: str) -> None:
    """No segment may become empty, nor reach over the demo's end, whatever offsets are drawn."""
    ranges = offset_ranges(configs)
    for index in range(len(configs)):
        latest_start = boundaries[index] + ranges[index][1]
        earliest_end = boundaries[index + 1] + ranges[index + 1][0]
        if latest_start >= earliest_end:
            raise SourceDemoError(
                f"{where}: subtask {index} can become empty: with its offsets it starts as late as step {latest_start} "
                f"and ends as early as step {earliest_end}; narrow the offset ranges or remove the demo"
            )
        latest_end = boundaries[index + 1] + ranges[index + 1][1]
        if latest_end > length:
            raise SourceDemoError(
                f"{where}: the demo has {length} steps, but with its offset subtask {index} ends as late as step "
                f"{latest_end}; narrow subtask_term_offset_range or remove the demo"
            )


def find_skill_starts(info: DatagenInfo, configs: Sequence[SubTaskConfig], where: str) -> list[int]:
    """The step at which each of S skills begins, before offsets; 0 where a subtask has no start signal.

    Raises:
        SourceDemoError: a start signal is missing or not true before the subtask ends, or offsets can leave nothing.
    """
    boundaries, ranges = find_boundaries(info, configs, where), offset_ranges(configs)
    starts = []
    for index, config in enumerate(configs):
        if config.subtask_start_signal is None:
            starts.append(0)
            continue
        start = _first_true(info, config, boundaries[index] + (ranges[index][1] if index else 0), where)
        latest = start + config.subtask_start_offset_range[1]
        end = boundaries[index + 1] + ranges[index + 1][0]
        if latest >= end:
            raise SourceDemoError(
                f"{where}: the skill of subtask {index} can become empty: it starts as late as step {latest} and ends "
                f"as early as step {end}; narrow the offset ranges, annotate the demo again or remove it"
            )
        starts.append(start)
    return starts


def _first_true(info: DatagenInfo, config: SubTaskConfig, earliest: int, where: str) -> int:
    name = str(config.subtask_start_signal)
    key = f"{where}: subtask_start_signals/{name}"
    if name not in info.subtask_start_signals:
        raise SourceDemoError(
            f"{key}: no such signal, where a skill begins; the demo has "
            f"{', '.join(info.subtask_start_signals) or 'none'}; annotate the demo again, or use generator=mimicgen"
        )
    steps = info.subtask_start_signals[name][earliest:].bool().nonzero()
    if steps.shape[0] == 0:
        raise SourceDemoError(
            f"{key}: not true at step {earliest}, where the subtask before ends at the latest, or after it; annotate "
            "the demo again or remove it"
        )
    return earliest + int(steps[0, 0])


class Boundaries:
    """Boundaries of all demos of a pool for one eef.

    Args:
        configs: the eef's subtasks.
        eef_index: its index in the env's order; keeps the eefs' offsets independent.
    """

    def __init__(self, configs: Sequence[SubTaskConfig], eef_index: int) -> None:
        ranges = np.asarray(offset_ranges(configs), dtype=np.int64)
        self._low = ranges[:, 0]
        self._span = ranges[:, 1] - ranges[:, 0] + 1
        self._base = GrowingRows(len(ranges))
        self._stream_base = eef_index * _EEF_STRIDE

    def append(self, boundaries: Sequence[int]) -> None:
        """Add a demo's boundaries, from `find_boundaries`."""
        self._base.append(boundaries)

    @property
    def segments(self) -> _Ints:
        """(D, S, 2) start and end of each segment, before offsets."""
        base = self._base.array
        return np.stack((base[:, :-1], base[:, 1:]), axis=-1)

    def of_segments(self, seeds: rng.Seeds, subtask: _Ints, demos: _Ints) -> _Ints:
        """(2, K) start and end of one subtask's segment in one demo for each of K attempts; all arguments (K,)."""
        boundary = np.concatenate((subtask, subtask + 1))
        seeds, demos = np.concatenate((seeds, seeds)), np.concatenate((demos, demos))
        base = self._base.array[demos, boundary] + self._low[boundary]
        return (base + self._draw(seeds, boundary, demos, 1)[:, 0]).reshape(2, -1)

    def of_first_demos(self, seeds: rng.Seeds, boundary: _Ints, count: int) -> _Ints:
        """(K, count) one boundary in each of the first `count` demos for each of K attempts, offset included."""
        base = self._base.array[:count, boundary].T + self._low[boundary][:, None]
        return base + self._draw(seeds, boundary, np.zeros_like(boundary), count)

    def _draw(self, seeds: rng.Seeds, boundary: _Ints, first_demo: _Ints, count: int) -> _Ints:
        """(K, count) offsets above the range's low end."""
        span = self._span[boundary][:, None]
        if (span == 1).all():
            return np.zeros((len(seeds), count), dtype=np.int64)
        position = self._stream_base + boundary * _BOUNDARY_STRIDE + first_demo
        return (rng.uniforms(seeds, rng.Stream.OFFSETS, count, offset=position) * span).astype(np.int64)
