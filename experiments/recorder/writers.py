"""Each way to write, timed over the same episodes: mimicpipe's recorders, LeRobot's own writer, a bare encoder."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from experiments.recorder.episodes import FPS
from mimicpipe.envs.base import Feature
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.camera_encoder import VideoSettings, encode_video
from mimicpipe.recorders.features import lerobot_features
from mimicpipe.recorders.sharded import ShardedRecorder

Features = dict[str, Feature]


@dataclass(frozen=True)
class Timed:
    """One repetition."""

    frames: int
    durable_s: float
    """Until every episode would survive a kill."""
    finished_s: float
    """Until the dataset is complete."""


def record(episodes: Sequence[Episode], features: Features, **arguments: Any) -> Timed:
    """Write with `ShardedRecorder(**arguments)`, once every worker has written an episode: with that, it starts."""
    first = max(1, arguments.get("workers", 0))
    with tempfile.TemporaryDirectory() as folder:
        recorder = ShardedRecorder(Path(folder) / "set", "local/experiment", FPS, features, **arguments)
        durable = threading.Semaphore(0)
        recorder.on_durable = lambda *_: durable.release()
        for episode in episodes[:first]:
            recorder.commit(episode)
        for _ in episodes[:first]:
            durable.acquire()
        began = time.perf_counter()
        for episode in episodes[first:]:
            recorder.commit(episode)
        for _ in episodes[first:]:
            durable.acquire()
        durable_s = time.perf_counter() - began
        recorder.finalize()
        return Timed(_frames(episodes[first:]), durable_s, time.perf_counter() - began)


def lerobot(episodes: Sequence[Episode], features: Features, **arguments: Any) -> Timed:
    """Write with `LeRobotDataset` as its documentation has it; durable once it is finalized."""
    import datasets
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    datasets.disable_progress_bars()
    folder = Path(tempfile.mkdtemp())
    try:
        dataset = LeRobotDataset.create(
            "local/experiment", FPS, lerobot_features(features, True), root=folder / "set", **arguments
        )
        began = time.perf_counter()
        for episode in episodes:
            columns = {name: column.numpy() for name, column in episode.columns.items()}
            for frame in range(episode.length):
                dataset.add_frame({name: column[frame] for name, column in columns.items()} | {"task": episode.task})
            dataset.save_episode(parallel_encoding=False)
        dataset.finalize()
        took = time.perf_counter() - began
    finally:
        shutil.rmtree(folder)
    return Timed(_frames(episodes), took, took)


def bare_encoder(episodes: Sequence[Episode], features: Features) -> Timed:
    """Encode the cameras and do nothing else, as fast as one thread can feed the encoder."""
    cameras = [name for name, feature in features.items() if feature.dtype == "video"]
    began = time.perf_counter()
    for episode in episodes:
        for name in cameras:
            frames = episode.columns[name].numpy()
            encode_video(frames, frames.shape[1:3], FPS, VideoSettings())
    took = time.perf_counter() - began
    return Timed(_frames(episodes), took, took)


def compare(ways: dict[str, Callable[[], Timed]], repeats: int) -> list[dict[str, Any]]:
    """A row for each way, in the order given: medians over `repeats` rounds, in which they take turns.

    Before several rounds there is one more, which imports what is needed; a single round is for seeing that all run.
    """
    for way in ways.values() if repeats > 1 else ():
        way()
    rounds = [{name: way() for name, way in ways.items()} for _ in range(repeats)]
    return [
        {
            "way": name,
            "frames": rounds[0][name].frames,
            "durable_frames_per_s": median(r[name].frames / r[name].durable_s for r in rounds),
            "finished_frames_per_s": median(r[name].frames / r[name].finished_s for r in rounds),
        }
        for name in ways
    ]


def _frames(episodes: Sequence[Episode]) -> int:
    return sum(episode.length for episode in episodes)
