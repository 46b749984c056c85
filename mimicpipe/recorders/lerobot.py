"""`recorder=sync`: a LeRobot v3 dataset, written while the caller waits."""

import atexit
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.base import Recorder
from mimicpipe.recorders.episode_rows import Row, episode_row
from mimicpipe.recorders.features import CAMERA_DTYPES, check_columns, check_features, check_task, with_annotations
from mimicpipe.recorders.lerobot_storage import DatasetSpec, LeRobotStorage, describe
from mimicpipe.recorders.payload import EEF_FEATURE, EefPoseFn, episodes_of_slot, recordable_ids
from mimicpipe.recorders.staging import check_repo_id, check_root


@dataclass(frozen=True, slots=True)
class Commit:
    """A checked episode on its way to the disk."""

    episode: Episode
    row: Row

    def __str__(self) -> str:
        outcome = self.episode.outcome
        fragment = self.episode.metadata.get("fragment_id")
        return f"env {outcome.slot} attempt {outcome.attempt}" + ("" if fragment is None else f" fragment {fragment!r}")


class LeRobotRecorder(Recorder):
    """Writes each committed episode through `LeRobotDataset` before `commit` returns.

    The dataset grows in a folder beside `root` and appears at `root` in one rename by `finalize`, complete and flushed
    to the disk. LeRobot's files have no footer before that, so **no episode is durable before `finalize`**, where
    `on_durable` is called for all of them, with episodes whose columns have been let go. No episodes, no dataset.

    Columns are those of `features`, plus annotations (`subtask_index`, `annotation.*`) that the first episode has; per
    episode `read_episode_metadata` gives back attempt, seed, outcome, source demos, initial state and metadata.

    If a write fails, that `commit` raises, every later one does, and so does `finalize`, which still publishes the
    episodes that were saved whole.

    Args:
        root: folder of the dataset; it must not exist, unless `overwrite`.
        repo_id: "name" or "user/name" that the dataset is to have on the Hub. Nothing is sent there.
        fps: control rate, Hz.
        features: columns by LeRobot name; numeric ones are flat.
        robot_type: kept in info.json.
        use_videos: cameras become videos (lossy); False: PNG images inside the data files (lossless).
        image_writer_threads: threads that write camera frames; 0 writes them in the thread that saves the episode.
        overwrite: replace a LeRobot dataset at `root`, once the new one is complete.
        run_info: anything JSON knows; kept in meta/mimicpipe.json.
        instruction: task text of episodes taken from an environment whose metadata has none.
        record_eef_observation: compute `observation.eef_pose` of such episodes by `eef_pose_fn`.
        eef_pose_fn: (env, env_id, columns) -> (T, D), called in the thread that calls the recorder.
        resume: for recorders whose episodes are durable: how many of an interrupted run's are kept; None: a new run.

    Raises:
        ConfigError: a value above that cannot be; names it, the reason and what is valid.
    """

    def __init__(
        self,
        root: Path | str,
        repo_id: str,
        fps: int,
        features: Mapping[str, Feature],
        robot_type: str | None = None,
        use_videos: bool = True,
        image_writer_threads: int = 0,
        overwrite: bool = False,
        run_info: Mapping[str, Any] | None = None,
        instruction: str | None = None,
        record_eef_observation: bool = False,
        eef_pose_fn: EefPoseFn | None = None,
        *,
        resume: int | None = None,
    ) -> None:
        check_count("fps", fps, minimum=1)
        check_count("image_writer_threads", image_writer_threads, minimum=0)
        check_features(features, use_videos)
        if record_eef_observation and (eef_pose_fn is None or EEF_FEATURE not in features):
            raise ConfigError(f"record_eef_observation: needs an eef_pose_fn and a feature {EEF_FEATURE!r}")
        try:
            json.dumps(run_info)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"run_info: {error}") from None
        spec = DatasetSpec(
            root=_check_video_path(check_root(root, overwrite, resume is not None), features, use_videos),
            repo_id=check_repo_id(repo_id),
            fps=fps,
            features=dict(features),
            robot_type=robot_type,
            use_videos=use_videos,
            image_writer_threads=image_writer_threads,
            overwrite=overwrite,
            run_info=run_info,
        )
        self._features: Mapping[str, Feature] = spec.features
        self._use_videos = use_videos
        self._instruction = instruction
        self._eef_pose_fn = eef_pose_fn if record_eef_observation else None
        self._spec = spec
        self._storage = LeRobotStorage(spec)
        self._commit_lock = threading.Lock()
        self._finalize_lock = threading.Lock()
        self._accepting = True
        self._begun = False
        self._rollouts = 0
        self._saved: list[tuple[Episode, int]] = []
        self._num_saved = 0
        self._failures: list[tuple[str, BaseException]] = []
        self._finalized = False
        self._path: Path | None = None
        self._bytes_written = 0
        self._writing_s = 0.0

    def commit(self, episode: Episode) -> None:
        """Write one episode; an episode of no frames is skipped.

        Raises:
            RecorderError: it could not be written, or an earlier one; names the env and the attempt.
            RuntimeError: after `finalize`.
            ValueError: columns that are not the features, not finite, or of another length; names the feature.
        """
        with self._commit_lock:
            checked = self._checked(episode)
            if checked is None:
                return
            error = self._persist(checked)
        if error is not None and not isinstance(error, Exception):
            raise error
        self._raise_failures()

    def __call__(self, env: Any, env_ids: Tensor | Sequence[int] | None = None, *_args: Any, **_params: Any) -> None:
        """Commit the finished episodes of an environment of one's own (`recorders.payload` says what it needs).

        Args:
            env: the environment; its rollout buffer may be reused as soon as this returns.
            env_ids: slots to record; None is all.
            _args, _params: what a dataset manager passes again at each call; the constructor's values count.

        Raises:
            Exception: as `commit` and `episodes_of_slot`.
        """
        if not self._accepting:
            raise RuntimeError(f"{type(self).__name__} is already finalized")
        for env_id in recordable_ids(env, env_ids):
            episodes = episodes_of_slot(env, env_id, self._rollouts, self._instruction, self._eef_pose_fn)
            self._rollouts += bool(episodes)
            for episode in episodes:
                self.commit(episode)

    def finalize(self) -> Path | None:
        """Complete the dataset and move it to its place; returns its folder, or None if no episode was committed.

        Idempotent: later calls return the same path or raise the same failure.

        Raises:
            RecorderError: committed episodes that could not be written, each with its env and attempt, or storage that
                could not be completed. Episodes that were saved whole are published all the same, where possible.
        """
        with self._finalize_lock:
            if not self._finalized:
                self._refuse_commits()
                self._complete()
                self._end()
        self._raise_failures()
        return self._path

    def abort(self) -> None:
        """Stop without a dataset and remove what was written; after that `finalize` raises. Also runs at exit."""
        with self._finalize_lock:
            if not self._finalized:
                self._refuse_commits()
                self._storage.discard()
                self._failures.append(("storage", RecorderError("aborted, nothing was published")))
                self._end()

    def _leave(self) -> None:
        """What happens at exit, if nobody has finalized."""
        self.abort()

    def stats(self) -> dict[str, float]:
        """`mb_per_s`: the writer's speed, 1e6 column bytes per second of writing."""
        return {"mb_per_s": self._bytes_written / 1e6 / self._writing_s if self._writing_s else 0.0}

    def _checked(self, episode: Episode) -> Commit | None:
        """The episode, ready to be written; None if it has no frames. Runs in the caller's thread."""
        if not self._accepting:
            raise RuntimeError(f"{type(self).__name__} is already finalized")
        self._raise_failures()
        if episode.length == 0:
            return None
        features = self._features if self._begun else with_annotations(self._features, episode.columns)
        if not self._begun:
            check_features(features, self._use_videos)
        check_columns(episode.columns, features)
        check_task(episode.task)
        commit = Commit(episode, episode_row(episode))
        if not self._begun:
            # The first good episode says which annotations there are.
            self._features, self._begun = features, True
            atexit.register(self._leave)
        return commit

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

    def _refuse_commits(self) -> None:
        with self._commit_lock:
            self._accepting = False

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

    def _end(self) -> None:
        self._finalized = True
        atexit.unregister(self._leave)

    def _raise_failures(self) -> None:
        failures = list(self._failures)  # the async recorder's worker may add to it
        if not failures:
            return
        episodes = sum(where not in ("storage", "on_durable") for where, _ in failures)
        message = f"failed to write {episodes} committed episode(s): " if episodes else ""
        message += "; ".join(f"{where}: {describe(error)}" for where, error in failures)
        if self._path is not None:
            message += f"; the {self._num_saved} episodes saved whole are in {self._path}"
        raised = RecorderError(message)
        raised.published = self._path
        raise raised from failures[0][1]


def check_count(name: str, value: object, minimum: int) -> None:
    """Raise ConfigError unless `value` is an int (and no bool) of at least `minimum`."""
    if type(value) is not int or value < minimum:
        raise ConfigError(f"{name}={value!r}: an integer of at least {minimum}")


def _check_video_path(root: Path, features: Mapping[str, Feature], use_videos: bool) -> Path:
    """LeRobot joins videos by a list of paths in single quotes, and escapes nothing."""
    cameras = any(feature.dtype in CAMERA_DTYPES for feature in features.values())
    if use_videos and cameras and any(mark in str(root) for mark in "'\n\\"):
        raise ConfigError(
            f"dataset.root={str(root)!r}: no quote, backslash or newline, or set dataset.use_videos=false"
        )
    return root
