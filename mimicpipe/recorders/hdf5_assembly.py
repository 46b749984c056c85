"""From staged episodes to one HDF5 file in Isaac Lab Mimic's layout (see `pools.hdf5_layout`), in the order given.

Camera frames were compressed when they were staged, and go into the file as they are, one chunk a frame. The bytes are
a function of the episodes and of the HDF5 and zlib versions.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mimicpipe.pools.hdf5_layout import STATE_KEY
from mimicpipe.pools.hdf5_writer import LIBVER, set_text, write_array
from mimicpipe.recorders.finished_hdf5 import HEADER
from mimicpipe.recorders.hdf5_columns import path_of
from mimicpipe.recorders.hdf5_sink import Hdf5Sink
from mimicpipe.recorders.layout import HDF5_NAME, Column, columns_of
from mimicpipe.recorders.staged import StagedEpisode

_FORMAT_VERSION = 1  # of Isaac Lab's files; quaternions of its own states are xyzw, and there are none here
_GYM_TYPE = 2  # robomimic's EnvType of a gym environment, which Isaac Lab writes, too
_KEPT = ("fps", "robot_type", "features", "run_info")
_LEVEL = 2  # of gzip, as Isaac Lab's HDF5DatasetFileHandler


def assemble_hdf5(root: Path, header: Mapping[str, Any], episodes: Iterable[StagedEpisode]) -> int:
    """Write a dataset: the folder `root`, with the file in it.

    Args:
        root: its folder, which does not exist yet.
        header: `features`, `fps`, `robot_type` and `run_info`.
        episodes: its episodes, in order; they may be made one by one.

    Returns:
        The number of episodes.

    Raises:
        OSError: the disk is full, or fails.
    """
    root.mkdir()
    columns = columns_of(header["features"])
    count = frames = 0
    sink = Hdf5Sink(root / HDF5_NAME)
    try:
        with h5py.File(sink, "w", libver=LIBVER) as file:
            file.attrs["format_version"] = np.int64(_FORMAT_VERSION)
            data = file.create_group("data")
            set_text(data, "env_args", json.dumps(_env_args(header), sort_keys=True))
            set_text(data, HEADER, json.dumps({key: header[key] for key in _KEPT}, sort_keys=True))
            for episode in episodes:
                _write_demo(data.create_group(f"demo_{count}"), episode, columns)
                sink.check()
                count, frames = count + 1, frames + episode.length
            data.attrs["total"] = np.int64(frames)
        sink.check()
    finally:
        sink.close()
    return count


def _env_args(header: Mapping[str, Any]) -> dict[str, Any]:
    """What robomimic expects to know of the env, and where the demos come from."""
    run_info = header["run_info"] or {}
    known = {"fps": header["fps"], "robot_type": header["robot_type"]}
    return {"env_name": f"mimicpipe-{run_info.get('name', 'env')}", "type": _GYM_TYPE, "env_kwargs": known | run_info}


def _write_demo(group: h5py.Group, episode: StagedEpisode, columns: Iterable[Column]) -> None:
    row = episode.row
    group.attrs["num_samples"] = np.int64(episode.length)
    group.attrs["success"] = np.bool_(row["success"])
    for name in ("seed", "attempt"):
        group.attrs[name] = np.int64(row[name])
    for name in ("reason", "source_demos", "metadata"):
        set_text(group, name, row[name])
    set_text(group, "task", episode.task)
    for column in columns:
        path = path_of(column.name)
        if column.is_camera:
            write_frames(group, path, column, episode.cameras[column.name].files)
            continue
        values = episode.columns[column.name]
        # Signals have no axis of their own in this layout.
        write_array(group, path, values[:, 0] if "_signals/" in path else values, _LEVEL)
    if len(row["initial_state"]):
        write_array(group, STATE_KEY, np.asarray(row["initial_state"], np.float64), _LEVEL)


def write_frames(group: h5py.Group, path: str, column: Column, frames: list[bytes]) -> None:
    """Make a dataset (T, *shape) of frames that zlib has compressed, one chunk a frame."""
    dataset = group.create_dataset(
        path,
        shape=(len(frames), *column.shape),
        dtype=column.numpy_dtype.newbyteorder("<"),
        chunks=(1, *column.shape),
        compression="gzip",
        compression_opts=_LEVEL,
        track_times=False,
    )
    for number, frame in enumerate(frames):
        dataset.id.write_direct_chunk((number, *(0,) * len(column.shape)), frame)
