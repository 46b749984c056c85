"""What LeRobot reads from a dataset of ours is what it reads from one of its own writer, for the same frames."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from small_episodes import CAMERAS, FEATURES, episode_of

from mimicpipe.recorders.episode_rows import PREFIX, read_episode_metadata
from mimicpipe.recorders.features import lerobot_features
from mimicpipe.recorders.frame_stats import QUANTILES
from mimicpipe.recorders.sharded import ShardedRecorder

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)

FPS = 20
LENGTHS = (5, 1, 8, 3)
TASKS = ["pick", "put \"A\" on 'B'\nand wait", "把方块放好 — ñ", "pick"]


@pytest.fixture(scope="module", params=[False, True], ids=["images", "videos"])
def pair(request, tmp_path_factory):
    """{"own", "lerobot"}: roots of two datasets of the same frames, and whether their cameras are videos."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    features = FEATURES | CAMERAS
    folder = tmp_path_factory.mktemp("pair")
    recorder = ShardedRecorder(folder / "own", "local/test", FPS, features, robot_type="arm", use_videos=request.param)
    dataset = LeRobotDataset.create(
        "local/test",
        FPS,
        lerobot_features(features, request.param),
        root=folder / "lerobot",
        robot_type="arm",
        use_videos=request.param,
    )
    for k, (length, task) in enumerate(zip(LENGTHS, TASKS, strict=True)):
        episode = episode_of(k, length, task, features)
        # LeRobot's float32 sums and 5000 bins are good to 1e-5 only for small numbers.
        episode.columns["observation.counter"] = episode.columns["observation.counter"] % 7
        recorder.commit(episode)
        for frame in range(length):
            row = {name: column[frame].numpy() for name, column in episode.columns.items()}
            dataset.add_frame(row | {"task": task})
        if length == 1:
            _as_floats(dataset)
        dataset.save_episode(parallel_encoding=False)
    recorder.finalize()
    dataset.finalize()
    return {"own": folder / "own", "lerobot": folder / "lerobot", "videos": request.param}


def _as_floats(dataset):
    """LeRobot cannot write an episode of one frame with integer columns behind longer ones without this."""
    from mimicpipe.recorders.lerobot_storage import _keep_episode_stats_float

    _keep_episode_stats_float(dataset.meta)


@pytest.fixture
def datasets(pair, open_dataset):
    return open_dataset(pair["own"]), open_dataset(pair["lerobot"])


def test_the_same_info(pair):
    own, theirs = (json.loads((pair[name] / "meta" / "info.json").read_text()) for name in ("own", "lerobot"))
    assert own == theirs
    assert list(own) == list(theirs)


def test_the_same_columns_dtypes_and_schema(pair):
    import pyarrow.parquet as pq

    tables = [pq.read_table(next((pair[name] / "data").glob("*/*.parquet"))) for name in ("own", "lerobot")]
    assert tables[0].schema == tables[1].schema
    assert tables[0] == tables[1]
    metadata = [json.loads(table.schema.metadata[b"huggingface"])["info"] for table in tables]
    assert metadata[0] == metadata[1]


def test_the_same_items(datasets):
    own, theirs = datasets
    assert (len(own), own.num_episodes, own.fps) == (len(theirs), theirs.num_episodes, theirs.fps)
    assert own.features == theirs.features
    for index in range(len(theirs)):
        expected = theirs[index]
        item = own[index]
        assert item.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert item[name].dtype == value.dtype
                assert torch.equal(item[name], value), (index, name)
            else:
                assert item[name] == value


def test_the_same_episodes_and_tasks(datasets):
    own, theirs = datasets
    assert own.meta.tasks.equals(theirs.meta.tasks)
    for row, expected in zip(own.meta.episodes, theirs.meta.episodes, strict=True):
        kept = {key: value for key, value in row.items() if not key.startswith(PREFIX)}
        assert kept.keys() == expected.keys()
        for key, value in expected.items():
            assert kept[key] == (pytest.approx(value, abs=1e-6) if isinstance(value, float) else value), key


def test_the_same_statistics_of_episodes(pair):
    import pyarrow.parquet as pq

    tables = [pq.read_table(next((pair[n] / "meta" / "episodes").glob("*/*.parquet"))) for n in ("own", "lerobot")]
    names = [name for name in tables[1].column_names if name.startswith("stats/")]
    assert names == [name for name in tables[0].column_names if name.startswith("stats/")]
    for name in names:
        for own, theirs in zip(*(table.column(name).to_pylist() for table in tables), strict=True):
            np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-12 if "images" in name else 0, err_msg=name)


