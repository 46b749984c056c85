"""The frames of a LeRobot v3 dataset (`data/chunk-000/file-000.parquet`), written as columns.

The files are those of LeRobot 0.6's writer, byte for byte: one row group an episode, snappy, its schema metadata.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mimicpipe.envs.text import decode_text

if TYPE_CHECKING:
    import pyarrow as pa

CHUNKS_SIZE = 1000
"""Most files of a folder, LeRobot's default."""
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DEFAULT_FEATURES: dict[str, dict[str, Any]] = {
    "timestamp": {"dtype": "float32", "shape": (1,), "names": None},
    "frame_index": {"dtype": "int64", "shape": (1,), "names": None},
    "episode_index": {"dtype": "int64", "shape": (1,), "names": None},
    "index": {"dtype": "int64", "shape": (1,), "names": None},
    "task_index": {"dtype": "int64", "shape": (1,), "names": None},
}
"""Columns that every dataset has."""
_MB = 1024**2

Values = np.ndarray | Sequence[bytes]
"""A column of an episode: (T, *shape), T encoded images, or T texts as `envs.text` has them."""


def next_file(chunk: int, file: int) -> tuple[int, int]:
    """(chunk, file) behind the given one."""
    return (chunk + 1, 0) if file == CHUNKS_SIZE - 1 else (chunk, file + 1)


def default_columns(length: int, fps: int, episode: int, first: int, task: int) -> dict[str, np.ndarray]:
    """The columns LeRobot adds to an episode of `length` frames, with the time in float64, as it computes it.

    Args:
        length: frames T.
        fps: control rate, Hz.
        episode: episode index.
        first: index of the episode's first frame in the dataset.
        task: task index.
    """
    frames = np.arange(length)
    return {
        "timestamp": frames / fps,
        "frame_index": frames,
        "episode_index": np.full(length, episode),
        "index": first + frames,
        "task_index": np.full(length, task),
    }


class DataWriter:
    """Writes episodes into data files of limited size.

    Args:
        root: the dataset's folder.
        features: all features, LeRobot's own included; videos are left out.
        limit_mb: a file that an episode would make larger than this is followed by another one.
    """

    def __init__(self, root: Path, features: Mapping[str, Mapping[str, Any]], limit_mb: float) -> None:
        self._root = root
        self._features = {name: feature for name, feature in features.items() if feature["dtype"] != "video"}
        self._schema = _schema(self._features)
        self._limit_mb = limit_mb
        self._place = (0, 0)
        self._frames = 0
        self._writer: Any = None

    def write(self, columns: Mapping[str, Values]) -> tuple[int, int]:
        """Write one episode, {feature: its column}; returns chunk and file index."""
        import pyarrow as pa

        arrays = [self._array(columns[field.name], field) for field in self._schema]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._choose_file(len(table))
        self._writer.write_table(table)
        self._frames += len(table)
        return self._place

    def close(self) -> None:
        """Complete the last file; idempotent."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _array(self, values: Values, field: "pa.Field") -> "pa.Array":
        """A column in Arrow's type."""
        import pyarrow as pa

        kind = field.type
        if not isinstance(values, np.ndarray):
            suffix = "tiff" if self._features[field.name]["shape"][-1] == 1 else "png"
            names = pa.array([f"frame-{number:06d}.{suffix}" for number in range(len(values))])
            return pa.StructArray.from_arrays([pa.array(values, pa.binary()), names], fields=list(kind))
        if pa.types.is_string(kind):
            return pa.array(decode_text(values), kind)
        if isinstance(kind, pa.ExtensionType):
            return _nested(values, kind)
        if pa.types.is_fixed_size_list(kind):
            flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind.value_type)
            return pa.FixedSizeListArray.from_arrays(flat, type=kind)
        return pa.array(values.reshape(-1), kind)

    def _choose_file(self, length: int) -> None:
        """Open the file for the next episode, by LeRobot's rule."""
        import pyarrow.parquet as pq

        if self._writer is not None:
            size = os.path.getsize(self._path()) / _MB
            if size + size / self._frames * length < self._limit_mb:
                return
            self.close()
            self._place, self._frames = next_file(*self._place), 0
        self._path().parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._path(), self._schema, compression="snappy", use_dictionary=True)

    def _path(self) -> Path:
        chunk, file = self._place
        return self._root / DATA_PATH.format(chunk_index=chunk, file_index=file)


def _schema(features: Mapping[str, Mapping[str, Any]]) -> "pa.Schema":
    """Arrow schema with the metadata from which `datasets` knows images and shapes again."""
    import pyarrow as pa

    fields: list[pa.Field] = []
    described: dict[str, Any] = {}
    for name, feature in features.items():
        dtype, shape = feature["dtype"], tuple(feature["shape"])
        if dtype == "image":
            kind, described[name] = pa.struct([("bytes", pa.binary()), ("path", pa.string())]), {"_type": "Image"}
        elif dtype == "string":
            kind, described[name] = pa.string(), {"dtype": dtype, "_type": "Value"}
        elif len(shape) > 1:
            kind = _array_type(shape, dtype)
            described[name] = {"shape": list(shape), "dtype": dtype, "_type": f"Array{len(shape)}D"}
        else:
            kind, described[name] = pa.from_numpy_dtype(np.dtype(dtype)), {"dtype": dtype, "_type": "Value"}
            if shape != (1,):
                kind = pa.list_(kind, shape[0])
                described[name] = {"feature": described[name], "length": shape[0], "_type": "List"}
        fields.append(pa.field(name, kind))
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": described}})})


def _array_type(shape: tuple[int, ...], dtype: str) -> Any:
    """Arrow's type of an array of two axes or more, which is one of the package `datasets`."""
    import datasets.features.features as hf  # only where there is such a column: it takes a second

    return getattr(hf, f"Array{len(shape)}DExtensionType")(shape, dtype)


def _nested(values: np.ndarray, kind: Any) -> "pa.Array":
    """(T, *shape) as T nested lists."""
    import pyarrow as pa

    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    storages = [kind.storage_type]
    while pa.types.is_list(storages[-1].value_type):
        storages.append(storages[-1].value_type)
    for axis, storage in zip(range(values.ndim - 1, 0, -1), reversed(storages), strict=True):
        lists = int(np.prod(values.shape[:axis]))
        offsets = pa.array(np.arange(lists + 1, dtype=np.int32) * values.shape[axis])
        array = pa.ListArray.from_arrays(offsets, array, type=storage)
    return pa.ExtensionArray.from_storage(kind, array)
