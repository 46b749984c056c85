"""From staged episodes to a LeRobot v3 dataset: data, videos, statistics and metadata, in the order given.

Those of `recorder=hdf5` become an HDF5 file (`hdf5_assembly`).

Nothing is encoded again, and the same episodes give the same bytes, whoever staged them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mimicpipe.recorders.camera_encoder import VideoSettings
from mimicpipe.recorders.column_spill import ColumnSpill
from mimicpipe.recorders.data_files import DEFAULT_FEATURES, DataWriter, default_columns
from mimicpipe.recorders.dataset_meta import EpisodeTable, write_info, write_run_info, write_stats, write_tasks
from mimicpipe.recorders.episode_stats import episode_stats
from mimicpipe.recorders.layout import CAMERAS, HDF5
from mimicpipe.recorders.pixel_stats import CameraSum
from mimicpipe.recorders.staged import StagedEpisode
from mimicpipe.recorders.video_files import VideoWriter, video_info


def assemble(
    root: Path,
    header: Mapping[str, Any],
    episodes: Iterable[StagedEpisode],
    pixels: Mapping[str, tuple[np.ndarray, int]] | None = None,
) -> int:
    """Write a dataset.

    Args:
        root: its folder, which does not exist yet.
        header: `fps`, `features` (LeRobot's words, without its own columns), `robot_type`, `use_videos`, `video`,
            `run_info`, and the limits of the files' sizes; `layout`, if it is not LeRobot's.
        episodes: its episodes, in order; they may be made one by one.
        pixels: {camera: (counts (3, 256), frames that were counted)} of the episodes that don't bring theirs.

    Returns:
        The number of episodes; with none, nothing is written.

    Raises:
        RecorderError: a video lacks frames.
        OSError: the disk is full, or fails.
    """
    if header.get("layout") == HDF5:
        from mimicpipe.recorders.hdf5_assembly import assemble_hdf5

        return assemble_hdf5(root, header, episodes)
    with TemporaryDirectory(prefix="columns-", dir=root.parent) as folder:
        building = _Building(root, header, Path(folder), pixels or {})
        try:
            for episode in episodes:
                building.add(episode)
        finally:
            building.close()
        if building.episodes:
            building.finish()
    return building.episodes


class _Building:
    """A dataset that grows."""

    def __init__(
        self, root: Path, header: Mapping[str, Any], scratch: Path, pixels: Mapping[str, tuple[np.ndarray, int]]
    ) -> None:
        self._root = root
        self._header = header
        features = {**header["features"], **DEFAULT_FEATURES}
        self._features = {name: _without_width(feature) for name, feature in features.items()}
        # Texts have no statistics.
        self._counted = {name: feature for name, feature in self._features.items() if feature["dtype"] != "string"}
        self._data = DataWriter(root, self._features, header["data_files_size_in_mb"])
        fps, limit = header["fps"], header["video_files_size_in_mb"]
        videos = [name for name, feature in header["features"].items() if feature["dtype"] == "video"]
        self._videos = {name: VideoWriter(root, name, fps, limit) for name in videos}
        self._table = EpisodeTable(self._counted)
        numeric = [name for name, feature in self._counted.items() if feature["dtype"] not in CAMERAS]
        self._spill = ColumnSpill(scratch, numeric)
        self._tasks: dict[str, int] = {}
        counted = {name: counts for name, (counts, _) in pixels.items()}
        self._cameras = {name: CameraSum(counted.get(name)) for name in self._counted if name not in numeric}
        self.episodes = 0
        self._frames = 0

    def add(self, episode: StagedEpisode) -> None:
        """Write one episode's frames, and note the rest."""
        task = self._tasks.setdefault(episode.task, len(self._tasks))
        added = default_columns(episode.length, self._header["fps"], self.episodes, self._frames, task)
        images = {name: camera.files for name, camera in episode.cameras.items() if name not in self._videos}
        chunk, file = self._data.write({**episode.columns, **images, **added})
        plain: dict[str, Any] = {
            "episode_index": self.episodes,
            "tasks": [episode.task],
            "length": episode.length,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + episode.length,
        }
        for name, video in self._videos.items():
            plain |= video.write(episode.cameras[name].files[0], episode.length)
        columns = {**episode.columns, **added}
        numeric = _flat({name: column for name, column in columns.items() if name in self._counted})
        self._spill.write({**numeric, "timestamp": numeric["timestamp"].astype(np.float32)})
        stats = episode_stats(numeric)
        counts = dict.fromkeys(self._counted, episode.length)
        for name, camera in episode.cameras.items():
            stats[name], counts[name] = camera.stats, camera.sampled
            self._cameras[name].add(camera)
        self._table.add(plain, stats, counts, episode.row)
        self.episodes += 1
        self._frames += episode.length

    def close(self) -> None:
        """Complete the files of frames."""
        for writer in (self._data, self._spill, *self._videos.values()):
            writer.close()

    def finish(self) -> None:
        """Write everything that is known once all episodes are."""
        root, header = self._root, self._header
        settings = VideoSettings(**header["video"])
        features = dict(self._features)
        for name in self._videos:
            features[name] = {**features[name], "info": video_info(root, name, settings)}
        self._table.write(root)
        write_tasks(root, list(self._tasks))
        write_info(root, header, features, self.episodes, self._frames, len(self._tasks))
        # A frame is counted once, however many rows it has.
        numeric = {name: {**found, "count": np.array([self._frames])} for name, found in self._spill.stats().items()}
        stats = {**numeric, **{name: camera.stats() for name, camera in self._cameras.items()}}
        write_stats(root, {name: stats[name] for name in self._counted})
        known = {name: camera.described() for name, camera in self._cameras.items() if camera.pixels is not None}
        write_run_info(root, header["run_info"], {"pixels": known} if known else {})


def _flat(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """{feature: (T, D), or (T,) for a scalar}; each row of an array with more axes counts as one, as in LeRobot."""
    flat = {name: column.reshape(-1, column.shape[-1]) for name, column in columns.items() if column.ndim > 1}
    return {
        name: column if name not in flat else flat[name][:, 0] if column[0].size == 1 else flat[name]
        for name, column in columns.items()
    }


def _without_width(feature: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in feature.items() if key != "width"}
