"""What must be true of a LeRobot v3 dataset, whoever wrote it: counts, time stamps, values, statistics, videos."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.errors import ConfigError
from mimicpipe.report.format import count, some
from mimicpipe.tools.column_values import ColumnSummary, column_values

VERSION = "v3.0"
INDICES = ("index", "episode_index", "frame_index", "task_index", "timestamp")
_TIMESTAMP_TOLERANCE_S = 1e-4
"""LeRobot's own default tolerance when it looks up a frame by its time stamp."""
_STATS_TOLERANCE = 1e-4
"""Of mean and standard deviation, relative to the column's range; minimum and maximum are exact."""


class CheckError(Exception):
    """A check has found something; the message says what, and where."""


@dataclass
class Dataset:
    """A dataset, as its files tell it; `frames` and `summaries` are there once the data has been read."""

    root: Path
    info: Mapping[str, Any]
    episodes: list[dict[str, Any]] = field(default_factory=list)
    frames: dict[str, np.ndarray] = field(default_factory=dict)
    """The columns of `INDICES`."""
    summaries: dict[str, ColumnSummary] = field(default_factory=dict)

    @property
    def features(self) -> Mapping[str, Any]:
        """{name: feature}."""
        return self.info["features"]


def open_dataset(root: Path) -> Dataset:
    """Read a dataset's info.

    Raises:
        ConfigError: no LeRobot dataset there.
    """
    if root.is_file():
        raise ConfigError(f"{root}: is a file; name the folder of a LeRobot v3 dataset")
    try:
        info = json.loads((root / "meta" / "info.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if any(root.glob("*.hdf5")):
            raise ConfigError(
                f"{root}: holds HDF5 files, no LeRobot v3 dataset; `python -m mimicpipe.tools.convert` makes one"
            ) from None
        raise ConfigError(f"{root}: no LeRobot v3 dataset (meta/info.json: {type(error).__name__})") from None
    return Dataset(root, info)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckError(message)


def structure(data: Dataset) -> str:
    """Files and keys that every dataset has; reads the episodes' table."""
    import pyarrow.parquet as pq

    info = data.info
    missing = [key for key in ("codebase_version", "fps", "features", "total_episodes", "total_frames", "total_tasks",
                               "data_path") if key not in info]  # fmt: skip
    _require(not missing, f"meta/info.json has no {', '.join(missing)}")
    rate = info["fps"]
    _require(isinstance(rate, int | float) and rate > 0, f"fps is {rate!r}, not a number above 0")
    _require(info["codebase_version"] == VERSION, f"codebase_version is {info['codebase_version']}, not {VERSION}")
    for name in ("meta/tasks.parquet", "meta/stats.json"):
        _require((data.root / name).is_file(), f"no {name}")
    missing = [name for name in INDICES if name not in data.features]
    _require(not missing, f"no feature {', '.join(missing)}")
    files = sorted((data.root / "meta" / "episodes").glob("*/*.parquet"))
    _require(bool(files), "no meta/episodes/*/*.parquet")
    for file in files:
        names = [name for name in pq.read_schema(file).names if not name.startswith("stats/")]
        data.episodes += pq.read_table(file, columns=names).to_pylist()
    return f"{VERSION}, {some(len(data.features), 'feature')}, {some(len(data.episodes), 'episode')}"


def counts(data: Dataset) -> str:
    """Episodes, frames and tasks are as many as info.json says, and in order; reads all data files."""
    import pyarrow.parquet as pq

    info, episodes = data.info, data.episodes
    _require(
        len(episodes) == info["total_episodes"], f"{len(episodes)} episodes, {info['total_episodes']} in info.json"
    )
    _require([e["episode_index"] for e in episodes] == list(range(len(episodes))), "episodes are not 0, 1, 2, ...")
    places = {(e["data/chunk_index"], e["data/file_index"]) for e in episodes}
    for name in sorted(info["data_path"].format(chunk_index=chunk, file_index=file) for chunk, file in places):
        _require((data.root / name).is_file(), f"no {name}, which info.json and the episodes name")
    _read_frames(data)
    rows, said = len(data.frames["index"]), info["total_frames"]
    _require(rows == said, f"{rows} rows in data/, {said} frames in info.json")
    at = 0
    for episode in episodes:
        where = f"episode {episode['episode_index']}"
        _require(episode["length"] > 0, f"{where} has no frame")
        _require(episode["dataset_from_index"] == at, f"{where} begins at {episode['dataset_from_index']}, not {at}")
        at += episode["length"]
        _require(episode["dataset_to_index"] == at, f"{where} ends at {episode['dataset_to_index']}, not {at}")
    _require(at == rows, f"the episodes' lengths add up to {at}, not to {rows}")
    tasks = pq.read_table(data.root / "meta" / "tasks.parquet").num_rows
    _require(tasks == info["total_tasks"], f"{tasks} tasks, {info['total_tasks']} in info.json")
    used = data.frames["task_index"]
    _require(rows == 0 or (used.min() >= 0 and used.max() < tasks), f"a task_index outside 0 .. {tasks - 1}")
    return f"{some(len(episodes), 'episode')}, {some(rows, 'frame')}, {some(tasks, 'task')}"


def _read_frames(data: Dataset) -> None:
    import pyarrow.parquet as pq

    stored = [name for name, feature in data.features.items() if feature["dtype"] != "video"]
    parts: dict[str, list[np.ndarray]] = {name: [] for name in INDICES}
    for file in sorted((data.root / "data").glob("*/*.parquet")):
        with pq.ParquetFile(file) as table:
            missing = [name for name in stored if name not in table.schema_arrow.names]
            _require(not missing, f"{file.name} has no column {', '.join(missing)}")
            for batch in table.iter_batches(batch_size=8192, columns=stored):
                for name in stored:
                    values = column_values(batch.column(name))
                    if values is None:
                        continue  # text, images
                    data.summaries.setdefault(name, ColumnSummary()).add(values)
                    if name in parts:
                        parts[name].append(values.reshape(-1))
    data.frames = {name: np.concatenate(found) if found else np.zeros(0) for name, found in parts.items()}


def shapes(data: Dataset) -> str:
    """Every numeric column has the shape and names that info.json says."""
    for name, summary in data.summaries.items():
        feature = data.features[name]
        wanted = int(np.prod(feature["shape"]))
        _require(summary.width == wanted, f"{name} has {summary.width} numbers a frame, {wanted} in info.json")
        names = feature.get("names")
        if isinstance(names, list) and len(feature["shape"]) == 1:
            _require(len(names) == wanted, f"{name} has {len(names)} names for {wanted} numbers")
    return f"{len(data.summaries)} numeric columns"


def timestamps(data: Dataset) -> str:
    """Frames are numbered, and come at the rate of info.json."""
    frames, fps = data.frames, data.info["fps"]
    lengths = [episode["length"] for episode in data.episodes]
    number = np.concatenate([np.arange(n) for n in lengths]) if lengths else np.zeros(0)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    for name, wanted in (("index", np.arange(len(number))), ("frame_index", number), ("episode_index", owner)):
        wrong = np.flatnonzero(frames[name] != wanted)
        _require(len(wrong) == 0, f"{name} of row {wrong[:1].sum()} is {frames[name][wrong[:1]].sum()}")
    off = np.abs(frames["timestamp"] - number / fps)
    worst = float(off.max(initial=0.0))
    _require(worst <= _TIMESTAMP_TOLERANCE_S, f"row {int(off.argmax())} is {worst:.4f} s off the grid of {fps} Hz")
    return f"{fps} Hz, at most {worst:.1e} s off"


def finite(data: Dataset) -> str:
    """No number is NaN or infinite."""
    for name, summary in data.summaries.items():
        _require(summary.nonfinite == 0, f"{name}: {summary.nonfinite} numbers are NaN or infinite")
    return f"{count(sum(s.rows * s.width for s in data.summaries.values()))} numbers"


def stats(data: Dataset) -> str:
    """meta/stats.json says of each numeric column what its frames say."""
    found = json.loads((data.root / "meta" / "stats.json").read_text(encoding="utf-8"))
    checked = 0
    for name, summary in data.summaries.items():
        if name not in found:
            _require(name in INDICES, f"no statistics of {name}")
            continue
        said = {key: np.asarray(value, np.float64).reshape(-1) for key, value in found[name].items()}
        _require(int(said["count"][0]) == summary.rows, f"{name}: count is {int(said['count'][0])}, not {summary.rows}")
        exact, close = 1e-6, _STATS_TOLERANCE
        shape = data.features[name]["shape"]
        summary = summary.of_rows(shape[-1]) if len(shape) > 1 else summary  # LeRobot counts an array's rows
        span = np.maximum(summary.max - summary.min, 1e-9)
        for key, slack in (("min", exact), ("max", exact), ("mean", close), ("std", close)):
            true = getattr(summary, key)
            off = np.abs(said[key] - true) - 1e-6 * np.abs(true)
            _require(bool((off <= slack * span).all()), f"{name}: {key} is {said[key]}, not {true}")
        checked += 1
    return f"{checked} columns"


def videos(data: Dataset) -> str:
    """Every video has as many frames as its episodes, of the size that info.json says."""
    import av

    cameras = [name for name, feature in data.features.items() if feature["dtype"] == "video"]
    frames = 0
    for camera in cameras:
        height, width = data.features[camera]["shape"][:2]
        wanted: dict[tuple[int, int], int] = {}
        for episode in data.episodes:
            place = episode[f"videos/{camera}/chunk_index"], episode[f"videos/{camera}/file_index"]
            begin = episode[f"videos/{camera}/from_timestamp"] * data.info["fps"]
            _require(abs(begin - wanted.get(place, 0)) < 0.01,
                     f"{camera}: episode {episode['episode_index']} begins at frame {begin:.2f}")  # fmt: skip
            wanted[place] = wanted.get(place, 0) + episode["length"]
        for (chunk, file), length in wanted.items():
            name = data.info["video_path"].format(video_key=camera, chunk_index=chunk, file_index=file)
            _require((data.root / name).is_file(), f"no {name}")
            with av.open(str(data.root / name)) as video:
                size = next(video.decode(video=0)).to_ndarray(format="rgb24").shape
                _require(size == (height, width, 3), f"{name} has frames of {size}, not {(height, width, 3)}")
            with av.open(str(data.root / name)) as video:
                there = sum(packet.size > 0 for packet in video.demux(video=0))
            _require(there == length, f"{name} has {there} frames, its episodes {length}")
            frames += there
    return f"{some(len(cameras), 'camera')}, {some(frames, 'frame')}" if cameras else "no cameras"


CHECKS: dict[str, Callable[[Dataset], str]] = {
    "structure": structure,
    "counts": counts,
    "shapes": shapes,
    "timestamps": timestamps,
    "finite": finite,
    "stats": stats,
    "videos": videos,
}
"""In this order: the first two read what the others look at."""


def run_checks(data: Dataset) -> Iterator[tuple[str, bool, str]]:
    """(check, whether it passed, what it saw or found); stops early where the dataset cannot be read on."""
    for name, check in CHECKS.items():
        try:
            yield name, True, check(data)
        except (CheckError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            said = str(error) if isinstance(error, CheckError) else f"{type(error).__name__}: {error}"
            yield name, False, " ".join(said.split())
            if check in (structure, counts):
                return
