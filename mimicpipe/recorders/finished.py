"""Reads a finished dataset of mimicpipe as staged episodes again, so that datasets can be joined without a loss."""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.envs.text import encode_text
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.camera_encoder import VideoSettings, described
from mimicpipe.recorders.data_files import DATA_PATH, DEFAULT_FEATURES
from mimicpipe.recorders.dataset_meta import INFO_FILE, VERSION, VIDEO_PATH
from mimicpipe.recorders.episode_rows import PREFIX, arrow_schema
from mimicpipe.recorders.episode_stats import STATISTICS
from mimicpipe.recorders.layout import CAMERAS, FORMAT
from mimicpipe.recorders.staged import EncodedCamera, StagedEpisode

Pixels = tuple[np.ndarray, int]
"""(counts (3, 256), frames that were counted) of a camera."""


class FinishedDataset:
    """A LeRobot v3 dataset that a mimicpipe recorder has written.

    Args:
        root: its folder.

    Raises:
        ConfigError: it is something else.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            info = json.loads((root / "meta" / "info.json").read_text(encoding="utf-8"))
            notes = json.loads((root / INFO_FILE).read_text(encoding="utf-8"))
            self._read(info, notes)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise ConfigError(
                f"{root}: no dataset of a mimicpipe recorder (no meta/info.json and {INFO_FILE} that can be read)"
            ) from None
        if self._version != VERSION:
            raise ConfigError(f"{root}: meta/info.json says codebase_version {self._version}, expected {VERSION}")

    def _read(self, info: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
        self._version: object = info["codebase_version"]
        self._length: int = info["total_episodes"]
        self._frames: int = info["total_frames"]
        features = {name: feature for name, feature in info["features"].items() if name not in DEFAULT_FEATURES}
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "fps": info["fps"],
            "robot_type": info["robot_type"],
            "features": {name: _without_info(feature) for name, feature in features.items()},
            "use_videos": info["video_path"] is not None,
            "video": described(_settings(features)),
            "data_files_size_in_mb": info["data_files_size_in_mb"],
            "video_files_size_in_mb": info["video_files_size_in_mb"],
            "run_info": notes["run"],
        }
        self.encoding: dict[str, Any] | None = _encoding(features)
        """How its videos are encoded, as `encoding_of` has it; None if it has none."""
        self.pixels: dict[str, Pixels] | None = {
            name: (np.array(found["counts"], np.int64), found["frames"])
            for name, found in notes.get("pixels", {}).items()
        }
        """Of each camera; None where the dataset does not say."""
        counted = {n for n, feature in features.items() if feature["dtype"] in CAMERAS and feature["shape"][-1] == 3}
        if set(self.pixels) != counted:  # those of depth are never counted
            self.pixels = None

    def __len__(self) -> int:
        """Number of episodes."""
        return self._length

    def check_counts(self) -> None:
        """Refuse a dataset that has lost something.

        Raises:
            ConfigError: meta/info.json counts other episodes or frames than there are.
            OSError: a file cannot be read.
            ValueError: it cannot be understood.
        """
        import pyarrow.parquet as pq

        lengths = [meta["length"] for meta in self.metas]
        rows = sum(pq.read_metadata(path).num_rows for path in (self.root / "data").glob("*/*.parquet"))
        for key, said, where, found in (
            ("total_episodes", self._length, "meta/episodes", len(lengths)),
            ("total_frames", self._frames, "meta/episodes", sum(lengths)),
            ("total_frames", self._frames, "data", rows),
        ):
            if said != found:
                raise ConfigError(
                    f"{self.root}: meta/info.json says {key} {said}, {where} has {found}; copy the dataset again"
                )

    @property
    def metas(self) -> list[Mapping[str, Any]]:
        """`index`, `length`, `attempt`, `seed`, `success`, `reason` and `source_demos` (JSON) of each episode."""
        import pyarrow.parquet as pq

        keys = ("attempt", "seed", "success", "reason", "source_demos")
        names = ["episode_index", "length", *(PREFIX + key for key in keys)]
        rows = (row for path in _episode_files(self.root) for row in pq.read_table(path, columns=names).to_pylist())
        return [
            {"index": row["episode_index"], "length": row["length"], **{key: row[PREFIX + key] for key in keys}}
            for row in rows
        ]

    def __iter__(self) -> Iterator[StagedEpisode]:
        """The episodes, in order, one in memory at a time."""
        features = self.header["features"]
        videos = {name: _Videos(self.root, name) for name, feature in features.items() if feature["dtype"] == "video"}
        frames = _Frames(self.root)
        own = [field.name for field in arrow_schema()]
        try:
            for row in _rows(self.root):
                length = row["length"]
                table = frames.take(row["data/chunk_index"], row["data/file_index"], length)
                columns, cameras = {}, {}
                for name, feature in features.items():
                    if feature["dtype"] not in CAMERAS:
                        columns[name] = _values(table.column(name), feature, length)
                        continue
                    files = videos[name].take(row, length) if name in videos else _images(table.column(name))
                    stats = np.array([row[f"stats/{name}/{key}"] for key in STATISTICS]).reshape(len(STATISTICS), -1)
                    cameras[name] = EncodedCamera(files, stats, row[f"stats/{name}/count"][0])
                notes = {name.removeprefix(PREFIX): row[name] for name in own}
                yield StagedEpisode(length, row["tasks"][0], notes, columns, cameras)
        finally:
            for video in videos.values():
                video.close()


class _Frames:
    """Data files, read one after the other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._place: tuple[int, int] | None = None
        self._table: Any = None
        self._at = 0

    def take(self, chunk: int, file: int, length: int) -> Any:
        """The next `length` rows."""
        import pyarrow.parquet as pq

        if self._place != (chunk, file):
            path = self._root / DATA_PATH.format(chunk_index=chunk, file_index=file)
            self._place, self._at, self._table = (chunk, file), 0, pq.read_table(path)
        self._at += length
        return self._table.slice(self._at - length, length)


