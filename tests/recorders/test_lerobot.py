"""`recorder=sync`, against the real LeRobot: what is written, and when."""

import json
import os

import numpy as np
import pytest
import torch
from rollout_env import RolloutEnv, planar_eef_position

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.recorders.lerobot import LeRobotRecorder

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(180)

TASKS = ["pick", "put \"A\" on 'B'\nand wait", "把方块放好 — ñ"]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data" / "set"


def record(recorder, episodes):
    for episode in episodes:
        recorder.commit(episode)
    return recorder.finalize()


def assert_same_bits(values, column):
    expected = column.numpy().reshape(values.shape)
    assert np.array_equal(values.astype(expected.dtype).view(np.uint8), expected.view(np.uint8))


def test_every_column_comes_back_bit_for_bit(root, features, make_episode, read_columns, open_dataset):
    episodes = [
        make_episode(k, length, task)
        for k, length, task in zip(range(4), (5, 1, 8, 3), (*TASKS, TASKS[0]), strict=True)
    ]
    recorder = LeRobotRecorder(root, "local/test", 20, features, robot_type="panda", run_info={"seed": 3})
    assert record(recorder, episodes) == root

    columns = read_columns(root)
    for name in features:
        assert_same_bits(columns[name], torch.cat([episode.columns[name] for episode in episodes]))
    assert columns["frame_index"].tolist() == [t for n in (5, 1, 8, 3) for t in range(n)]
    assert columns["episode_index"].tolist() == [0] * 5 + [1] + [2] * 8 + [3] * 3
    assert columns["index"].tolist() == list(range(17))
    assert columns["timestamp"].tolist() == pytest.approx([t / 20 for n in (5, 1, 8, 3) for t in range(n)])

    dataset = open_dataset(root)
    assert (len(dataset), dataset.num_episodes, dataset.fps, dataset.meta.robot_type) == (17, 4, 20, "panda")
    assert dataset.features["observation.state"]["names"] == ["x", "y", "z"]
    frames = [(episode, t) for episode in episodes for t in range(episode.length)]
    for index, (episode, t) in enumerate(frames):
        item = dataset[index]
        assert item["task"] == episode.task
        for name in ("observation.state", "action", "observation.counter"):
            assert torch.equal(item[name], episode.columns[name][t])
    assert json.loads((root / "meta" / "mimicpipe.json").read_text()) == {"format": 1, "run": {"seed": 3}}


def test_what_is_known_of_each_episode_is_kept(root, features, make_episode, open_dataset):
    episodes = [make_episode(k, layout={"cube": [0.1, k]}) for k in (2, 5, 9)]
    episodes[1].outcome.success, episodes[1].outcome.reason = False, "timeout"
    record(LeRobotRecorder(root, "local/test", 20, features), episodes)
    for index, (kept, episode) in enumerate(zip(read_episode_metadata(root), episodes, strict=True)):
        outcome = episode.outcome
        assert torch.equal(kept.pop("initial_state"), episode.initial_state)
        assert kept == {
            "episode_index": index,
            "length": 5,
            "tasks": ["pick"],
            "attempt": outcome.attempt,
            "seed": outcome.seed,
            "success": index != 1,
            "reason": "timeout" if index == 1 else "success",
            "source_demos": outcome.source_demos,
            "metadata": {"layout": {"cube": [0.1, outcome.attempt]}},
        }
    chosen = open_dataset(root, episode_filter=lambda episode: episode["mimicpipe/success"])
    assert chosen.episodes == [0, 2]
    assert chosen.meta.episodes[2]["mimicpipe/attempt"] == 9


