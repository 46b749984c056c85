"""`recorder=sync`: a LeRobot v3 dataset, written while the caller waits."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.dataset_recorder import Commit, DatasetRecorder
from mimicpipe.recorders.lerobot_storage import LeRobotStorage
from mimicpipe.recorders.payload import EEF_FEATURE, EefPoseFn


class LeRobotRecorder(DatasetRecorder):
    """Writes each committed episode through `LeRobotDataset` before `commit` returns.

    The dataset grows in a folder beside `root` and appears at `root` in one rename by `finalize`, complete and flushed
    to the disk. LeRobot's files have no footer before that, so **no episode is durable before `finalize`**, where
    `on_durable` is called for all of them, with episodes whose columns have been let go. No episodes, no dataset.

    If a write fails, that `commit` raises, every later one does, and so does `finalize`, which still publishes the
    episodes that were saved whole. Without `finalize`, nothing is left at exit.

    Args:
        root, repo_id, fps, features, **dataset: as `DatasetRecorder`; but it cannot go on with the episodes of another
            run, so `resume` is 0.
        record_eef_observation: compute `observation.eef_pose` of episodes taken from an environment by `eef_pose_fn`.
        eef_pose_fn: (env, env_id, columns) -> (T, D), called in the thread that calls the recorder.

    Raises:
        ConfigError: as `DatasetRecorder`.
    """

    def __init__(
        self,
        root: Path | str,
        repo_id: str,
        fps: int,
        features: Mapping[str, Feature],
        *,
        record_eef_observation: bool = False,
        eef_pose_fn: EefPoseFn | None = None,
        **dataset: Any,
    ) -> None:
        if record_eef_observation and (eef_pose_fn is None or EEF_FEATURE not in features):
            raise ConfigError(f"record_eef_observation: needs an eef_pose_fn and a feature {EEF_FEATURE!r}")
        if dataset.get("resume"):
            raise ConfigError("resume: recorder=sync cannot go on with a dataset; take recorder=async for the rest")
        if dataset.get("shard") is not None:
            raise ConfigError("cluster: recorder=sync stages nothing, so it cannot share a dataset; use recorder=async")
        super().__init__(root, repo_id, fps, features, **dataset)
        self._eef_pose_fn = eef_pose_fn if record_eef_observation else None
        self._storage = LeRobotStorage(self._spec)
        self._saved: list[tuple[Episode, int]] = []

    def commit(self, episode: Episode) -> None:
        """Write one episode; an episode of no frames is skipped.

        Raises:
            RecorderError: it could not be written, or an earlier one; names the env and the attempt.
            RuntimeError: after `finalize`.
            ValueError: columns that are not the features, not finite, or of another length; names the feature.
        """
        with self._commit_lock:
            commit = self._admit(episode)
            if commit is None:
                return
            error = self._persist(commit)
        if error is not None and not isinstance(error, Exception):
            raise error
        self._raise_failures()

    def _persist(self, commit: Commit) -> BaseException | None:
        """Write one episode; remembers and returns what it raised."""
        try:
            self._storage.open(commit.episode.columns)
            began = time.perf_counter()
            index = self._storage.write(commit.episode, commit.row)
        except BaseException as error:  # noqa: BLE001 - raised by this or the next commit, and by finalize
            self._failures.append((str(commit), error))
            return error
        self._bytes_written += commit.episode.nbytes
        self._writing_s += time.perf_counter() - began
        self._saved.append((replace(commit.episode, columns={}), index))
        self._num_saved += 1
        return None

    def _complete(self) -> None:
        step = "storage"
        try:
            self._path = self._storage.publish()
            step = "on_durable"
            if self.on_durable is not None and self._path is not None:
                for episode, index in self._saved:
                    self.on_durable(episode, index)
        except Exception as error:  # noqa: BLE001 - raised with the other failures, now and at every later call
            self._failures.append((step, error))

    def _discard(self) -> None:
        self._storage.discard()

    def _leave(self) -> None:
        self.abort()
