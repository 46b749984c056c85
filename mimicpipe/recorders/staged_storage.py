"""A dataset that is first staged, episode by episode and durably, and assembled at the end."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.errors import RecorderError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.assembly import assemble
from mimicpipe.recorders.camera_encoder import VideoSettings, described
from mimicpipe.recorders.continued import ContinuedRun
from mimicpipe.recorders.episode_rows import Row
from mimicpipe.recorders.episode_writer import EpisodeWriter
from mimicpipe.recorders.features import TEXT_DTYPE, lerobot_features, with_annotations
from mimicpipe.recorders.layout import BY_ATTEMPT, FORMAT, PackedEpisode, columns_of
from mimicpipe.recorders.lerobot_storage import DatasetSpec, describe
from mimicpipe.recorders.remote_writer import RemoteWriter
from mimicpipe.recorders.shard import Shard
from mimicpipe.recorders.staging_area import StagingArea, count_staged


@dataclass(frozen=True)
class StagingSettings:
    """How a dataset is staged and assembled."""

    workers: int
    """Processes that write; 0: the caller's thread."""
    hang_timeout_s: float
    """A process that has encoded no frame and written nothing for this long is replaced, seconds."""
    video: VideoSettings
    data_files_size_in_mb: int
    """Most MB of a data file; an episode is never split."""
    video_files_size_in_mb: int
    """Most MB of a video file."""


class StagedStorage:
    """The staging folder of one dataset, its writers, and what becomes of it.

    Args:
        spec: the dataset.
        settings: how it is written.
        kept: of a run that is gone on with, how many of its episodes count; they are in its logs, or in the dataset
            that it has published. None: a new run.
        shard: where to stage, if another process holds the folder and assembles.
    """

    def __init__(
        self, spec: DatasetSpec, settings: StagingSettings, kept: int | None = None, shard: Shard | None = None
    ) -> None:
        self._spec = spec
        self._shard = shard
        self._kept = kept
        self._settings = settings
        self._lock = threading.Lock()
        self._area: StagingArea | None = None
        self._header: dict[str, Any] = {}

    def open(self, columns: Mapping[str, Tensor]) -> None:
        """Take the staging folder, unless that is done; `columns` (T, *shape) may bring annotations.

        Raises:
            RecorderError: another run has it.
            OSError: it cannot be made.
        """
        with self._lock:
            if self._header:
                return
            header = self._described(columns)
            if self._shard is not None:
                header["order"] = BY_ATTEMPT
            else:
                self._area = StagingArea(self._spec.root, clear=self._kept is None)
                if self._kept and count_staged(self._area.folder) == 0:
                    self._area.keep_base()
            self._header = header

    def _described(self, columns: Mapping[str, Tensor]) -> dict[str, Any]:
        """The dataset as the header of its logs has it; JSON."""
        spec, settings = self._spec, self._settings
        return {
            "format": FORMAT,
            "fps": spec.fps,
            "robot_type": spec.robot_type,
            "features": plain_features(with_annotations(spec.features, columns), spec.use_videos),
            "use_videos": spec.use_videos,
            "video": described(settings.video),
            "data_files_size_in_mb": settings.data_files_size_in_mb,
            "video_files_size_in_mb": settings.video_files_size_in_mb,
            "run_info": spec.run_info,
        }

    def writer(self, number: int) -> EpisodeWriter | RemoteWriter:
        """Writer number 0, 1, ..., after `open`; one for each thread, which writes itself or has a process for it."""
        threads, place = self._spec.image_writer_threads, self._shard or self._area
        assert place is not None
        if self._settings.workers == 0:
            return EpisodeWriter(place.log(number), self._header, threads)
        keep = [] if self._area is None else [self._area.lock]
        return RemoteWriter(place.log(number), self._header, threads, self._settings.hang_timeout_s, keep)

    def pack(self, episode: Episode, row: Row, index: int) -> PackedEpisode:
        """An episode as a writer takes it; its columns are shared, not copied."""
        meta = {key: value for key, value in row.items() if key != "initial_state"}
        columns = columns_of(self._header["features"])
        return PackedEpisode(
            {"index": index, "length": episode.length, "task": episode.task, "slot": episode.outcome.slot, **meta},
            episode.initial_state.detach().double().cpu().reshape(-1).numpy(),
            tuple(
                episode.columns[kind.name].contiguous().numpy().reshape(episode.length, *kind.shape) for kind in columns
            ),
        )

    def publish(self, expected: int, committed: int) -> Path | None:
        """Assemble the dataset and move it to its place, after the writers are closed.

        None if there is no episode, or another process assembles.

        Args:
            expected: episodes that were made durable.
            committed: episodes that were committed; what an interrupted run has staged behind them is left out.

        Raises:
            RecorderError: it failed; what is durable is still in the staging folder, and the error says where.
        """
        if self._area is None and self._kept and self._shard is None:
            # No episode was missing: there is nothing to write, and maybe nothing to assemble.
            self._area = StagingArea(self._spec.root, clear=False)
            if count_staged(self._area.folder) == 0:
                self.discard()
                return self._spec.root
        area = self._area
        if area is None:
            return None
        self._area = None
        return publish_staged(area, self._spec.root, self._spec.overwrite, expected, committed)

    def discard(self) -> None:
        """Remove everything that has not been published; idempotent."""
        area, self._area = self._area, None
        if area is not None:
            area.discard()

    def leave(self) -> None:
        """Let go of the staging folder with everything durable in it; with nothing in it, remove it. Idempotent."""
        area, self._area = self._area, None
        if area is not None:
            leave_staged(area)


def publish_staged(area: StagingArea, root: Path, overwrite: bool, expected: int, limit: int) -> Path | None:
    """Assemble the dataset of what is staged, move it to its place and let go of the folder; None: no episode.

    Args:
        area: the staging folder.
        root: the dataset's place.
        overwrite: replace a dataset that is there.
        expected: episodes that must be there.
        limit: episodes count below this index.

    Raises:
        RecorderError: it failed; what is durable is still in the staging folder, and the error says where.
    """
    try:
        run = ContinuedRun(root, limit)
        if len(run) < expected:
            raise RecorderError(f"of {expected} durable episodes, {expected - len(run)} are gone: files were removed")
        if len(run) == 0 or run.header is None:
            area.discard()
            return None
        assemble(area.begin_assembly(), run.header, run, run.pixels)
        area.publish(overwrite)
    except Exception as error:
        leave_staged(area)
        raise RecorderError(
            f"{describe(error)}; what is durable is in {area.folder}, and becomes a dataset with "
            f"'python -m mimicpipe.tools.recover {root}'"
        ) from error
    return root


def leave_staged(area: StagingArea) -> None:
    """Let go of a staging folder with everything durable in it; with nothing in it, remove it."""
    if count_staged(area.folder):
        area.leave()
    else:
        area.discard()


def plain_features(features: Mapping[str, Feature], use_videos: bool) -> dict[str, dict[str, Any]]:
    """LeRobot's features as JSON gives them back, with `width`, the most bytes, of those of text."""
    plain: dict[str, dict[str, Any]] = {}
    for name, feature in lerobot_features(features, use_videos).items():
        plain[name] = {**feature, "shape": list(cast(tuple[int, ...], feature["shape"]))}
        if feature["dtype"] == TEXT_DTYPE:
            plain[name]["width"] = features[name].shape[0]
    return plain