def test_images_are_lossless_and_annotations_are_kept(root, camera_features, make_episode, read_columns, open_dataset):
    episodes = [make_episode(k, n, features=camera_features) for k, n in ((0, 4), (1, 1), (2, 3))]
    for episode in episodes:
        episode.columns["subtask_index"] = torch.arange(episode.length) // 2
        episode.columns["annotation.reward"] = torch.rand(episode.length, 2, dtype=torch.float64)
    recorder = LeRobotRecorder(root, "local/test", 20, camera_features, use_videos=False, image_writer_threads=2)
    record(recorder, episodes)

    columns = read_columns(root)
    for name in ("subtask_index", "annotation.reward"):
        assert_same_bits(columns[name], torch.cat([episode.columns[name] for episode in episodes]))
    dataset = open_dataset(root)
    assert dataset.features["subtask_index"]["dtype"] == "int64"
    frames = [(episode, t) for episode in episodes for t in range(episode.length)]
    for index, (episode, t) in enumerate(frames):
        for name in ("observation.images.front", "observation.images.wrist"):
            pixels = (dataset[index][name] * 255).round().to(torch.uint8).permute(1, 2, 0)
            assert torch.equal(pixels, episode.columns[name][t])
    assert sorted(os.listdir(root)) == ["data", "meta"]


def test_images_are_embedded_as_lerobot_does(tmp_path):
    """The function that stands in for LeRobot's gives the same table."""
    import datasets
    from lerobot.datasets import io_utils
    from PIL import Image

    from mimicpipe.recorders.lerobot_storage import embed_images

    paths = [str(tmp_path / f"frame-{i}.png") for i in range(3)]
    for i, path in enumerate(paths):
        Image.fromarray(np.full((4, 4, 3), 60 * i, dtype=np.uint8)).save(path)
    features = datasets.Features({"camera": datasets.Image(), "x": datasets.List(datasets.Value("float32"), length=2)})
    dataset = datasets.Dataset.from_dict({"camera": paths, "x": np.eye(3, 2, dtype=np.float32)}, features=features)
    own, lerobots = (function(dataset).with_format("arrow")[:] for function in (embed_images, io_utils.embed_images))
    assert own.equals(lerobots)
    assert own.column("camera")[1]["bytes"].as_py() == (tmp_path / "frame-1.png").read_bytes()
    assert (
        json.loads(own.schema.metadata[b"huggingface"])["info"]
        == json.loads(lerobots.schema.metadata[b"huggingface"])["info"]
    )
    without = dataset.remove_columns("camera")
    assert embed_images(without) is without


def test_videos_show_every_frame_at_its_place(root, camera_features, make_episode, open_dataset):
    episodes = [make_episode(k, n, features=camera_features) for k, n in ((0, 4), (1, 1), (2, 3))]
    shades = iter(range(20, 250, 25))
    for episode in episodes:
        for t in range(episode.length):
            shade = next(shades)
            episode.columns["observation.images.front"][t] = shade
            episode.columns["observation.images.wrist"][t] = 255 - shade
    record(LeRobotRecorder(root, "local/test", 20, camera_features, use_videos=True), episodes)

    dataset = open_dataset(root)
    assert dataset.meta.video_keys == ["observation.images.front", "observation.images.wrist"]
    frames = [(episode, t) for episode in episodes for t in range(episode.length)]
    for index, (episode, t) in enumerate(frames):
        for name in dataset.meta.video_keys:
            shown = dataset[index][name]
            assert shown.shape[1:] == tuple(camera_features[name].shape[:2])
            # AV1 at LeRobot's quality: a flat frame is off by a shade or two of 255, and the next shade is 25 away.
            assert (shown * 255 - episode.columns[name][t, 0, 0, 0]).abs().max() < 8
    assert sorted(os.listdir(root)) == ["data", "meta", "videos"]


def test_statistics_are_those_of_the_dataset(root, features, make_episode, open_dataset):
    episodes = [make_episode(k, n) for k, n in ((0, 30), (1, 3))]
    episodes[1].columns["action"] += 100.0
    record(LeRobotRecorder(root, "local/test", 20, features), episodes)
    stats = open_dataset(root).meta.stats
    actions = torch.cat([episode.columns["action"] for episode in episodes]).double().numpy()
    np.testing.assert_allclose(stats["action"]["q99"], np.quantile(actions, 0.99, axis=0))
    np.testing.assert_allclose(stats["action"]["q50"], np.quantile(actions, 0.5, axis=0))
    np.testing.assert_allclose(stats["action"]["std"], actions.std(axis=0))
    assert list(json.loads((root / "meta" / "stats.json").read_text()))[: len(features)] == list(features)


