"""The `meta/` folder of a LeRobot v3 dataset, written from columns; the files are those of LeRobot 0.6's writer."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mimicpipe.recorders.data_files import CHUNKS_SIZE, DATA_PATH, next_file
from mimicpipe.recorders.episode_rows import PREFIX, arrow_schema
from mimicpipe.recorders.episode_stats import STATISTICS
from mimicpipe.recorders.frame_stats import ORDER

if TYPE_CHECKING:
    import pyarrow as pa

VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VERSION = "v3.0"
"""Of LeRobot's format."""
INFO_FILE = "meta/mimicpipe.json"
_ROWS_PER_FILE = 100_000

Stats = Mapping[str, Mapping[str, Any]]


def write_info(
    root: Path,
    header: Mapping[str, Any],
    features: Mapping[str, Any],
    episodes: int,
    frames: int,
    tasks: int,
) -> None:
    """Write meta/info.json.

    Args:
        root: the dataset's folder.
        header: `fps`, `robot_type`, `use_videos` and the limits of the files' sizes.
        features: all features, `info` of the videos included.
        episodes: their number.
        frames: theirs.
        tasks: theirs.
    """
    info = {
        "codebase_version": VERSION,
        "fps": header["fps"],
        "features": features,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": CHUNKS_SIZE,
        "data_files_size_in_mb": header["data_files_size_in_mb"],
        "video_files_size_in_mb": header["video_files_size_in_mb"],
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if header["use_videos"] else None,
        "robot_type": header["robot_type"],
        "splits": {"train": f"0:{episodes}"},
    }
    _write_json(root / "meta" / "info.json", info)


def write_stats(root: Path, stats: Stats) -> None:
    """Write meta/stats.json: {feature: {statistic: array}}."""
    plain = {
        name: {key: np.asarray(values[key]).tolist() for key in ORDER if key in values}
        for name, values in stats.items()
    }
    _write_json(root / "meta" / "stats.json", plain)


def write_tasks(root: Path, tasks: Sequence[str]) -> None:
    """Write meta/tasks.parquet; a task's place is its index."""
    import pandas as pd

    path = root / "meta" / "tasks.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"task_index": range(len(tasks))}, index=pd.Index(list(tasks), name="task")).to_parquet(path)


def write_run_info(root: Path, run_info: Mapping[str, Any] | None, more: Mapping[str, Any] | None = None) -> None:
    """Write meta/mimicpipe.json: what the dataset comes from."""
    content = {"format": 1, "run": run_info, **(more or {})}
    text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True)
    (root / INFO_FILE).write_text(text + "\n", encoding="utf-8")


class EpisodeTable:
    """Rows of meta/episodes, gathered episode by episode.

    Args:
        features: all features; those of images and videos have statistics (9, 3).
    """

    def __init__(self, features: Mapping[str, Mapping[str, Any]]) -> None:
        self._features = features
        self._plain: dict[str, list[Any]] = {}
        self._stats: dict[str, list[np.ndarray]] = {name: [] for name in features}
        self._counts: dict[str, list[int]] = {name: [] for name in features}
        self._rows: list[Mapping[str, Any]] = []

    def add(
        self,
        plain: Mapping[str, Any],
        stats: Mapping[str, np.ndarray],
        counts: Mapping[str, int],
        row: Mapping[str, Any],
    ) -> None:
        """Add an episode.

        Args:
            plain: LeRobot's columns that are no statistics, in order.
            stats: {feature: (9, D) float64}, rows as in STATISTICS.
            counts: {feature: frames that its statistics are of}.
            row: mimicpipe's columns.
        """
        for name, value in plain.items():
            self._plain.setdefault(name, []).append(value)
        for name in self._features:
            self._stats[name].append(stats[name])
            self._counts[name].append(counts[name])
        self._rows.append(row)

    def write(self, root: Path) -> None:
        """Write the files."""
        import pyarrow.parquet as pq

        place = (0, 0)
        for first in range(0, len(self._rows), _ROWS_PER_FILE):
            path = root / EPISODES_PATH.format(chunk_index=place[0], file_index=place[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(self._table(slice(first, first + _ROWS_PER_FILE), place), path, compression="snappy")
            place = next_file(*place)

    def _table(self, part: slice, place: tuple[int, int]) -> "pa.Table":
        import pyarrow as pa

        rows = self._rows[part]
        columns: dict[str, pa.Array] = {name: pa.array(values[part]) for name, values in self._plain.items()}
        columns["tasks"] = columns["tasks"].cast(_list_of(pa.string()))
        for name, feature in self._features.items():
            stacked = np.stack(self._stats[name][part])  # (E, 9, D)
            deep = feature["dtype"] in ("image", "video")
            for key in ORDER:
                if key == "count":
                    column = _lists(np.array(self._counts[name][part])[:, None], deep=False)
                else:
                    column = _lists(stacked[:, STATISTICS.index(key)], deep=deep)
                columns[f"stats/{name}/{key}"] = column
        for key, number in zip(("chunk_index", "file_index"), place, strict=True):
            columns[f"meta/episodes/{key}"] = pa.array(np.full(len(rows), number))
        for field in arrow_schema():
            columns[field.name] = pa.array([row[field.name.removeprefix(PREFIX)] for row in rows], field.type)
        return pa.table(columns)


def _lists(values: np.ndarray, *, deep: bool) -> "pa.Array":
    """(E, D) as E lists of D numbers; `deep`: each number in two lists of its own, as LeRobot has channels."""
    import pyarrow as pa

    count, width = values.shape
    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    for lists, size in ([(count * width, 1)] * 2 if deep else []) + [(count, width)]:
        offsets = pa.array(np.arange(lists + 1, dtype=np.int32) * size)
        array = pa.ListArray.from_arrays(offsets, array, type=_list_of(array.type))
    return array


def _list_of(kind: "pa.DataType") -> "pa.DataType":
    """A list's type with its items named as Parquet names them, and so as it is read back."""
    import pyarrow as pa

    return pa.list_(pa.field("element", kind))


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=4, ensure_ascii=False)
