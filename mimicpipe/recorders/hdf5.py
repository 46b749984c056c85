"""`recorder=hdf5`: demos in one HDF5 file, in Isaac Lab Mimic's (robomimic's) layout: source demos again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.recorders.hdf5_columns import check_hdf5_features, datagen_columns, with_datagen
from mimicpipe.recorders.layout import HDF5
from mimicpipe.recorders.shard import Shard
from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.recorders.staged_storage import StagedStorage, plain_features


class _Hdf5Storage(StagedStorage):
    """Stages the columns of demos, cameras without a loss."""

    def _described(self, columns: Mapping[str, Tensor]) -> dict[str, Any]:
        features = plain_features(with_datagen(self._spec.features, columns), use_videos=False)
        for feature in features.values():
            if feature["dtype"] == "image":
                feature["dtype"] = "zlib"
        return {**super()._described(columns), "layout": HDF5, "features": features}


class Hdf5Recorder(ShardedRecorder):
    """Makes each episode durable as `ShardedRecorder` does, and in the end one file of them, `<root>/demos.hdf5`.

    An HDF5 file that is open for writing when its process is killed is lost. So episodes are first appended to logs
    beside `root`, with a sync; `finalize` writes the file from them, and moves it to its place complete or not at all.
    What a killed run leaves is made into a file by `python -m mimicpipe.tools.recover`.

    `pools.hdf5_layout` says what stands in the file, `hdf5_columns` where. Source demos need poses, gripper actions and
    signals of each frame, so a run records them with the observations (`frame_columns`). Without them, as from an
    environment of one's own, a file can train a policy, but not start a generation.

    Args:
        root: folder of the file; it must not exist, unless `overwrite`.
        repo_id: checked, as the other recorders do; the layout has no place for it.
        fps, features, robot_type, overwrite, run_info, instruction, resume, shard: as `DatasetRecorder`; a camera's
            frames may have any size and any number of channels.
        image_writer_threads, async_queue_maxsize, max_queue_bytes, workers, worker_timeout_s: as `ShardedRecorder`.

    Raises:
        ConfigError: as `DatasetRecorder`, or features that the layout cannot hold.
    """

    _storage_class = _Hdf5Storage
    _extended = staticmethod(with_datagen)
    frame_columns = staticmethod(datagen_columns)

    @staticmethod
    def _check_features(features: Mapping[str, Feature], use_videos: bool) -> None:
        del use_videos
        check_hdf5_features(features)

    def __init__(
        self,
        root: Path | str,
        repo_id: str,
        fps: int,
        features: Mapping[str, Feature],
        *,
        robot_type: str | None = None,
        image_writer_threads: int = 0,
        overwrite: bool = False,
        run_info: Mapping[str, Any] | None = None,
        instruction: str | None = None,
        resume: int | None = None,
        shard: Shard | None = None,
        async_queue_maxsize: int = 0,
        max_queue_bytes: int | None = None,
        workers: int = 0,
        worker_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            root,
            repo_id,
            fps,
            features,
            robot_type=robot_type,
            use_videos=False,
            image_writer_threads=image_writer_threads,
            overwrite=overwrite,
            run_info=run_info,
            instruction=instruction,
            resume=resume,
            shard=shard,
            async_queue_maxsize=async_queue_maxsize,
            max_queue_bytes=max_queue_bytes,
            workers=workers,
            worker_timeout_s=worker_timeout_s,
        )
