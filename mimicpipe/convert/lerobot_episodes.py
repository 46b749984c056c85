"""Episodes of a LeRobot v3 dataset, one in memory at a time: numbers bit for bit, cameras decoded.

A dataset may come from anywhere, so no path in it is followed out of its folder.
"""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.lerobot_files import LeRobotFiles, flattened, holds_numbers
from mimicpipe.recorders.episode_rows import PREFIX

Row = Mapping[str, Any]
_LIBRARY_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError)


def episode_rows(files: LeRobotFiles) -> Iterator[Row]:
    """The rows of meta/episodes without statistics, in order.

    Raises:
        SourceDemoError: they cannot be read.
    """
    import pyarrow.parquet as pq

    for path in sorted((files.root / "meta" / "episodes").glob("*/*.parquet")):
        try:
            with pq.ParquetFile(path) as file:
                names = [name for name in file.schema_arrow.names if not name.startswith("stats/")]
                for batch in file.iter_batches(batch_size=64, columns=names):
                    yield from batch.to_pylist()
        except _LIBRARY_ERRORS as error:
            raise SourceDemoError(f"{path}: cannot be read ({error}); copy the dataset again") from error


def own_columns(row: Row) -> dict[str, Any]:
    """What a recorder of mimicpipe has kept of an episode; empty of others."""
    return {name.removeprefix(PREFIX): value for name, value in row.items() if name.startswith(PREFIX)}


class Frames:
    """Rows of data files, read where an episode's are.

    Args:
        files: the dataset.
        features: numeric and image features to read.
    """

    def __init__(self, files: LeRobotFiles, features: list[str]) -> None:
        self._files = files
        self._features = features
        self._begins: dict[int, int] = {}
        ends: dict[tuple[int, int], int] = {}
        for row in files.episodes:
            place = (row["data/chunk_index"], row["data/file_index"])
            self._begins[row["episode_index"]] = ends.get(place, 0)
            ends[place] = ends.get(place, 0) + row["length"]
        self._path: Path | None = None
        self._file: Any = None

    def table(self, episode: int, where: str) -> Any:
        """A pyarrow table of an episode's rows.

        Raises:
            SourceDemoError: they cannot be read, or are not the episode's.
        """
        row = self._files.episodes[episode]
        try:
            relative = self._files.info["data_path"].format(
                chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
            )
            table = self._rows(inside(self._files.root, relative, where), self._begins[episode], row["length"])
            indices = table.column("episode_index").to_numpy()
        except _LIBRARY_ERRORS as error:
            raise SourceDemoError(f"{where}: its frames cannot be read ({_first_line(error)})") from error
        if len(indices) != row["length"] or len(indices) == 0 or (indices != episode).any():
            raise SourceDemoError(f"{where}: {relative} has not the {row['length']} frames of the episode at its place")
        return table

    def close(self) -> None:
        """Let go of the open file."""
        if self._file is not None:
            self._file.close()
            self._path = self._file = None

    def _rows(self, path: Path, begin: int, length: int) -> Any:
        import pyarrow.parquet as pq

        if path != self._path:
            self.close()
            self._file, self._path = pq.ParquetFile(path), path
        meta, groups, first, at = self._file.metadata, [], 0, 0
        for group in range(meta.num_row_groups):
            rows = meta.row_group(group).num_rows
            if at + rows > begin and at < begin + length:
                first = at if not groups else first
                groups.append(group)
            at += rows
        table = self._file.read_row_groups(groups, columns=["episode_index", *self._features], use_threads=False)
        return table.slice(begin - first, length)


def inside(root: Path, relative: str, where: str) -> Path:
    """A path of the dataset's own.

    Raises:
        SourceDemoError: it leads out of the folder.
    """
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise SourceDemoError(f"{where}: {relative} lies outside of the dataset; it is not read")
    return path


def numbers(column: Any, feature: Mapping[str, Any], where: str) -> np.ndarray:
    """(T, *shape) of an arrow column, in the feature's dtype.

    Raises:
        SourceDemoError: it holds something else.
    """
    values = flattened(column.combine_chunks())
    shape = (len(column), *feature["shape"])
    if values.null_count or not holds_numbers(values) or len(values) != int(np.prod(shape)):
        raise SourceDemoError(f"{where}: holds {values.type} values, {len(values)} in {len(column)} frames")
    array = values.to_numpy(zero_copy_only=False).astype(feature["dtype"], copy=False)
    return array.reshape(shape)


def pictures(column: Any, feature: Mapping[str, Any], where: str) -> np.ndarray:
    """(T, H, W, C) of an arrow column of encoded images.

    Raises:
        SourceDemoError: one cannot be decoded, or has another size.
    """
    import PIL.Image

    dtype = np.uint16 if feature["shape"][-1] == 1 else np.uint8
    found = np.empty((len(column), *feature["shape"]), dtype)
    for number, image in enumerate(column.to_pylist()):
        try:
            with PIL.Image.open(io.BytesIO(image["bytes"])) as opened:
                pixels = np.asarray(opened)
            found[number] = pixels.reshape(pixels.shape[:2] + tuple(feature["shape"][2:]))
        except (*_LIBRARY_ERRORS, SyntaxError) as error:
            raise SourceDemoError(f"{where}: frame {number}: {_first_line(error)}") from error
    return found


def video_frames(files: LeRobotFiles, row: Row, name: str, where: str) -> np.ndarray:
    """(T, H, W, 3) uint8 of one camera in one episode.

    Raises:
        SourceDemoError: frames are missing or cannot be decoded.
    """
    import av

    feature, fps, length = files.features[name], files.fps, row["length"]
    found = np.empty((length, *feature["shape"]), np.uint8)
    count = 0
    try:
        relative = files.info["video_path"].format(
            video_key=name, chunk_index=row[f"videos/{name}/chunk_index"], file_index=row[f"videos/{name}/file_index"]
        )
        begin = row[f"videos/{name}/from_timestamp"]
        with av.open(str(inside(files.root, relative, where))) as video:
            stream = video.streams.video[0]
            video.seek(int(begin / stream.time_base), stream=stream)  # to the key frame before it
            for frame in video.decode(stream):
                at = round((frame.time - begin) * fps)
                if at < 0:
                    continue
                if at != count or count == length:
                    break
                found[count], count = frame.to_ndarray(format="rgb24"), count + 1
    except (*_LIBRARY_ERRORS, av.FFmpegError) as error:
        raise SourceDemoError(f"{where}: {name}: frame {count}: {_first_line(error)}") from error
    if count < length:
        raise SourceDemoError(f"{where}: {name}: frame {count} of {length} is missing in {relative}")
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
