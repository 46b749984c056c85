"""Writes the file of a conversion from LeRobot, from episodes that were staged."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mimicpipe.convert.hdf5_head import LEROBOT
from mimicpipe.convert.hdf5_scan import OWN_STATE
from mimicpipe.pools.hdf5_writer import LIBVER, set_text, write_array
from mimicpipe.recorders.hdf5_assembly import write_frames
from mimicpipe.recorders.hdf5_notes import NOTE, array_from_json, attributes_from_json
from mimicpipe.recorders.hdf5_sink import Hdf5Sink
from mimicpipe.recorders.layout import Column, columns_of
from mimicpipe.recorders.staged import StagedEpisode

_LEVEL = 2  # of gzip, as Isaac Lab's HDF5DatasetFileHandler
_GYM_TYPE = 2  # robomimic's EnvType of a gym environment


def write_file(path: Path, header: Mapping[str, Any], episodes: Iterable[StagedEpisode]) -> int:
    """Write it.

    Args:
        path: the file, which does not exist.
        header: of the log: `features` by key in a demo, and `conversion`.
        episodes: they may be made one by one.

    Returns:
        The number of demos.

    Raises:
        OSError: the disk is full, or fails.
    """
    about, columns = header["conversion"], columns_of(header["features"])
    names: list[str] = []
    frames = 0
    sink = Hdf5Sink(path)
    try:
        with h5py.File(sink, "w", libver=LIBVER) as file:
            attributes_from_json(file, about["file_attributes"])
            data = file.create_group("data")
            attributes_from_json(data, about["data_attributes"])
            if "env_args" not in data.attrs:
                known = {"fps": header["fps"], "robot_type": header["robot_type"]}
                args = {"env_name": header["robot_type"] or "env", "type": _GYM_TYPE, "env_kwargs": known}
                set_text(data, "env_args", json.dumps(args, sort_keys=True))
            data.attrs[LEROBOT] = json.dumps(about["lerobot"], sort_keys=True)
            for episode in episodes:
                names.append(_write_demo(data, len(names), episode, columns))
                sink.check()
                frames += episode.length
            data.attrs["total"] = np.int64(frames)
            for mask, members in sorted(about["masks"].items()):
                kept = [name.encode() for name in members if name in set(names)]
                file.create_dataset(f"mask/{mask}", data=np.array(kept, np.bytes_), track_times=False)
        sink.check()
    finally:
        sink.close()
    return len(names)


def _write_demo(data: h5py.Group, number: int, episode: StagedEpisode, columns: list[Column]) -> str:
    row = dict(episode.row)
    metadata = json.loads(row.get("metadata") or "{}")
    note = metadata.pop(NOTE, None) or {}
    name = note.get("demo", f"demo_{number}")
    group = data.create_group(name)
    group.attrs["num_samples"] = np.int64(episode.length)
    foreign = note.get("foreign", False)  # what it was made from has attributes of its own, and no others
    if row.get("success") is not None and not foreign:
        group.attrs["success"] = np.bool_(row["success"])
    if "attempt" in row and not foreign:
        for key in ("seed", "attempt"):
            group.attrs[key] = np.int64(row[key])
        for key in ("reason", "source_demos"):
            set_text(group, key, row[key])
        set_text(group, "metadata", json.dumps(metadata, ensure_ascii=False, sort_keys=True))
    set_text(group, "task", episode.task)
    attributes_from_json(group, note.get("attributes", {}))
    for column in columns:
        if column.is_camera:
            write_frames(group, column.name, column, episode.cameras[column.name].files)
        else:
            write_array(group, column.name, episode.columns[column.name], _LEVEL)
    for path, array in note.get("arrays", {}).items():
        group.create_dataset(path, data=array_from_json(array), track_times=False)
    if len(row["initial_state"]):
        write_array(group, OWN_STATE, np.asarray(row["initial_state"], np.float64), _LEVEL)
    return name
