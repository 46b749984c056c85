"""Keys and features: each name leads back to where it came from, and LeRobot takes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mimicpipe.convert.names import feature_of, path_of
from mimicpipe.envs.base import Feature
from mimicpipe.recorders.features import check_features

WORDS = st.sampled_from(
    ["obs", "next_obs", "actions", "action", "observation", "images", "image", "timestamp", "index"]
)
ODD = st.sampled_from(
    ["next", "reward", "rewards", "a.b", "a-b", "-2e-", "états", "x y", "datagen_info", "task", "index"]
)
PARTS = st.one_of(WORDS, ODD, st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("path", "camera", "feature"),
    [
        ("actions", False, "action"),
        ("rewards", False, "next.reward"),
        ("obs/joint_pos", False, "observation.joint_pos"),
        ("obs/datagen_info/eef_pose/panda", False, "observation.datagen_info.eef_pose.panda"),
        ("obs/wrist", True, "observation.images.wrist"),
        ("next_obs/agentview_image", True, "next_obs.agentview_image"),
        ("states/articulation/robot/root_pose", False, "states.articulation.robot.root_pose"),
        ("obs/image_features", False, "observation.imag-65-_features"),
        ("obs/a.b-c", False, "observation.a-2e-b-2d-c"),
        ("timestamp", False, "timestam-70-"),
        ("action", False, "actio-6e-"),
        ("obs/observation.state", False, "observation.state"),
    ],
)
def test_what_keys_are_called(path, camera, feature):
    assert feature_of(path, camera) == feature
    assert feature == "observation.state" or path_of(feature, camera) == path


@given(PATHS, st.booleans())
def test_a_name_leads_back(path, camera):
    feature = feature_of(path, camera)
    if feature is None:  # its first letter is none that LeRobot's names begin with
        return
    if not path.startswith("obs/observation."):
        assert path_of(feature, camera) == path
    dtype, shape = ("image", (16, 16, 3)) if camera else ("float32", (2,))
    check_features({feature: Feature(dtype, shape)}, use_videos=True)


@given(st.lists(PATHS, unique=True, max_size=6))
def test_two_keys_have_two_names(paths):
    features = [f for path in paths if (f := feature_of(path, False)) and not path.startswith("obs/observation.")]
    assert len(set(features)) == len(features)
