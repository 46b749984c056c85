"""LeRobot's writer with its loose ends tied: quiet, without forks, and never half-written at the dataset's place.

Everything here runs in one thread at a time; lerobot is imported with the first episode.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.envs.text import decode_text
from mimicpipe.errors import RecorderError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.episode_rows import Row
from mimicpipe.recorders.features import CAMERA_DTYPES, TEXT_DTYPE, lerobot_features, with_annotations
from mimicpipe.recorders.sealing import seal
from mimicpipe.recorders.staging import Staging


@dataclass(frozen=True)
class DatasetSpec:
    """What a dataset is, apart from its episodes; the fields are `LeRobotRecorder`'s arguments."""

    root: Path
    repo_id: str
    fps: int
    features: Mapping[str, Feature]
    robot_type: str | None
    use_videos: bool
    image_writer_threads: int
    overwrite: bool
    run_info: Mapping[str, Any] | None


class LeRobotStorage:
    """One dataset that grows in a staging folder and is published at the end."""

    def __init__(self, spec: DatasetSpec) -> None:
        self._spec = spec
        self._features: Mapping[str, Feature] = spec.features
        self._staging: Staging | None = None
        self._dataset: Any = None
        self._rows: list[Row] = []
        self._camera_stats: dict[str, dict[str, np.ndarray]] = {}
        self._broken: BaseException | None = None

    def open(self, columns: Mapping[str, Tensor]) -> None:
        """Import lerobot and make the dataset, unless that is done; `columns` (T, *shape) may bring annotations.

        Raises:
            Exception: whatever LeRobot or the operating system raises; nothing is left behind then.
        """
        if self._dataset is not None:
            return
        dataset_class = _import_lerobot()
        spec = self._spec
        self._features = with_annotations(spec.features, columns)
        staging = Staging(spec.root)
        try:
            self._dataset = dataset_class.create(
                spec.repo_id,
                spec.fps,
                lerobot_features(self._features, spec.use_videos),
                root=staging.path,
                robot_type=spec.robot_type,
                use_videos=spec.use_videos,
                image_writer_threads=spec.image_writer_threads,
                # Only read access uses it, but LeRobot would else look for torchcodec and warn over sixty lines.
                video_backend="pyav",
            )
        except BaseException:
            staging.discard()
            raise
        _keep_episode_stats_float(self._dataset.meta)
        self._staging = staging

    def write(self, episode: Episode, row: Row) -> int:
        """Save one episode of at least one frame, after `open`, and return its index in the dataset.

        If it fails before LeRobot has begun to save, the next episode can still be written; afterwards the dataset's
        files may hold a part of the episode, nothing more is written, and sealing removes that part.

        Raises:
            RecorderError: storage failed at an earlier episode, or camera frames did not reach the disk.
            Exception: whatever LeRobot or the operating system raises.
        """
        if self._broken is not None:
            raise RecorderError("not written, because storage failed at an earlier episode") from self._broken
        dataset = self._dataset
        try:
            self._add_frames(dataset, episode)
        except BaseException:
            self._drop_frames(dataset)
            raise
        try:
            # Encoding in parallel forks a pool for every episode, which is unsafe beside threads and CUDA.
            dataset.save_episode(parallel_encoding=False)
        except BaseException as error:
            self._broken = error
            raise
        self._rows.append(row)
        self._camera_stats = {name: dataset.meta.stats[name] for name in self._cameras()}
        return len(self._rows) - 1

    def publish(self) -> Path | None:
        """Complete the dataset, make it durable and move it to its place; None if there is no episode.

        What nobody can read is removed. A dataset that LeRobot can read, but that cannot be completed or moved to its
        place, stays where it is, and the error says where.

        Raises:
            RecorderError: the second case, or rows or frames are missing.
            Exception: whatever LeRobot or the operating system raises.
        """
        staging, dataset = self._staging, self._dataset
        if staging is None or not self._rows:
            self.discard()
            return None
        self._complete(staging, dataset)
        self._staging = self._dataset = None
        try:
            staging.publish(self._spec.overwrite)
        except Exception as error:
            where = staging.path if staging.path.exists() else self._spec.root
            raise RecorderError(f"{describe(error)}; the dataset is in {where}") from error
        return self._spec.root

    def _complete(self, staging: Staging, dataset: Any) -> None:
        readable = False
        try:
            if self._broken is not None:
                self._drop_frames(dataset)
            dataset.finalize()
            readable = self._broken is None
            seal(staging.path, dataset.meta, self._rows, self._camera_stats, self._spec.run_info)
        except BaseException as error:
            if readable and not isinstance(error, RecorderError):
                self._staging = self._dataset = None
                raise RecorderError(f"{describe(error)}; the dataset is in {staging.path}") from error
            self.discard()
            raise

    def discard(self) -> None:
        """Remove everything that has not been published; idempotent."""
        staging, dataset = self._staging, self._dataset
        self._staging = self._dataset = None
        if dataset is not None:
            _close(dataset)
        if staging is not None:
            staging.discard()

    def _cameras(self) -> list[str]:
        return [name for name, feature in self._features.items() if feature.dtype in CAMERA_DTYPES]

    def _add_frames(self, dataset: Any, episode: Episode) -> None:
        columns: dict[str, Any] = {}
        for name, feature in self._features.items():
            column = episode.columns[name].numpy()
            if feature.dtype == TEXT_DTYPE:
                columns[name] = decode_text(column)
            else:
                columns[name] = column.reshape(episode.length, *(feature.shape or (1,)))
        for frame in range(episode.length):
            dataset.add_frame({name: column[frame] for name, column in columns.items()} | {"task": episode.task})
        self._check_images(dataset, episode.length)

    def _check_images(self, dataset: Any, length: int) -> None:
        """LeRobot only logs that an image could not be written, and would shift the frames behind it."""
        from lerobot.datasets.utils import DEFAULT_IMAGE_PATH

        if dataset.writer.image_writer is not None:
            dataset.writer.image_writer.wait_until_done()
        for name in self._cameras():
            first = DEFAULT_IMAGE_PATH.format(image_key=name, episode_index=len(self._rows), frame_index=0)
            written = sum(file.is_file() for file in (dataset.root / first).parent.glob("frame-*.*"))
            if written != length:
                raise RecorderError(f"{name}: {written} of {length} camera frames reached the disk")

    def _drop_frames(self, dataset: Any) -> None:
        """Forget the frames of an episode that was not saved, images too: they would slip into the next one."""
        try:
            dataset.clear_episode_buffer()
        except Exception as error:  # noqa: BLE001 - raised at the next write; the caller raises the first cause
            self._broken = self._broken or error


