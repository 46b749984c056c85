"""A LeRobot v3 dataset becomes an HDF5 file of demos in Isaac Lab's or robomimic's layout.

An HDF5 file that is open for writing when its process is killed cannot be opened again. So episodes are appended to a
log beside the target, durably, and the file is written from it in the end: a conversion that was killed goes on.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.convert.feature_plan import Plan, plan_of
from mimicpipe.convert.hdf5_out import write_file
from mimicpipe.convert.lerobot_episodes import (
    Frames,
    Row,
    episode_rows,
    numbers,
    own_columns,
    pictures,
    video_frames,
)
from mimicpipe.convert.options import Converted, Options
from mimicpipe.errors import ConfigError, RecorderError, SourceDemoError
from mimicpipe.pools.lerobot_files import LeRobotFiles, open_dataset
from mimicpipe.recorders.episode_writer import EpisodeWriter
from mimicpipe.recorders.layout import PackedEpisode, columns_of
from mimicpipe.recorders.segment_log import scan, sync_path
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging import check_writable
from mimicpipe.recorders.staging_area import StagingArea, staged_logs, staging_path

_GROUP, _GROUP_BYTES = 64, 1 << 24
"""Most episodes, and bytes, that wait for one sync."""
_FILE = "file.hdf5"


def to_hdf5(source: Path, target: Path, options: Options, say: Callable[[str], None] = print) -> Converted:
    """Convert a dataset; what is skipped is said as it is found.

    Args:
        source: the dataset's folder.
        target: the file.
        options: what is asked for.
        say: takes each line on an episode that is skipped.

    Raises:
        ConfigError: an option, or the target, cannot be.
        SourceDemoError: the dataset cannot be used, no episode is left, or one is broken and `on_error` is "raise".
        RecorderError, OSError: the file cannot be written; what is durable stays, and the same command goes on.
    """
    target = target.expanduser().resolve()
    files = open_dataset(source)
    result = Converted(target, total=len(files.episodes))
    plan = plan_of(files, options, result.notes)
    _check_target(target, options.overwrite)
    area = _take(target, plan.header, options.overwrite)
    if area is None:  # killed when all was done but tidying up
        return _finished(result, target)
    try:
        result.resumed = _stage(area, files, plan, options, result, say)
        run = StagedRun(staged_logs(area.folder))
        _publish(area, plan.header, run, target)
    except (SourceDemoError, ConfigError):
        area.discard()
        raise
    finally:
        area.leave()
    result.episodes, result.frames = len(run), sum(meta["length"] for meta in run.metas)
    return result


def _check_target(target: Path, overwrite: bool) -> None:
    check_writable("TARGET", target)
    if target.is_dir():
        raise ConfigError(f"{target}: is a folder; name a new .hdf5 file")
    if target.exists() and not overwrite and not (staging_path(target) / "assembled").exists():
        raise ConfigError(f"{target}: exists; choose another name, or replace it with --overwrite")


def _take(target: Path, header: Mapping[str, Any], overwrite: bool) -> StagingArea | None:
    """The folder beside the target, with what this conversion has left if it was interrupted; None: it is complete."""
    try:
        area = StagingArea(target, clear=False)
    except RecorderError as error:
        raise ConfigError(str(error)) from None
    try:
        if area.is_assembled and not (area.folder / _FILE).exists():
            area.discard()
            return None
        found = scan(area.log(0))[0] if area.log(0).exists() else None
        if found is not None and found != header:
            if not overwrite:
                raise ConfigError(
                    f"{target}: {area.folder.name} beside it is of another conversion; go on with that, or drop it "
                    "with --overwrite"
                )
            area.log(0).unlink()
        if target.exists() and not overwrite:
            raise ConfigError(f"{target}: exists; choose another name, or replace it with --overwrite")
        for name in ("assembled", _FILE):
            (area.folder / name).unlink(missing_ok=True)
    except BaseException:
        area.leave()
        raise
    return area


def _finished(result: Converted, target: Path) -> Converted:
    import h5py

    with h5py.File(target, "r") as file:
        demos = [int(file["data"][name].attrs["num_samples"]) for name in file["data"]]
    result.episodes = result.resumed = len(demos)
    result.frames = sum(demos)
    return result


def _publish(area: StagingArea, header: Mapping[str, Any], run: StagedRun, target: Path) -> None:
    path = area.folder / _FILE
    write_file(path, header, run)
    sync_path(path)
    (area.folder / "assembled").touch()
    sync_path(area.folder)
    os.replace(path, target)
    sync_path(target.parent)
    area.discard()


def _stage(
    area: StagingArea, files: LeRobotFiles, plan: Plan, options: Options, result: Converted, say: Callable[[str], None]
) -> int:
    """Append what is missing to the log; returns how many episodes were there before."""
    log = area.log(0)
    before = {record.meta["episode"] for record in scan(log)[1]} if log.exists() else set()
    writer = EpisodeWriter(log, plan.header)
    group = _Group(writer)
    frames = Frames(files, plan.in_tables)
    staged = 0
    try:
        for row in episode_rows(files):
            episode = row["episode_index"]
            if staged == options.max_demos:
                break
            if episode not in before:
                try:
                    packed = _packed(files, frames, row, plan, staged)
                except SourceDemoError as error:
                    if options.on_error == "raise":
                        raise
                    result.skipped.append((f"episode_{episode}", str(error)))
                    say(f"skipped {error}")
                    continue
                group.add(packed)
            staged += 1
        group.flush()
    finally:
        writer.close()
        frames.close()
    if staged == 0:
        first = result.skipped[0][1] if result.skipped else "it has none"
        raise SourceDemoError(f"{files.root}: no episode can be converted, {len(result.skipped)} skipped; {first}")
    return len(before)


class _Group:
    """Episodes that are written with one sync."""

    def __init__(self, writer: EpisodeWriter) -> None:
        self._writer = writer
        self._episodes: list[PackedEpisode] = []

    def add(self, episode: PackedEpisode) -> None:
        """Write them if there are enough."""
        self._episodes.append(episode)
        if len(self._episodes) == _GROUP or sum(packed.nbytes for packed in self._episodes) > _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write them."""
        episodes, self._episodes = self._episodes, []
        for error in self._writer.write(episodes).values() if episodes else ():
            raise RecorderError(f"an episode cannot be written: {error}") from error


def _packed(files: LeRobotFiles, frames: Frames, row: Row, plan: Plan, index: int) -> PackedEpisode:
    """One episode, read and checked."""
    episode = row["episode_index"]
    where = f"{files.root}: episode_{episode}"
    table = frames.table(episode, where)
    arrays: dict[str, np.ndarray] = {}
    for name, path in plan.paths.items():
        feature, about = files.features[name], f"{where}: {name}"
        if feature["dtype"] == "video":
            values = video_frames(files, row, name, where)
        elif feature["dtype"] == "image":
            values = pictures(table.column(name), feature, about)
        else:
            values = plan.narrowed(name, numbers(table.column(name), feature, about), about)
        arrays[path] = values
    own = plan.reordered(own_columns(row), where)
    state = np.asarray(own.pop("initial_state", None) or (), np.float64)
    meta = {"index": index, "slot": 0, "length": row["length"], "task": _task(row), "episode": episode}
    kinds = columns_of(plan.header["features"])
    columns = tuple(np.ascontiguousarray(arrays[kind.name]).reshape(row["length"], *kind.shape) for kind in kinds)
    return PackedEpisode({**meta, **own}, state, columns)


def _task(row: Row) -> str:
    tasks = row.get("tasks")
    return tasks[0] if isinstance(tasks, list) and tasks and isinstance(tasks[0], str) else ""
