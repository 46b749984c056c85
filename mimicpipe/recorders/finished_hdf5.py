"""Reads a file of `recorder=hdf5` as staged episodes again, so that files can be joined and gone on with."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5_access import child, guarded, open_hdf5, read_array
from mimicpipe.pools.hdf5_layout import STATE_KEY
from mimicpipe.recorders.camera_encoder import VideoSettings, described
from mimicpipe.recorders.hdf5_columns import path_of
from mimicpipe.recorders.layout import FORMAT, HDF5, HDF5_NAME, Column, columns_of
from mimicpipe.recorders.staged import EncodedCamera, StagedEpisode

HEADER = "mimicpipe"
"""Attribute of the group `data`: what the file was written from, as JSON."""
_TEXTS = ("reason", "source_demos", "metadata")


class FinishedHdf5:
    """The file that `recorder=hdf5` has written; the members are those of `FinishedDataset`.

    Args:
        root: its folder.

    Raises:
        ConfigError: it is something else.
    """

    encoding: dict[str, Any] | None = None
    pixels: dict[str, Any] | None = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self._path = root / HDF5_NAME
        try:
            with open_hdf5(self._path) as file:
                data = self._data(file)
                with guarded(f"{self._path}: data"):
                    known, self._length = json.loads(data.attrs[HEADER]), len(data)
        except SourceDemoError as error:
            raise ConfigError(f"{self._path}: not written by recorder=hdf5 ({error})") from None
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "layout": HDF5,
            "use_videos": False,
            "video": described(VideoSettings()),
            **{key: known[key] for key in ("fps", "robot_type", "features", "run_info")},
        }

    def __len__(self) -> int:
        """Number of episodes."""
        return self._length

    @property
    def metas(self) -> list[Mapping[str, Any]]:
        """`index`, `length`, `attempt`, `seed`, `success`, `reason` and `source_demos` (JSON) of each episode."""
        with open_hdf5(self._path) as file:
            rows = [self._row(demo, where) for demo, where in self._demos(file)]
        return [
            {"index": index, **{key: value for key, value in row.items() if key not in ("metadata", "task")}}
            for index, row in enumerate(rows)
        ]

    def __iter__(self) -> Iterator[StagedEpisode]:
        """The episodes, in order, one in memory at a time."""
        columns = columns_of(self.header["features"])
        with open_hdf5(self._path) as file:
            for demo, where in self._demos(file):
                row = self._row(demo, where)
                length, task = row.pop("length"), row.pop("task")
                state = child(demo, STATE_KEY, where)
                row["initial_state"] = read_array(state, where) if isinstance(state, h5py.Dataset) else np.zeros(0)
                numeric, cameras = {}, {}
                for column in columns:
                    dataset = child(demo, path_of(column.name), where)
                    if not isinstance(dataset, h5py.Dataset):
                        raise ConfigError(f"{where}: no {path_of(column.name)}")
                    if column.is_camera:
                        cameras[column.name] = EncodedCamera(_frames(dataset, column, where), np.zeros(0), 0)
                    else:
                        values = read_array(dataset, where).astype(column.numpy_dtype, copy=False)
                        numeric[column.name] = values.reshape(length, *column.shape)
                yield StagedEpisode(length, task, row, numeric, cameras)

    def _data(self, file: h5py.File) -> h5py.Group:
        data = child(file, "data", f"{self._path}: data")
        if not isinstance(data, h5py.Group):
            raise SourceDemoError(f"{self._path}: data: missing")
        return data

    def _demos(self, file: h5py.File) -> Iterator[tuple[h5py.Group, str]]:
        data = self._data(file)
        for number in range(self._length):
            where = f"{self._path}: demo_{number}"
            demo = child(data, f"demo_{number}", where)
            if not isinstance(demo, h5py.Group):
                raise ConfigError(f"{where}: missing")
            yield demo, where

    @staticmethod
    def _row(demo: h5py.Group, where: str) -> dict[str, Any]:
        with guarded(where):
            attributes = dict(demo.attrs)
            return {
                "length": int(attributes["num_samples"]),
                "success": bool(attributes["success"]),
                **{key: int(attributes[key]) for key in ("attempt", "seed")},
                **{key: attributes[key].decode() for key in (*_TEXTS, "task")},
            }


def _frames(dataset: h5py.Dataset, column: Column, where: str) -> list[bytes]:
    """Frames as zlib has compressed them."""
    with guarded(where):
        origin = (0,) * len(column.shape)
        return [bytes(dataset.id.read_direct_chunk((frame, *origin))[1]) for frame in range(dataset.shape[0])]