def test_data_and_videos_may_fill_several_files(root, camera_features, make_episode, read_columns, open_dataset):
    recorder = LeRobotRecorder(root, "local/test", 20, camera_features)
    episodes = [make_episode(k, 4, features=camera_features) for k in range(4)]
    recorder.commit(episodes[0])
    # Limits that an episode of this size passes; a recorder has LeRobot's 100 and 200 MB.
    meta = recorder._storage._dataset.meta
    meta.info.data_files_size_in_mb = meta.info.video_files_size_in_mb = 0.001
    meta._metadata_buffer_size = 1
    assert record(recorder, episodes[1:]) == root
    for pattern in ("data/*/*.parquet", "meta/episodes/*/*.parquet", "videos/observation.images.front/*/*.mp4"):
        assert len(list(root.glob(pattern))) > 1, pattern
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0, 1, 2, 3]
    assert_same_bits(read_columns(root)["action"], torch.cat([episode.columns["action"] for episode in episodes]))
    assert len(open_dataset(root)) == 16


def test_episodes_of_one_frame_may_come_in_any_number(root, features, make_episode, open_dataset):
    episodes = [make_episode(k, length) for k, length in enumerate([1] * 11 + [3] + [1] * 11)]
    record(LeRobotRecorder(root, "local/test", 20, features), episodes)
    assert len(open_dataset(root)) == 25


def test_nothing_is_at_the_root_before_finalize_and_all_is_durable_after(root, features, make_episode, staging_of):
    told = []
    recorder = LeRobotRecorder(root, "local/test", 20, features)

    def on_durable(episode, index):
        told.append((episode.outcome.attempt, index, episode.columns, (root / "meta" / "info.json").is_file()))

    recorder.on_durable = on_durable
    assert not root.parent.exists()
    assert recorder.try_commit(make_episode(3)) is True
    recorder.commit(make_episode(4, length=0))  # skipped
    recorder.commit(make_episode(6))
    assert staging_of(root).is_dir()
    assert not root.exists()
    assert told == []
    assert recorder.finalize() == root
    assert told == [(3, 0, {}, True), (6, 1, {}, True)]
    assert os.listdir(root.parent) == ["set"]
    assert recorder.stats()["mb_per_s"] > 0
    assert recorder.finalize() == root
    assert len(told) == 2
    with pytest.raises(RuntimeError, match="already finalized"):
        recorder.commit(make_episode(7))


def test_no_episode_is_no_dataset(root, features, make_episode):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0, length=0))
    assert recorder.finalize() is None
    assert not root.parent.exists()


def test_a_refused_episode_leaves_the_others_alone(root, features, make_episode, read_columns):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    bad = make_episode(0)
    bad.columns["action"][2, 0] = float("nan")
    bad.columns["annotation.early"] = torch.zeros(5)  # so it does not say which columns there are, either
    with pytest.raises(ValueError, match="'action': NaN or infinity in frame 2"):
        recorder.commit(bad)
    recorder.commit(make_episode(1))
    late = make_episode(2)
    late.columns["annotation.late"] = torch.zeros(5)
    with pytest.raises(ValueError, match=r"'annotation\.late': not among"):
        recorder.commit(late)
    with pytest.raises(ValueError, match=r"metadata\.x: object"):
        recorder.commit(make_episode(2, x=object()))
    recorder.commit(make_episode(3))
    assert recorder.finalize() == root
    assert [row["attempt"] for row in read_episode_metadata(root)] == [1, 3]
    assert_same_bits(read_columns(root)["action"], torch.cat([make_episode(k).columns["action"] for k in (1, 3)]))


