"""Columns of every dtype and shape that LeRobot can hold: what is read from ours is read from its writer's."""

import json

import numpy as np
import pytest
import torch
from small_episodes import episode_of

from mimicpipe.envs.base import Feature
from mimicpipe.envs.text import decode_text, encode_text
from mimicpipe.pipeline.rollout import RolloutBuffer
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.digest import digest_parts
from mimicpipe.recorders.features import lerobot_features
from mimicpipe.recorders.joining import merge
from mimicpipe.recorders.lerobot import LeRobotRecorder
from mimicpipe.recorders.sharded import ShardedRecorder

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)
FPS = 20
TEXT = "observation.phase"
DEPTH = "observation.images.front_depth"
FEATURES = {
    "observation.scalar": Feature("float32", ()),
    "observation.one": Feature("float64", (1,)),
    "observation.vector": Feature("float32", (5,)),
    "observation.pose": Feature("float32", (4, 4)),
    "observation.jacobian": Feature("float64", (6, 7)),
    "observation.column": Feature("float32", (3, 1)),
    "observation.grid": Feature("float32", (8, 6, 3)),
    "observation.voxels": Feature("bool", (2, 3, 2, 2)),
    "observation.counts": Feature("int64", (2, 3)),
    "observation.step": Feature("int64", ()),
    "observation.small": Feature("uint8", (2,)),
    "observation.touch": Feature("bool", ()),
    "observation.contacts": Feature("bool", (3,)),
    TEXT: Feature("string", (24,)),
    DEPTH: Feature("depth", (20, 16, 1)),
    "observation.images.front": Feature("video", (32, 32, 3)),
    "action": Feature("float32", (7,)),
}
PHRASES = ["", "reach", 'grasp "A"\nnow', "größer — 漢字"]
LENGTHS = (5, 9, 3)
RECORDERS = {"sync": LeRobotRecorder, "async": AsyncLeRobotRecorder, "sharded": ShardedRecorder}


def episode(attempt, length):
    generator = torch.Generator().manual_seed(attempt)
    plain = {name: ft for name, ft in FEATURES.items() if ft.dtype not in ("string", "depth")}
    found = episode_of(attempt, length, "pick", plain)
    for name, feature in plain.items():
        if feature.dtype == "int64":  # LeRobot's float32 sums are good to 1e-5 only for small numbers
            found.columns[name] = found.columns[name] % 7
    found.columns[TEXT] = encode_text([PHRASES[(attempt + k) % len(PHRASES)] for k in range(length)], 24)
    depth = torch.randint(0, 65536, (length, 20, 16, 1), generator=generator).numpy().astype(np.uint16)
    found.columns[DEPTH] = torch.from_numpy(depth)
    return found


