"""Reads what the writers of a run have made durable: its segment logs, episode by episode."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.errors import RecorderError
from mimicpipe.recorders.layout import FORMAT, Column, columns_of
from mimicpipe.recorders.segment_log import Record, scan


@dataclass(frozen=True, slots=True)
class EncodedCamera:
    """The frames of one camera in one episode."""

    files: list[bytes]
    """One mp4 file; or for each frame a PNG or TIFF file, or its bytes as zlib has them."""
    stats: np.ndarray
    """(9, channels) float64, as `pixel_stats`; empty where nobody needs them."""
    sampled: int
    """Frames that the statistics are of."""
    pixels: np.ndarray | None = None
    """(3, 256) int64: how often each value occurs in each channel, in the sampled frames; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class StagedEpisode:
    """An episode that is ready to be put into a dataset."""

    length: int
    task: str
    row: Mapping[str, Any]
    """mimicpipe's own columns, as `episode_rows.episode_row` has them."""
    columns: Mapping[str, np.ndarray]
    """{numeric feature: (T, *shape)}."""
    cameras: Mapping[str, EncodedCamera] = field(default_factory=dict)


class StagedRun:
    """The episodes of a run's logs, in the order of their commits.

    An episode that is there twice, because an interrupted run was resumed before it, counts once.

    Args:
        logs: segment logs of one run.
        limit: how many of them count, by their indices; None is all.

    Raises:
        RecorderError: logs of different runs, or of a newer version.
        OSError: one cannot be read.
    """

    def __init__(self, logs: Iterable[Path], limit: int | None = None) -> None:
        self.header: dict[str, Any] | None = None
        found: dict[int, Record] = {}
        for path in logs:
            header, records, _ = scan(path)
            if header is None:
                continue  # killed while it was begun
            if header.get("format") != FORMAT:
                raise RecorderError(f"{path}: format {header.get('format')!r}, where {FORMAT} can be read")
            if self.header is not None and header != self.header:
                raise RecorderError(f"{path}: has other features or settings than the logs beside it")
            self.header = header
            found.update((record.meta["index"], record) for record in records)
        self._records = [found[index] for index in sorted(found) if limit is None or index < limit]

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self._records)

    @property
    def metas(self) -> list[Mapping[str, Any]]:
        """`index`, `length`, `task`, `attempt` and so on of each episode."""
        return [record.meta for record in self._records]

    def __iter__(self) -> Iterator[StagedEpisode]:
        """The episodes, one in memory at a time."""
        if self.header is None:
            return
        columns = columns_of(self.header["features"])
        handles: dict[Path, int] = {}
        try:
            for record in self._records:
                if record.path not in handles:
                    handles[record.path] = os.open(record.path, os.O_RDONLY)
                yield _decode(record, _payload(handles[record.path], record), columns)
        finally:
            for handle in handles.values():
                os.close(handle)


def _payload(handle: int, record: Record) -> memoryview:
    payload = memoryview(bytearray(record.nbytes))
    at = 0
    while at < record.nbytes:
        count = os.preadv(handle, [payload[at:]], record.offset + at)
        if count == 0:
            raise RecorderError(f"{record.path}: has become shorter")
        at += count
    return payload


def _decode(record: Record, payload: memoryview, columns: Sequence[Column]) -> StagedEpisode:
    meta, at = dict(record.meta), 0

    def take(dtype: np.dtype[Any] | str, shape: tuple[int, ...]) -> np.ndarray:
        nonlocal at
        count = int(np.prod(shape))
        values = np.frombuffer(payload, dtype, count, at).reshape(shape)
        at += values.nbytes
        return values

    length, task = meta.pop("length"), meta.pop("task")
    state = take("<f8", (meta.pop("state"),)).copy()  # its row is kept to the end, and must not keep the payload
    encoded = meta.pop("cameras", {})
    numeric: dict[str, np.ndarray] = {}
    cameras: dict[str, EncodedCamera] = {}
    for column in columns:
        if not column.is_camera:
            numeric[column.name] = take(column.numpy_dtype, (length, *column.shape))
            continue
        described = encoded[column.name]
        counts = take("<i8", (3, 256)) if column.counts_pixels else None
        files = [take("u1", (size,)).tobytes() for size in described["sizes"]]
        cameras[column.name] = EncodedCamera(files, np.array(described["stats"]), described["sampled"], counts)
    del meta["index"], meta["slot"]  # which depends on num_envs, and a dataset must not
    return StagedEpisode(length, task, {**meta, "initial_state": state}, numeric, cameras)
