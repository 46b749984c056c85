"""Small episodes and readers of what was written."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from small_episodes import CAMERAS, FEATURES, episode_of


@pytest.fixture
def features():
    return dict(FEATURES)


@pytest.fixture
def camera_features():
    return FEATURES | CAMERAS


@pytest.fixture
def make_episode(features):
    """make_episode(attempt, length=5, task="pick", features=..., **metadata)."""

    def make(attempt, length=5, task="pick", features=features, **metadata):
        return episode_of(attempt, length, task, features, **metadata)

    return make


@pytest.fixture
def read_columns():
    """read_columns(root): {column: (T, ...) array} of all data files, as the bits on the disk."""

    import pyarrow.parquet as pq

    def read(root):
        columns = {}
        for file in sorted((Path(root) / "data").glob("*/*.parquet")):
            table = pq.read_table(file)
            for name in table.column_names:
                columns.setdefault(name, []).extend(table.column(name).to_pylist())
        return {name: np.array(values) for name, values in columns.items()}

    return read


@pytest.fixture
def open_dataset(tmp_path, monkeypatch):
    """open_dataset(root, **kwargs): LeRobotDataset, with its cache in tmp_path."""
    import datasets.config
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf_cache")

    def open_(root, **kwargs):
        return LeRobotDataset("local/test", root=root, video_backend="pyav", **kwargs)

    return open_


@pytest.fixture
def staging_of():
    """staging_of(root): the folder in which the dataset grows."""

    def find(root):
        found = list(root.parent.glob(f".{root.name}.*.partial"))
        assert len(found) == 1
        return found[0] / "dataset"

    return find


@pytest.fixture
def wait_until():
    """wait_until(condition): poll; the test's own timeout is the limit."""

    def wait(condition):
        while not condition():
            time.sleep(0.005)

    return wait


@pytest.fixture
def hold_worker(make_episode, wait_until):
    """hold_worker(recorder) commits two episodes and returns `release`; until it is called, the writer waits.

    What stops the writer is the listener that it tells of the second episode.
    """
    events = []

    def hold(recorder):
        held, go_on = threading.Event(), threading.Event()
        events.append(go_on)
        listener = recorder.on_durable

        def on_durable(episode, index):
            if listener is not None:
                listener(episode, index)
            if episode.outcome.attempt == 1:
                held.set()
                go_on.wait()

        recorder.on_durable = on_durable
        for attempt in range(2):
            recorder.commit(make_episode(attempt))
            wait_until(lambda: recorder.stats()["queue_size"] == 0)
        wait_until(held.is_set)
        return go_on.set

    yield hold
    for event in events:
        event.set()