def test_overwriting_keeps_the_old_dataset_until_the_new_one_is_complete(root, features, make_episode):
    record(LeRobotRecorder(root, "local/test", 20, features), [make_episode(0)])
    with pytest.raises(ConfigError, match="exists"):
        LeRobotRecorder(root, "local/test", 20, features)
    unused = LeRobotRecorder(root, "local/test", 20, features, overwrite=True)
    assert unused.finalize() is None
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0]
    recorder = LeRobotRecorder(root, "local/test", 20, features, overwrite=True)
    recorder.commit(make_episode(1))
    assert [row["attempt"] for row in read_episode_metadata(root)] == [0]
    recorder.finalize()
    assert [row["attempt"] for row in read_episode_metadata(root)] == [1]
    assert os.listdir(root.parent) == ["set"]


def test_aborting_removes_everything(root, features, make_episode):
    recorder = LeRobotRecorder(root, "local/test", 20, features)
    recorder.commit(make_episode(0))
    recorder.abort()
    recorder.abort()
    assert not root.parent.exists()
    with pytest.raises(RuntimeError, match="aborted, nothing was published"):
        recorder.finalize()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fps": 0}, "fps=0: an integer of at least 1"),
        ({"fps": 20.0}, "fps=20.0: an integer"),
        ({"fps": True}, "fps=True: an integer"),
        ({"image_writer_threads": -1}, "image_writer_threads=-1"),
        ({"repo_id": "../x"}, "dataset.repo_id="),
        ({"root": "/proc/x"}, "dataset.root=/proc/x"),
        ({"features": {"index": Feature("int64", (1,))}}, "feature 'index'"),
        ({"run_info": {"a": object()}}, "run_info: Object of type object is not JSON serializable"),
        ({"record_eef_observation": True}, "needs an eef_pose_fn and a feature"),
        ({"record_eef_observation": True, "eef_pose_fn": planar_eef_position}, "needs an eef_pose_fn and a feature"),
    ],
)
def test_bad_arguments_are_one_line_and_leave_nothing(tmp_path, features, changes, message):
    arguments = {"root": tmp_path / "set", "repo_id": "local/test", "fps": 20, "features": features} | changes
    with pytest.raises(ConfigError, match=message) as caught:
        LeRobotRecorder(**arguments)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["it's", "new\nline", "back\\slash"])
def test_a_path_that_would_break_the_list_of_videos_is_refused(tmp_path, features, camera_features, name):
    with pytest.raises(ConfigError, match=r"no quote, backslash or newline, or set dataset\.use_videos=false"):
        LeRobotRecorder(tmp_path / name / "set", "local/test", 20, camera_features)
    LeRobotRecorder(tmp_path / name / "set", "local/test", 20, camera_features, use_videos=False)
    LeRobotRecorder(tmp_path / name / "set", "local/test", 20, features)
    assert list(tmp_path.iterdir()) == []


def test_odd_paths_are_good(tmp_path, camera_features, features, make_episode, open_dataset):
    for name, columns in (("a b; $x #%s é 漢", camera_features), ('it\'s\n"so"', features)):
        root = tmp_path / name / ".." / name / "set"
        recorder = LeRobotRecorder(root, "local/test", 20, columns)
        record(recorder, [make_episode(k, features=columns) for k in range(2)])
        assert len(open_dataset(root.resolve())) == 10


ROLLOUT_FEATURES = {
    "observation.state": Feature("float32", (2,)),
    "observation.scene.lamp": Feature("float64", (1,)),
    "action": Feature("float32", (2,)),
}


