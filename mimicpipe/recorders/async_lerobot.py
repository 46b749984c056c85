"""`recorder=async`: a LeRobot v3 dataset, written by a thread while the simulator steps.

    commit (caller's thread) ── checked episode ──► BoundedQueue ──► worker ──► LeRobotStorage

The worker consumes the queue and alone touches the dataset, which is not thread-safe; it waits for episodes. `commit`
produces them and waits only for room in the queue, which the worker makes.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.bounded_queue import BoundedQueue
from mimicpipe.recorders.lerobot import Commit, LeRobotRecorder, check_count


class AsyncLeRobotRecorder(LeRobotRecorder):
    """`LeRobotRecorder` with a queue in front: `commit` checks the episode, queues it and returns.

    Episodes are written in the order of their commits; none is dropped, and a full queue makes `commit` wait. What was
    not committed is not saved. A failed write is raised by the next commit and by `finalize`; what is queued by then is
    written all the same, unless the storage itself is broken. No episode is durable before `finalize`.

    Memory: the queue's episodes, the one being written, and the one in the caller's hands.

    Args:
        async_queue_maxsize: most episodes that wait; 0 is no limit.
        max_queue_bytes: most bytes that wait; 0 or None is no limit. A larger episode waits for an empty queue.
        record_eef_observation: refused, because kinematics belong to the simulator's thread.
        root, repo_id, fps, features, robot_type, use_videos, image_writer_threads, overwrite, run_info, instruction: as
            `LeRobotRecorder`.

    Raises:
        ConfigError: as `LeRobotRecorder`.
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
        async_queue_maxsize: int = 0,
        max_queue_bytes: int | None = None,
    ) -> None:
        check_count("async_queue_maxsize", async_queue_maxsize, minimum=0)
        check_count("max_queue_bytes", 0 if max_queue_bytes is None else max_queue_bytes, minimum=0)
        if record_eef_observation:
            raise ConfigError(
                "record_eef_observation: the worker thread may not use the simulator; "
                "take recorder=sync, or record the pose as an observation of the env"
            )
        super().__init__(
            root,
            repo_id,
            fps,
            features,
            robot_type=robot_type,
            use_videos=use_videos,
            image_writer_threads=image_writer_threads,
            overwrite=overwrite,
            run_info=run_info,
            instruction=instruction,
        )
        self._queue: BoundedQueue[Commit] = BoundedQueue(async_queue_maxsize, max_queue_bytes or 0)
        self._worker: threading.Thread | None = None

    def commit(self, episode: Episode) -> None:
        """Queue one episode, waiting while the queue is full; an episode of no frames is skipped.

        Raises:
            RecorderError: an earlier episode could not be written; names the env and the attempt.
            RuntimeError: after `finalize`.
            ValueError: columns that are not the features, not finite, or of another length; names the feature.
        """
        commit = self._admit(episode)
        if commit is not None:
            self._queue.put(commit, episode.nbytes)

    def try_commit(self, episode: Episode) -> bool:
        """`commit` if there is room at once; False takes nothing, and `commit` then waits and accounts for it."""
        commit = self._admit(episode)
        return commit is None or self._queue.try_put(commit, episode.nbytes)

    def finalize(self) -> Path | None:
        """Write what is queued, end the worker, then complete the dataset as `LeRobotRecorder.finalize` does."""
        self._refuse_commits()
        self._queue.close()
        if self._worker is not None:
            self._worker.join()
        return super().finalize()

    def abort(self) -> None:
        """Drop what is queued, wait for the episode being written, and remove everything."""
        self._refuse_commits()
        self._queue.close()
        self._queue.clear()
        if self._worker is not None:
            self._worker.join()
        super().abort()

    @property
    def async_stats(self) -> dict[str, float]:
        """Depth of the queue and the callers' waiting time, at this moment.

        Returns:
            `queue_size` and `queue_peak` (episodes), `queue_maxsize` (0: no limit), `backpressure_events` (commits that
            found the queue full) and `backpressure_s` (seconds they waited for room, without the check and the copy).
        """
        stats = self._queue.stats()
        stats["queue_maxsize"] = self._queue.max_items
        keys = ("queue_size", "queue_maxsize", "queue_peak", "backpressure_events", "backpressure_s")
        return {key: stats[key] for key in keys}

    def stats(self) -> dict[str, float]:
        """`async_stats`, `queue_bytes` that wait, and `mb_per_s` as `LeRobotRecorder.stats`."""
        return self.async_stats | {"queue_bytes": self._queue.stats()["queue_bytes"]} | super().stats()

    def _admit(self, episode: Episode) -> Commit | None:
        with self._commit_lock:
            commit = self._checked(episode)
            if commit is not None and self._worker is None:
                # A daemon, so that a caller who dies without `finalize` is not kept alive; `abort` runs at exit.
                self._worker = threading.Thread(target=self._write_all, name="mimicpipe-recorder", daemon=True)
                self._worker.start()
        return commit

    def _write_all(self) -> None:
        """The worker: one episode after the other, until the queue is closed and empty."""
        while (commit := self._queue.get()) is not None:
            self._persist(commit)
