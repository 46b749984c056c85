"""A hash of what a LeRobot v3 dataset says, whatever its files look like.

Two datasets have the same digest if they have the same frames to the bit, the same tasks, features and episodes, and
the same notes of the attempts. Compression, row groups, the split into files, the limits of their sizes, video
containers, statistics (a function of the rest) and the time of writing don't count.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.pools.lerobot_files import flattened
from mimicpipe.recorders.dataset_meta import VIDEO_PATH
from mimicpipe.recorders.episode_rows import PREFIX
from mimicpipe.recorders.hdf5_digest import hdf5_digest_parts, hdf5_file

_INFO_KEYS = ("codebase_version", "fps", "features", "total_episodes", "total_frames", "total_tasks", "robot_type")
_EPISODE_KEYS = ("episode_index", "tasks", "length", "dataset_from_index", "dataset_to_index")


def digest(root: Path) -> str:
    """SHA-256, in hex, over `digest_parts`.

    Raises:
        ConfigError: no LeRobot v3 dataset there.
    """
    return _hash(json.dumps(digest_parts(root), sort_keys=True).encode())


def digest_parts(root: Path) -> dict[str, str]:
    """{part of the dataset: its SHA-256}: `info`, `tasks`, `episodes`, and each feature's column.

    Of an HDF5 file of demos, or the folder that `recorder=hdf5` makes: see `hdf5_digest`.

    Raises:
        ConfigError: no LeRobot v3 dataset there, and no such file, or one that is damaged.
    """
    if (file := hdf5_file(root)) is not None:
        return hdf5_digest_parts(file)
    try:
        info = json.loads((root / "meta" / "info.json").read_text(encoding="utf-8"))
        features: Mapping[str, Any] = dict(info["features"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{root}: no LeRobot v3 dataset (no meta/info.json that can be read)") from None
    try:
        return _parts(root, info, features)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{root}: damaged ({' '.join(str(error).split())}); copy the dataset again") from error


def _parts(root: Path, info: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, str]:
    episodes = _rows(root / "meta" / "episodes")
    parts = {
        "info": _hash_json({key: info.get(key) for key in _INFO_KEYS}),
        "tasks": _hash_json(_tasks(root)),
        "episodes": _hash_json([_kept(row) for row in episodes]),
    }
    for name, feature in features.items():
        if feature["dtype"] == "video":
            parts[name] = _hash_packets(root, name, episodes)
        else:
            parts[name] = _hash_column(root, name, feature)
    return parts


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash_json(content: Any) -> str:
    return _hash(json.dumps(content, sort_keys=True).encode())


def _rows(folder: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*/*.parquet")):
        names = [name for name in pq.read_schema(file).names if not name.startswith("stats/")]
        rows += pq.read_table(file, columns=names).to_pylist()
    return rows


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key in _EPISODE_KEYS or key.startswith(PREFIX)}


def _tasks(root: Path) -> list[Any]:
    import pyarrow.parquet as pq

    rows = pq.read_table(root / "meta" / "tasks.parquet").to_pylist()
    return sorted([row["task_index"], row["task"]] for row in rows)


def _hash_column(root: Path, name: str, feature: Mapping[str, Any]) -> str:
    """Over the values in the feature's dtype, or over the pixels of images."""
    hashed = hashlib.sha256()
    for chunk in _chunks(root, name):
        if feature["dtype"] == "image":
            for image in chunk.field("bytes"):
                hashed.update(_pixels(image.as_py()))
        elif feature["dtype"] == "string":
            hashed.update(json.dumps(chunk.to_pylist()).encode())
        else:
            hashed.update(
                flattened(chunk).to_numpy(zero_copy_only=False).astype(feature["dtype"], copy=False).tobytes()
            )
    return hashed.hexdigest()


def _chunks(root: Path, name: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    for path in sorted((root / "data").glob("*/*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[name]):
                yield batch.column(0)


def _pixels(png: bytes) -> bytes:
    import PIL.Image

    with PIL.Image.open(io.BytesIO(png)) as image:
        return f"{image.mode} {image.size}".encode() + image.tobytes()


def _hash_packets(root: Path, name: str, episodes: list[dict[str, Any]]) -> str:
    """Over the encoded frames of a camera, and the time of each in its episode."""
    import av

    hashed = hashlib.sha256()
    places = dict.fromkeys(
        (row[f"videos/{name}/chunk_index"], row[f"videos/{name}/file_index"]) for row in episodes
    )  # in order
    for chunk, file in places:
        path = root / VIDEO_PATH.format(video_key=name, chunk_index=chunk, file_index=file)
        with av.open(str(path)) as video:
            for packet in video.demux(video.streams.video[0]):
                if packet.size:
                    hashed.update(bytes(packet))
    lengths = [[round((row[f"videos/{name}/{key}_timestamp"]) * 1e6) for key in ("from", "to")] for row in episodes]
    hashed.update(json.dumps([to - start for start, to in lengths]).encode())
    return hashed.hexdigest()