class _Videos:
    """Video files of one camera, cut into its episodes' again."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        self._place: tuple[int, int] | None = None
        self._source: Any = None
        self._packets: Iterator[Any] = iter(())

    def take(self, row: Mapping[str, Any], length: int) -> list[bytes]:
        """An mp4 file of the next `length` frames."""
        import av

        place = row[f"videos/{self._name}/chunk_index"], row[f"videos/{self._name}/file_index"]
        if self._place != place:
            self.close()
            path = self._root / VIDEO_PATH.format(video_key=self._name, chunk_index=place[0], file_index=place[1])
            self._source, self._place = av.open(str(path)), place
            self._packets = self._source.demux(self._source.streams.video[0])
        template = self._source.streams.video[0]
        offset = round(row[f"videos/{self._name}/from_timestamp"] / template.time_base)
        file = io.BytesIO()
        with av.open(file, "w", format="mp4") as output:
            stream = output.add_stream_from_template(template, opaque=True)
            stream.time_base = template.time_base
            for _ in range(length):
                packet = next(self._packets)
                packet.pts, packet.dts = packet.pts - offset, packet.dts - offset
                packet.stream = stream
                output.mux(packet)
        return [file.getvalue()]

    def close(self) -> None:
        """Close the open file."""
        if self._source is not None:
            self._source.close()


def _episode_files(root: Path) -> Iterator[Path]:
    """Files of meta/episodes, which have mimicpipe's columns."""
    import pyarrow.parquet as pq

    for path in sorted((root / "meta" / "episodes").glob("*/*.parquet")):
        missing = sorted({field.name for field in arrow_schema()} - set(pq.read_schema(path).names))
        if missing:
            raise ConfigError(f"{path}: no column {missing[0]!r}; the dataset was not written by a mimicpipe recorder")
        yield path


def _rows(root: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for path in _episode_files(root):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()


def _values(column: Any, feature: Mapping[str, Any], length: int) -> np.ndarray:
    import pyarrow as pa

    array = column.combine_chunks()
    if feature["dtype"] == "string":
        texts = array.to_pylist()
        return encode_text(texts, max(1, *(len(text.encode()) for text in texts))).numpy()
    while isinstance(array, pa.FixedSizeListArray | pa.ListArray | pa.ExtensionArray):
        array = array.storage if isinstance(array, pa.ExtensionArray) else array.flatten()
    return array.to_numpy(zero_copy_only=False).astype(feature["dtype"], copy=False).reshape(length, *feature["shape"])


def _images(column: Any) -> list[bytes]:
    return [image["bytes"] for image in column.to_pylist()]


def _without_info(feature: Mapping[str, Any]) -> dict[str, Any]:
    """A feature without what its videos say of themselves; what is said of depth stays."""
    return {key: value for key, value in feature.items() if key != "info" or feature["dtype"] != "video"}


def encoding_of(settings: VideoSettings) -> dict[str, Any]:
    """What info.json says of videos that are encoded with these settings, as far as it does not depend on them."""
    codec = {"libsvtav1": "av1", "libaom-av1": "av1"}.get(settings.codec, settings.codec)
    return {"video.codec": codec, **settings.described()}


def _encoding(features: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    for feature in features.values():
        if feature["dtype"] == "video":
            return {key: feature["info"][key] for key in encoding_of(VideoSettings())}
    return None


def _settings(features: Mapping[str, Mapping[str, Any]]) -> VideoSettings:
    """How the videos were encoded, as far as info.json says."""
    for feature in features.values():
        if feature["dtype"] == "video":
            return VideoSettings.from_info(feature["info"])
    return VideoSettings()