def test_the_call_protocol_records_an_env_of_ones_own(root, read_columns):
    env = RolloutEnv()
    env.lengths[1] = 0
    features = ROLLOUT_FEATURES | {"observation.eef_pose": Feature("float32", (2,))}
    recorder = LeRobotRecorder(
        root, "local/test", 20, features, record_eef_observation=True, eef_pose_fn=planar_eef_position
    )
    expected = torch.cat([env.rollout_buffer["obs"]["state"][i, :n] for i, n in ((0, 5), (2, 3))])
    recorder(env, None, save_path="ignored here", use_videos=False)
    env.overwrite_buffers()
    assert recorder.finalize() == root
    columns = read_columns(root)
    assert_same_bits(columns["observation.state"], expected)
    assert columns["subtask_index"].tolist() == [0, 0, 1, 1, 2, 0, 0, 1]
    assert columns["annotation.effort"].tolist() == [[t, t] for n in (5, 3) for t in range(n)]
    assert_same_bits(columns["observation.eef_pose"], planar_eef_position(env, 0, {"observation.state": expected}))
    rows = read_episode_metadata(root)
    assert [(row["attempt"], row["seed"], row["metadata"]) for row in rows] == [
        (10, 100, {"layout": [0]}),
        (12, 102, {"layout": [2]}),
    ]
    with pytest.raises(RuntimeError, match="already finalized"):
        recorder(env, [])


def test_fragments_become_episodes_and_attempts_are_counted(root):
    env = RolloutEnv()
    env.metadata = {i: {} for i in range(3)}
    env.metadata[2] = {"output_mode": "segment_fragments", "segments": [{"start": 0, "end": 1}, {"start": 1, "end": 3}]}
    recorder = LeRobotRecorder(root, "local/test", 20, ROLLOUT_FEATURES, instruction="nod")
    recorder(env, [0])
    recorder(env, torch.tensor([2, 1]))
    recorder.finalize()
    rows = read_episode_metadata(root)
    assert [(row["attempt"], row["length"], row["tasks"]) for row in rows] == [
        (0, 5, ["nod"]),
        (1, 1, ["nod"]),
        (1, 2, ["nod"]),
        (2, 4, ["nod"]),
    ]
    assert [row["metadata"].get("fragment_id") for row in rows] == [None, 0, 1, None]


def test_no_eligible_segment_is_an_error(root):
    env = RolloutEnv()
    env.metadata[0] |= {"output_mode": "segment_fragments", "segments": []}
    recorder = LeRobotRecorder(root, "local/test", 20, ROLLOUT_FEATURES)
    with pytest.raises(RuntimeError, match="no segment is eligible"):
        recorder(env, [0])
    assert recorder.finalize() is None


def test_lerobots_tools_take_the_dataset(tmp_path, camera_features, make_episode, read_columns, open_dataset):
    from lerobot.datasets.aggregate import aggregate_datasets
    from lerobot.datasets.dataset_tools import delete_episodes, modify_tasks

    roots = [tmp_path / "a", tmp_path / "b"]
    episodes = [make_episode(k, 3, features=camera_features) for k in range(4)]
    for root, part in zip(roots, (episodes[:2], episodes[2:]), strict=True):
        record(LeRobotRecorder(root, "local/test", 20, camera_features), part)

    aggregate_datasets(["local/a", "local/b"], "local/c", roots, tmp_path / "c")
    assert len(open_dataset(tmp_path / "c")) == 12
    assert_same_bits(read_columns(tmp_path / "c")["action"], torch.cat([e.columns["action"] for e in episodes]))
    rows = read_episode_metadata(tmp_path / "c")
    assert [row["attempt"] for row in rows] == [0, 1, 2, 3]
    for row, episode in zip(rows, episodes, strict=True):
        assert torch.equal(row["initial_state"], episode.initial_state)

    modify_tasks(open_dataset(tmp_path / "c"), new_task="place")
    assert [row["tasks"] for row in read_episode_metadata(tmp_path / "c")] == [["place"]] * 4

    delete_episodes(open_dataset(tmp_path / "a"), [0], tmp_path / "d", "local/d")
    assert len(open_dataset(tmp_path / "d")) == 3
    with pytest.raises(ConfigError, match="no column 'mimicpipe/attempt'"):  # that tool leaves them out
        read_episode_metadata(tmp_path / "d")
