"""What the recorders of LeRobot datasets have in common: what may be committed, and that a dataset is completed once.

How episodes are kept until then is the business of the classes derived from `DatasetRecorder`.
"""

import atexit
import json
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.base import Recorder
from mimicpipe.recorders.episode_rows import Row, episode_row
from mimicpipe.recorders.features import CAMERA_DTYPES, check_columns, check_features, check_task, with_annotations
from mimicpipe.recorders.lerobot_storage import DatasetSpec, describe
from mimicpipe.recorders.payload import EefPoseFn, episodes_of_slot, recordable_ids
from mimicpipe.recorders.shard import Shard
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


class DatasetRecorder(Recorder):
    """Checks episodes, counts failures, and ends once: with a dataset, or without one.

    Columns are those of `features`, plus annotations (`subtask_index`, `annotation.*`) that the first episode has; per
    episode `read_episode_metadata` gives back attempt, seed, outcome, source demos, initial state and metadata.

    Args:
        root: folder of the dataset; it must not exist, unless `overwrite`.
        repo_id: "name" or "user/name" that the dataset is to have on the Hub. Nothing is sent there.
        fps: control rate, Hz.
        features: columns by LeRobot name; numeric ones are flat.
        robot_type: kept in info.json.
        use_videos: cameras become videos (lossy); False: PNG images inside the data files (lossless).
        image_writer_threads: threads that write or encode camera frames; 0: the thread that writes the episode does.
        overwrite: replace a LeRobot dataset at `root`, once the new one is complete.
        run_info: anything JSON knows; kept in meta/mimicpipe.json.
        instruction: task text of episodes taken from an environment whose metadata has none.
        resume: how many durable episodes of an interrupted run, from the first one, are kept; None: a new run.
        shard: stage the episodes there, numbered by their attempts, and leave the dataset to the process that holds
            `root`; not every recorder can.

    Raises:
        ConfigError: a value above that cannot be; names it, the reason and what is valid.
    """

    _check_features = staticmethod(check_features)
    """Refuses features, given (features, use_videos), that the dataset's layout cannot hold."""
    _extended = staticmethod(with_annotations)
    """`features` and those that an episode's columns bring, given both."""

    def __init__(
        self,
        root: Path | str,
        repo_id: str,
        fps: int,
        features: Mapping[str, Feature],
        *,
        robot_type: str | None = None,
        use_videos: bool = True,
        image_writer_threads: int = 0,
        overwrite: bool = False,
        run_info: Mapping[str, Any] | None = None,
        instruction: str | None = None,
        resume: int | None = None,
        shard: Shard | None = None,
    ) -> None:
        check_count("fps", fps, minimum=1)
        check_count("image_writer_threads", image_writer_threads, minimum=0)
        self._check_features(features, use_videos)
        try:
            json.dumps(run_info)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"run_info: {error}") from None
        if shard is None:  # else it is another process's, which has checked it
            root = check_root(root, overwrite, resume is not None)
        self._shard = shard
        self._spec = DatasetSpec(
            root=_check_video_path(Path(root), features, use_videos),
            repo_id=check_repo_id(repo_id),
            fps=fps,
            features=dict(features),
            robot_type=robot_type,
            use_videos=use_videos,
            image_writer_threads=image_writer_threads,
            overwrite=overwrite,
            run_info=run_info,
        )
        self._features: Mapping[str, Feature] = self._spec.features
        self._instruction = instruction
        self._eef_pose_fn: EefPoseFn | None = None
        self._commit_lock = threading.Lock()
        self._finalize_lock = threading.Lock()
        self._accepting = True
        self._begun = False
        self._rollouts = 0
        self._num_saved = 0
        self._failures: list[tuple[str, BaseException]] = []
        self._missing: dict[int, int] = {}
        self._finalized = False
        self._path: Path | None = None
        self._bytes_written = 0
        self._writing_s = 0.0

    def __call__(self, env: Any, env_ids: Tensor | Sequence[int] | None = None, *_args: Any, **_params: Any) -> None:
        """Commit the finished episodes of an environment of one's own (`recorders.payload` says what it needs).

        Args:
            env: the environment; its rollout buffer may be reused as soon as this returns.
            env_ids: slots to record; None is all.
            _args, _params: what a dataset manager passes again at each call; the constructor's values count.

        Raises:
            Exception: as `commit` and `episodes_of_slot`.
        """
        self._require_accepting()
        for env_id in recordable_ids(env, env_ids):
            episodes = episodes_of_slot(env, env_id, self._rollouts, self._instruction, self._eef_pose_fn)
            self._rollouts += bool(episodes)
            for episode in episodes:
                self.commit(episode)

    def finalize(self) -> Path | None:
        """Write what is still to be written, complete the dataset and move it to its place.

        Idempotent: later calls return the same path or raise the same failure.

        Returns:
            The dataset's folder, or None if no episode was committed.

        Raises:
            RecorderError: committed episodes that could not be written, each with its env and attempt, or a dataset
                that could not be completed. Episodes that were saved whole are published all the same, where possible,
                and else the error says where they are.
        """
        with self._finalize_lock:
            if not self._finalized:
                self._refuse_commits()
                self._complete()
                self._end()
        self._raise_failures()
        return self._path

    def abort(self) -> None:
        """Stop without a dataset and remove what was written, durable or not; after that `finalize` raises."""
        with self._finalize_lock:
            if not self._finalized:
                self._refuse_commits()
                self._discard()
                self._failures.append(("storage", RecorderError("aborted, nothing was published")))
                self._end()

    def stats(self) -> dict[str, float]:
        """`mb_per_s`: the writer's speed, 1e6 column bytes per second of writing."""
        return {"mb_per_s": self._bytes_written / 1e6 / self._writing_s if self._writing_s else 0.0}

    @abstractmethod
    def _complete(self) -> None:
        """Make the dataset of what was committed and set `_path`; what goes wrong is noted in `_failures`."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove everything that was written."""

    @abstractmethod
    def _leave(self) -> None:
        """What happens at exit, if there were episodes and nobody has finalized."""

    def _admit(self, episode: Episode) -> Commit | None:
        """Check an episode in the caller's thread, which holds the commit lock; None if it has no frames."""
        self._require_accepting()
        self._raise_failures()
        if episode.length == 0:
            return None
        features = self._features if self._begun else self._extended(self._features, episode.columns)
        if not self._begun:
            self._check_features(features, self._spec.use_videos)
        check_columns(episode.columns, features, episode.finite)
        check_task(episode.task)
        commit = Commit(episode, episode_row(episode))
        if not self._begun:
            # The first good episode says which annotations there are.
            self._features, self._begun = features, True
            atexit.register(self._leave)
        return commit

    def _require_accepting(self) -> None:
        if not self._accepting:
            raise RuntimeError(f"{type(self).__name__} is already finalized")

    def _refuse_commits(self) -> None:
        with self._commit_lock:
            self._accepting = False

    def _end(self) -> None:
        self._finalized = True
        atexit.unregister(self._leave)

    def _raise_failures(self) -> None:
        failures = list(self._failures)  # a writer's thread may add to it
        if not failures:
            return
        episodes = sum(where not in ("storage", "on_durable") for where, _ in failures)
        message = f"failed to write {episodes} committed episode(s): " if episodes else ""
        said: dict[str, list[str]] = {}  # a full disk says the same of every episode
        for where, error in failures:
            said.setdefault(describe(error), []).append(where)
        message += "; ".join(
            f"{places[0]}{f' and {len(places) - 1} more' if len(places) > 1 else ''}: {what}"
            for what, places in said.items()
        )
        if self._path is not None:
            message += f"; the {self._num_saved} episodes saved whole are in {self._path}"
        raised = RecorderError(message)
        raised.published, raised.missing = self._path, dict(self._missing)
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