def lerobots(root, use_videos):
    """A dataset of the episodes by LeRobot's own writer, frame by frame."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    features = lerobot_features(FEATURES, use_videos)
    dataset = LeRobotDataset.create("local/test", FPS, features, root=root, use_videos=use_videos)
    for k, length in enumerate(LENGTHS):
        columns = {name: column.numpy() for name, column in episode(k, length).columns.items()}
        texts = decode_text(columns.pop(TEXT))
        for frame in range(length):
            row = {name: column[frame].reshape(features[name]["shape"]) for name, column in columns.items()}
            dataset.add_frame(row | {TEXT: texts[frame], "task": "pick"})
        dataset.save_episode(parallel_encoding=False)
    dataset.finalize()


def record(kind, root, use_videos, **arguments):
    recorder = RECORDERS[kind](root, "local/test", FPS, FEATURES, use_videos=use_videos, **arguments)
    for k, length in enumerate(LENGTHS):
        recorder.commit(episode(k, length))
    assert recorder.finalize() == root


@pytest.fixture(scope="module", params=[False, True], ids=["images", "videos"])
def roots(request, tmp_path_factory):
    """{recorder, or "lerobot": its dataset} of the same frames."""
    folder = tmp_path_factory.mktemp("dtypes")
    lerobots(folder / "lerobot", request.param)
    record("sync", folder / "sync", request.param)
    record("async", folder / "async", request.param)
    record("sharded", folder / "sharded", request.param, workers=1, worker_timeout_s=120.0)
    return {name: folder / name for name in ("lerobot", *RECORDERS)}


@pytest.mark.parametrize("kind", RECORDERS)
def test_the_same_columns_schema_and_items(roots, open_dataset, kind):
    import pyarrow.parquet as pq

    tables = [pq.read_table(next((roots[name] / "data").glob("*/*.parquet"))) for name in (kind, "lerobot")]
    assert tables[0].schema == tables[1].schema
    for name in tables[1].column_names:
        assert tables[0].column(name).to_pylist() == tables[1].column(name).to_pylist(), name
    metadata = [json.loads(table.schema.metadata[b"huggingface"])["info"] for table in tables]
    assert metadata[0] == metadata[1]
    infos = [json.loads((roots[name] / "meta" / "info.json").read_text()) for name in (kind, "lerobot")]
    assert infos[0] == infos[1] | {"robot_type": infos[0]["robot_type"]}
    own, theirs = open_dataset(roots[kind]), open_dataset(roots["lerobot"])
    assert len(own) == len(theirs) == sum(LENGTHS)
    for index in range(len(theirs)):
        expected, item = theirs[index], own[index]
        assert item.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, str):
                assert item[name] == value
            else:
                assert (item[name].dtype, item[name].shape) == (value.dtype, value.shape), name
                assert torch.equal(item[name], value), (index, name)


def test_what_is_read_is_what_was_committed(roots, open_dataset):
    dataset, first = open_dataset(roots["sharded"], depth_output_unit="mm"), 0
    for k, length in enumerate(LENGTHS):
        columns = episode(k, length).columns
        for frame in range(length):
            item = dataset[first + frame]
            assert item[TEXT] == PHRASES[(k + frame) % len(PHRASES)]
            assert torch.equal(
                item[DEPTH][0], torch.from_numpy(columns[DEPTH][frame, ..., 0].numpy().astype(np.float32))
            )
            for name in ("observation.pose", "observation.grid", "observation.voxels", "observation.counts"):
                assert torch.equal(item[name], columns[name][frame]), name
            assert item["observation.scalar"].shape == item["observation.touch"].shape == ()
        first += length


@pytest.mark.parametrize("kind", RECORDERS)
def test_the_same_statistics(roots, open_dataset, kind):
    import pyarrow.parquet as pq

    tables = [pq.read_table(next((roots[n] / "meta" / "episodes").glob("*/*.parquet"))) for n in (kind, "lerobot")]
    names = [name for name in tables[1].column_names if name.startswith("stats/")]
    assert names == [name for name in tables[0].column_names if name.startswith("stats/")]
    assert not any(TEXT in name for name in names)
    for name in names:
        for one, other in zip(*(table.column(name).to_pylist() for table in tables), strict=True):
            np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-6, atol=1e-6, err_msg=name)
    own, theirs = open_dataset(roots[kind]).meta.stats, open_dataset(roots["lerobot"]).meta.stats
    assert own.keys() == theirs.keys()
    for name, stats in theirs.items():
        for key in ("min", "max", "mean", "std", "count"):
            assert own[name][key].shape == stats[key].shape, (name, key)
            np.testing.assert_allclose(own[name][key], stats[key], rtol=1e-5, atol=3e-5, err_msg=f"{name} {key}")
        for key in ("q01", "q50", "q99"):
            assert own[name][key].shape == stats[key].shape, (name, key)


def test_every_recorder_says_the_same(roots):
    assert digest_parts(roots["sync"]) == digest_parts(roots["async"]) == digest_parts(roots["sharded"])


def test_datasets_of_them_are_joined(roots, tmp_path, open_dataset):
    merge(tmp_path / "both", [roots["async"], roots["sharded"]])
    both, one = open_dataset(tmp_path / "both"), open_dataset(roots["async"])
    assert both.num_episodes == 2 * one.num_episodes
    for index in range(len(one)):
        again = both[len(one) + index]
        for name, value in one[index].items():
            if name not in ("index", "episode_index"):
                assert again[name] == value if isinstance(value, str) else torch.equal(again[name], value), name
    for name, stats in one.meta.stats.items():
        if name not in ("index", "episode_index"):
            np.testing.assert_allclose(both.meta.stats[name]["mean"], stats["mean"], rtol=1e-9, err_msg=name)


def test_epochs_and_windows(roots, open_dataset):
    windows = {"observation.pose": [-0.05, 0.0], DEPTH: [0.0, 0.05], "observation.grid": [0.0]}
    loaded = []
    for name in ("sharded", "lerobot"):
        dataset = open_dataset(roots[name], delta_timestamps=windows)
        loaded.append(list(torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=False, num_workers=0)))
    for own, theirs in zip(*loaded, strict=True):
        assert own.keys() == theirs.keys()
        for name, value in theirs.items():
            assert own[name] == value if isinstance(value, list) else torch.equal(own[name], value), name


def test_an_episode_of_one_frame(tmp_path, open_dataset):
    """LeRobot's own writer fails at it behind longer ones: the statistics of its matrices have other shapes."""
    recorder = ShardedRecorder(tmp_path / "set", "local/test", FPS, FEATURES, use_videos=False)
    for k, length in enumerate((4, 1)):
        recorder.commit(episode(k, length))
    dataset = open_dataset(recorder.finalize())
    assert dataset[4]["observation.pose"].shape == (4, 4)
    assert dataset.meta.stats["observation.pose"]["mean"].shape == (4,)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (torch.zeros(3, 5, dtype=torch.uint8), r"shape \(3, 5\) where \(3, 24\) is needed"),
        (torch.zeros(3, 24, dtype=torch.int64), "int64 where torch.uint8"),
        (torch.full((3, 24), 0xFF, dtype=torch.uint8), "no UTF-8 in frame 0"),
        (
            torch.cat([torch.zeros(3, 23), torch.ones(3, 1)], dim=1).to(torch.uint8),
            "a NUL between characters in frame 0",
        ),
    ],
)
def test_text_that_is_none_is_refused(tmp_path, column, message):
    recorder = ShardedRecorder(tmp_path / "set", "local/test", FPS, FEATURES, use_videos=False)
    bad = episode(0, 3)
    bad.columns[TEXT] = column
    with pytest.raises(ValueError, match=message) as caught:
        recorder.commit(bad)
    assert repr(TEXT) in str(caught.value)
    assert recorder.finalize() is None


def test_text_comes_back():
    rows = encode_text(PHRASES, 24)
    assert (rows.shape, rows.dtype) == ((4, 24), torch.uint8)
    assert decode_text(rows.numpy()) == PHRASES
    with pytest.raises(ValueError, match="needs 9 bytes, and there are 8"):
        encode_text(["nine byte"], 8)
    with pytest.raises(ValueError, match="has a NUL in it"):
        encode_text(["a\0b"], 8)


def test_the_rollout_buffer_holds_every_dtype():
    buffer = RolloutBuffer(2, torch.device("cpu"))
    episodes = [episode(0, 4), episode(1, 4)]
    buffer.restart(torch.tensor([0, 1]))
    for frame in range(4):
        columns = {name: torch.stack([e.columns[name][frame] for e in episodes]) for name in FEATURES}
        buffer.append(torch.tensor([0, 1]), columns)
    for slot in (0, 1):
        taken = buffer.take(slot, 4)
        for name, column in episodes[slot].columns.items():
            assert taken[name].dtype == column.dtype
            assert np.array_equal(taken[name].numpy(), column.numpy()), name