def describe(error: BaseException) -> str:
    """One line about an exception; a RecorderError speaks for itself."""
    return str(error) if isinstance(error, RecorderError) else f"{type(error).__name__}: {error}"


def _keep_episode_stats_float(meta: Any) -> None:
    """Make a dataset's metadata take every statistic as a float.

    LeRobot leaves those of integer columns integers where an episode has one frame, and then cannot write them into the
    same file as the floats of longer episodes.
    """
    save_episode = meta.save_episode

    def save_float(index: int, length: int, tasks: list[str], stats: dict[str, Any], metadata: dict[str, Any]) -> None:
        floats = {
            name: {key: value if key == "count" else value.astype(np.float64) for key, value in column.items()}
            for name, column in stats.items()
        }
        save_episode(index, length, tasks, floats, metadata)

    meta.save_episode = save_float


def _close(dataset: Any) -> None:
    """Close the files and threads of a dataset that will be removed."""
    try:
        dataset.finalize()
    except Exception:  # noqa: BLE001 - nobody will read these files, and the caller raises the cause
        # LeRobot and PyArrow would try again when the objects are freed, and make the removed folder anew.
        for part in (dataset.writer, dataset.meta):
            part._finalized = True
            if part._pq_writer is not None:
                part._pq_writer.is_open = False


def _import_lerobot() -> Any:
    """LeRobotDataset, after telling the libraries under it to be quiet and quick."""
    # SVT-AV1 writes its banner to stderr for every video, and takes its log level from here alone; 1 is errors.
    os.environ.setdefault("SVT_LOG", "1")
    import av
    from lerobot.datasets import dataset_writer
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    av.logging.set_libav_level(av.logging.ERROR)
    vars(dataset_writer)["embed_images"] = embed_images
    return LeRobotDataset


def embed_images(dataset: Any) -> Any:
    """A `datasets.Dataset` whose images are in the table, not in files; instead of LeRobot's function of this name.

    That one maps over the table row by row, which without cameras is four fifths of an episode's time, and leaves a
    fingerprint in the schema that depends on the files' folder, so that no two datasets would be the same bytes.
    """
    import datasets
    from datasets.table import InMemoryTable, embed_table_storage

    if not any(isinstance(feature, datasets.Image) for feature in dataset.features.values()):
        return dataset
    return datasets.Dataset(InMemoryTable(embed_table_storage(dataset.data)))
