import pytest
import torch

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.features import (
    check_columns,
    check_features,
    check_task,
    is_annotation,
    lerobot_features,
    with_annotations,
)


@pytest.mark.parametrize("use_videos", [True, False])
def test_good_features_pass(camera_features, use_videos):
    check_features(camera_features, use_videos)


@pytest.mark.parametrize(
    ("name", "feature", "message"),
    [
        ("timestamp", Feature("float32", (1,)), "LeRobot fills this column in itself"),
        ("task", Feature("float32", (1,)), "LeRobot fills this column in itself"),
        ("../escape", Feature("float32", (1,)), "a name has letters"),
        ("a/b", Feature("float32", (1,)), "a name has letters"),
        ("..", Feature("video", (32, 32, 3)), "a name has letters"),
        ("", Feature("float32", (1,)), "a name has letters"),
        ("observation.image_embedding", Feature("float32", (8,)), "'image' in it"),
        ("observation.state", Feature("float32", (1, 2, 3, 4, 5, 6)), "at most 5 axes"),
        ("observation.state", Feature("float32", (), ("x", "y")), "2 names for 1 elements"),
        ("observation.state", Feature("float32", (0,)), "empty axis"),
        ("observation.state", Feature("float16", (3,)), "valid are float32, float64"),
        ("observation.state", Feature("string", ()), r"the shape of text is \(L,\)"),
        ("observation.state", Feature("str", (8,)), "valid are float32, float64"),
        ("observation.image_text", Feature("string", (8,)), "'image' in it"),
        ("observation.images.depth", Feature("depth", (32, 32)), r"'depth' is \(H, W, 1\)"),
        ("observation.images.depth", Feature("depth", (32, 32, 3)), r"'depth' is \(H, W, 1\)"),
        ("observation.images.depth", Feature("depth", (8, 32, 1)), "16 pixels"),
        ("observation.state", Feature("float32", (3,), ("x", "y")), "2 names for 3 elements"),
        ("observation.images.front", Feature("video", (32, 32, 4)), r"\(H, W, 3\)"),
        ("observation.images.front", Feature("image", (3, 32, 32)), r"\(H, W, 3\)"),
        ("observation.images.front", Feature("image", (8, 32, 3)), "16 pixels"),
        ("observation.images.front", Feature("video", (33, 32, 3)), "even sides"),
    ],
)
def test_features_that_lerobot_cannot_hold_are_refused(name, feature, message):
    with pytest.raises(ConfigError, match=message) as caught:
        check_features({name: feature}, use_videos=True)
    assert repr(name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_features_are_refused_and_odd_sides_are_good_for_images():
    with pytest.raises(ConfigError, match="at least one"):
        check_features({}, use_videos=True)
    check_features({"observation.images.front": Feature("video", (33, 31, 3))}, use_videos=False)


@pytest.mark.parametrize(("use_videos", "dtype"), [(True, "video"), (False, "image")])
def test_use_videos_decides_for_every_camera(camera_features, use_videos, dtype):
    converted = lerobot_features(camera_features, use_videos)
    for name in ("observation.images.front", "observation.images.wrist"):
        assert converted[name]["dtype"] == dtype
        assert converted[name]["names"] == ["height", "width", "channels"]
    assert converted["observation.state"] == {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]}
    assert converted["action"] == {"dtype": "float32", "shape": (7,), "names": None}


def test_annotations_need_no_declaration():
    assert is_annotation("subtask_index")
    assert is_annotation("annotation.phase")
    assert not is_annotation("annotations")
    columns = {
        "subtask_index": torch.zeros(4, dtype=torch.int64),
        "annotation.pose": torch.zeros(4, 6),
        "observation.surprise": torch.zeros(4, 2),
    }
    extended = with_annotations({"action": Feature("float32", (7,))}, columns)
    assert extended == {
        "action": Feature("float32", (7,)),
        "subtask_index": Feature("int64", (1,)),
        "annotation.pose": Feature("float32", (6,)),
    }
    check_features(extended, use_videos=True)


def with_column(episode, name, column):
    return {**episode.columns, name: column}


def test_good_columns_pass(features, make_episode):
    episode = make_episode(0)
    check_columns(episode.columns, features)
    flat = episode.columns["observation.contact"].reshape(-1)
    check_columns(with_column(episode, "observation.contact", flat), features)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (torch.zeros(5, 4), r"shape \(5, 4\) where \(5, 3\) is needed"),
        (torch.zeros(4, 3), r"shape \(4, 3\) where \(5, 3\) is needed"),
        (torch.zeros(5, 3, dtype=torch.float64), "float64 where torch.float32 is declared"),
        (torch.zeros(5, 3, dtype=torch.int64), "int64 where torch.float32 is declared"),
        (torch.zeros(5, 3, device="meta"), "on meta"),
    ],
)
def test_columns_that_are_not_their_feature_are_refused(features, make_episode, column, message):
    columns = {"action": make_episode(0).columns["action"]} | with_column(make_episode(0), "observation.state", column)
    with pytest.raises(ValueError, match=message) as caught:
        check_columns(columns, features)
    assert "'observation.state'" in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["observation.state", "observation.environment_state", "action"])
def test_values_that_are_not_finite_are_refused(features, make_episode, name, value):
    columns = make_episode(0).columns
    columns[name][3, 1] = value
    with pytest.raises(ValueError, match=f"'{name}': NaN or infinity in frame 3"):
        check_columns(columns, features)


def test_missing_and_unknown_columns_are_named(features, make_episode):
    columns = make_episode(0).columns
    with pytest.raises(ValueError, match=r"'observation\.extra': not among"):
        check_columns({**columns, "observation.extra": torch.zeros(5, 1)}, features)
    del columns["action"]
    with pytest.raises(ValueError, match="'action': the episode has no such column"):
        check_columns(columns, features)


def test_a_task_is_text():
    check_task('put the "cube"\non the other 漢字')
    with pytest.raises(ValueError, match="NoneType"):
        check_task(None)
    with pytest.raises(ValueError, match="surrogates"):
        check_task("half a pair \ud800")