def test_the_same_statistics_of_the_dataset_but_for_quantiles(pair, datasets):
    own, theirs = (dataset.meta.stats for dataset in datasets)
    assert own.keys() == theirs.keys()
    assert own["observation.images.front"]["count"].tolist() == [sum(LENGTHS)]
    for name, stats in theirs.items():
        assert list(own[name]) == list(stats)
        for key, value in stats.items():
            assert own[name][key].shape == value.shape
            if key not in QUANTILES:
                np.testing.assert_allclose(own[name][key], value, rtol=1e-5, atol=1e-5, err_msg=f"{name} {key}")


def test_quantiles_are_the_datasets_own_where_lerobot_averages_those_of_its_episodes(pair, datasets):
    """The one deliberate difference: an average of quantiles is no quantile. Ours average to LeRobot's, too."""
    import pyarrow.parquet as pq
    from lerobot.datasets.compute_stats import aggregate_feature_stats

    average: Any = aggregate_feature_stats
    own, theirs = (dataset.meta.stats for dataset in datasets)
    episodes = pq.read_table(next((pair["own"] / "meta" / "episodes").glob("*/*.parquet"))).to_pylist()
    for name in theirs:
        keys = ("min", "max", "mean", "std", "count", *QUANTILES)
        averaged = average([{k: np.array(row[f"stats/{name}/{k}"]) for k in keys} for row in episodes])
        for key, q in QUANTILES.items():
            np.testing.assert_allclose(averaged[key], theirs[name][key], rtol=1e-5, atol=1e-5, err_msg=f"{name} {key}")
            exact = np.quantile(frames_of(name), q, axis=0)
            np.testing.assert_allclose(own[name][key].reshape(exact.shape), exact, rtol=1e-6, atol=1e-6)


def frames_of(name) -> np.ndarray:
    """(all values, D) of a column over the dataset, from the episodes themselves; pixels in [0, 1]."""
    frame, episode = np.concatenate([np.arange(n) for n in LENGTHS]), np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    added: dict[str, np.ndarray] = {
        "timestamp": frame / FPS,
        "frame_index": frame,
        "episode_index": episode,
        "index": np.arange(len(frame)),
        "task_index": np.array([0, 1, 2, 0])[episode],
    }
    if name in added:
        return added[name][:, None]
    columns = [episode_of(k, n, "", FEATURES | CAMERAS).columns[name].numpy() for k, n in enumerate(LENGTHS)]
    values = np.concatenate(columns)
    if name == "observation.counter":
        values = values % 7
    return values.reshape(-1, values.shape[-1]) / (255 if name in CAMERAS else 1)


def test_the_same_windows_and_epoch(pair, open_dataset):
    windows = {"action": [-0.1, 0.0, 0.05, 0.5], "observation.state": [-0.05, 0.0]}
    windows["observation.images.front"] = [-0.05, 0.0]
    loaded = []
    for name in ("own", "lerobot"):
        dataset = open_dataset(pair[name], delta_timestamps=windows, tolerance_s=1e-4)
        loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=False, num_workers=0)
        loaded.append(list(loader))
    for own, theirs in zip(*loaded, strict=True):
        assert own.keys() == theirs.keys()
        for name, value in theirs.items():
            assert own[name] == value if isinstance(value, list) else torch.equal(own[name], value), name


def frame(dataset, index) -> dict[str, torch.Tensor]:
    return dataset[index]


def lengths(dataset):
    episodes = dataset.meta.episodes
    assert episodes is not None
    return [row["length"] for row in episodes]


def test_lerobots_tools_edit_it(pair, tmp_path, open_dataset):
    from lerobot.datasets.aggregate import aggregate_datasets
    from lerobot.datasets.dataset_tools import delete_episodes, split_dataset

    whole = open_dataset(pair["own"])
    without = delete_episodes(whole, [1], tmp_path / "without", "local/without")
    assert lengths(without) == [5, 8, 3]
    parts = split_dataset(whole, {"train": [0, 2], "val": [1, 3]}, tmp_path / "split")
    assert [lengths(part) for part in parts.values()] == [[5, 8], [1, 3]]
    for index in (0, 12):
        assert torch.equal(frame(parts["train"], index)["action"], frame(whole, index + (index > 4))["action"])
    aggregate_datasets(["local/a", "local/b"], "local/c", [pair["own"], pair["own"]], tmp_path / "twice")
    assert len(open_dataset(tmp_path / "twice")) == 2 * len(whole)
    assert len(read_episode_metadata(tmp_path / "twice")) == 8
