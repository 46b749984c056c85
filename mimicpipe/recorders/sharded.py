"""`recorder=sharded`: a LeRobot v3 dataset whose episodes are durable as soon as they are written.

    commit (caller's thread) ── checked episode ──► BoundedQueue ──► writers ──► segment logs ──► finalize: LeRobot v3

A writer consumes the queue: it takes what waits, appends it to its log with one sync, and reports it as durable. It
waits for episodes. `commit` produces them and waits only for room in the queue, which the writers make. A dataset is
assembled from the logs at the end, in the order of the commits.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.bounded_queue import BoundedQueue
from mimicpipe.recorders.camera_encoder import CODECS, SMALLEST_HEVC, VideoSettings
from mimicpipe.recorders.dataset_recorder import Commit, DatasetRecorder, check_count
from mimicpipe.recorders.features import CAMERA_DTYPES
from mimicpipe.recorders.staged_storage import StagedStorage, StagingSettings

_THREAD_NAME = "mimicpipe-recorder"
_GROUP_EPISODES, _GROUP_BYTES = 256, 1 << 24
"""Most that is taken from the queue for one sync: it comes on top of the queue's limit."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A checked episode and its index."""

    commit: Commit
    index: int
    nbytes: int


class ShardedRecorder(DatasetRecorder):
    """Checks and queues an episode in `commit`; writers make it durable while the simulator goes on.

    Episodes are numbered in the order of their commits; none is dropped, and a full queue makes `commit` wait. Once
    `on_durable` is called, an episode survives kill -9 and a power cut, in a folder beside `root`; `finalize` makes the
    dataset of them, and moves it to `root` complete or not at all. What a killed run leaves is made into a dataset by
    `python -m mimicpipe.tools.recover`. A failed write is raised by the next commit and by `finalize`, which publishes
    all other episodes, as far as that is possible.

    Memory: the queue's episodes, those being written, and the one in the caller's hands.

    Args:
        root, repo_id, fps, features, **dataset: as `DatasetRecorder`. `image_writer_threads` are the cameras that a
            writer encodes at once; 0: one after the other.
        async_queue_maxsize: most episodes that wait; 0 is no limit.
        max_queue_bytes: most bytes that wait; 0 or None is no limit. A larger episode waits for an empty queue.
        record_eef_observation: refused, because kinematics belong to the simulator's thread.
        workers: processes that write; 0: a thread.
        worker_timeout_s: a process that has encoded no frame and written nothing for this long is replaced, seconds.
        video_codec: one of `camera_encoder.CODECS`. The video settings' defaults are LeRobot's.
        video_gop: frames from one key frame to the next; None is the codec's own choice.
        video_crf: quality, lower is better; None is the codec's own choice.
        video_preset: speed against size, in the codec's words; None is 12 for libsvtav1, else the codec's own choice.
        encoder_threads: threads of an encoder; None is the codec's own choice.
        data_files_size_in_mb: a data file that would become larger is followed by another; an episode is never split.
        video_files_size_in_mb: likewise of videos.

    Raises:
        ConfigError: as `DatasetRecorder`.
    """

    _storage_class = StagedStorage

    def __init__(
        self,
        root: Path | str,
        repo_id: str,
        fps: int,
        features: Mapping[str, Feature],
        *,
        async_queue_maxsize: int = 0,
        max_queue_bytes: int | None = None,
        record_eef_observation: bool = False,
        workers: int = 0,
        worker_timeout_s: float = 60.0,
        video_codec: str = "libsvtav1",
        video_gop: int | None = 2,
        video_crf: float | None = 30,
        video_preset: str | None = None,
        encoder_threads: int | None = None,
        data_files_size_in_mb: int = 100,
        video_files_size_in_mb: int = 200,
        **dataset: Any,
    ) -> None:
        check_count("async_queue_maxsize", async_queue_maxsize, minimum=0)
        check_count("max_queue_bytes", 0 if max_queue_bytes is None else max_queue_bytes, minimum=0)
        check_count("workers", workers, minimum=0)
        check_count("data_files_size_in_mb", data_files_size_in_mb, minimum=1)
        check_count("video_files_size_in_mb", video_files_size_in_mb, minimum=1)
        if video_codec not in CODECS:
            raise ConfigError(f"video_codec={video_codec}: valid: {', '.join(CODECS)}")
        if record_eef_observation:
            raise ConfigError(
                "record_eef_observation: the worker thread may not use the simulator; "
                "take recorder=sync, or record the pose as an observation of the env"
            )
        if video_codec == "hevc" and (small := [name for name, ft in features.items() if _is_too_small(ft)]):
            raise ConfigError(f"video_codec=hevc: {small[0]} needs sides of {SMALLEST_HEVC} pixels or more")
        super().__init__(root, repo_id, fps, features, **dataset)
        self._settings = StagingSettings(
            workers=workers,
            hang_timeout_s=worker_timeout_s,
            video=VideoSettings(video_codec, video_gop, video_crf, video_preset, encoder_threads),
            data_files_size_in_mb=data_files_size_in_mb,
            video_files_size_in_mb=video_files_size_in_mb,
        )
        resume: int | None = dataset.get("resume")
        self._staged = self._storage_class(self._spec, self._settings, resume, self._shard)
        self._resumed = resume or 0
        self._queue: BoundedQueue[_Job] = BoundedQueue(async_queue_maxsize, max_queue_bytes or 0)
        self._threads: list[threading.Thread] = []
        self._next_index = self._resumed
        self._written_lock = threading.Lock()

    def commit(self, episode: Episode) -> None:
        """Queue one episode, waiting while the queue is full; an episode of no frames is skipped.

        Raises:
            RecorderError: an earlier episode could not be written; names the env and the attempt.
            RuntimeError: after `finalize`.
            ValueError: columns that are not the features, not finite, or of another length; names the feature.
        """
        with self._commit_lock:
            commit = self._admit(episode)
            if commit is None:
                return
            self._start_writers()
            job = _Job(commit, self._index_of(episode), episode.nbytes)
            self._next_index += 1
        self._queue.put(job, episode.nbytes)

    def try_commit(self, episode: Episode) -> bool:
        """`commit` if there is room at once; False takes nothing, and `commit` then waits and accounts for it."""
        with self._commit_lock:
            commit = self._admit(episode)
            if commit is None:
                return True
            self._start_writers()
            taken = self._queue.try_put(_Job(commit, self._index_of(episode), episode.nbytes), episode.nbytes)
            self._next_index += taken
            return taken

    def _index_of(self, episode: Episode) -> int:
        """Of the next episode to commit: its place in the dataset, or, in a shard, its attempt."""
        return self._next_index if self._shard is None else episode.outcome.attempt

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
        """`async_stats`, `mb_per_s` as `DatasetRecorder.stats`, `queue_bytes` that wait, and `queue_wait_s`.

        The last is how long episodes have waited to be written, summed over episodes.
        """
        return self.async_stats | self._queue.stats() | super().stats()

    def _start_writers(self) -> None:
        """Start the writers with the first episode; the caller holds the commit lock."""
        for number in range(max(1, self._settings.workers) - len(self._threads)):
            # A daemon, so that a caller who dies without `finalize` is not kept alive; `_leave` runs at exit.
            thread = threading.Thread(target=self._write_all, args=(number,), name=_THREAD_NAME, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _write_all(self, number: int) -> None:
        """A writer: group after group, until the queue is closed and empty."""
        writer = None
        broken: Exception | None = None
        while jobs := self._queue.get_many(_GROUP_EPISODES, _GROUP_BYTES):
            if broken is not None:
                error = RecorderError("not written, because storage failed at an earlier episode")
                self._note_failures([(job, error) for job in jobs])
                continue
            began = time.perf_counter()
            try:
                if writer is None:
                    self._staged.open(jobs[0].commit.episode.columns)
                    writer = self._staged.writer(number)
                packed = [self._staged.pack(job.commit.episode, job.commit.row, job.index) for job in jobs]
                jobs = [_without_columns(job) for job in jobs]
                failed = writer.write(packed)
            except Exception as error:  # noqa: BLE001 - raised by the next commit and by finalize
                broken = error
                self._note_failures([(job, error) for job in jobs])
                continue
            self._note_failures([(jobs[place], error) for place, error in failed.items()])
            self._note_written([job for place, job in enumerate(jobs) if place not in failed], began)
        if writer is not None:
            writer.close()

    def _note_failures(self, failures: Sequence[tuple[_Job, Exception]]) -> None:
        self._missing.update((job.index, job.commit.episode.outcome.length) for job, _ in failures)
        self._failures.extend((str(job.commit), error) for job, error in failures)

    def _note_written(self, jobs: Sequence[_Job], began: float) -> None:
        with self._written_lock:
            self._writing_s += time.perf_counter() - began
            self._bytes_written += sum(job.nbytes for job in jobs)
            self._num_saved += len(jobs)
        if self.on_durable is None:
            return
        try:
            for job in jobs:
                self.on_durable(job.commit.episode, job.index)
        except Exception as error:  # noqa: BLE001 - raised by the next commit and by finalize
            self._failures.append(("on_durable", error))

    def _end_writers(self) -> None:
        """Wait until everything queued is written; nothing more is committed."""
        self._queue.close()
        for thread in self._threads:
            thread.join()

    def _complete(self) -> None:
        self._end_writers()
        try:
            self._path = self._staged.publish(self._resumed + self._num_saved, self._next_index)
        except Exception as error:  # noqa: BLE001 - raised with the other failures, now and at every later call
            self._failures.append(("storage", error))

    def _discard(self) -> None:
        """Drop what is queued, wait for what is being written, and remove everything."""
        self._queue.close()
        self._queue.clear()
        self._end_writers()
        self._staged.discard()

    def _leave(self) -> None:
        """At exit without `finalize`: write what is queued, and leave it to be recovered."""
        self._refuse_commits()
        self._end_writers()
        self._staged.leave()


def _is_too_small(feature: Feature) -> bool:
    return feature.dtype in CAMERA_DTYPES and min(feature.shape[:2]) < SMALLEST_HEVC


def _without_columns(job: _Job) -> _Job:
    """What is still needed once the columns are on their way; they are the bulk of the memory."""
    return replace(job, commit=replace(job.commit, episode=replace(job.commit.episode, columns={})))
