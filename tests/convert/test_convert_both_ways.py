"""There and back: every number keeps its bits."""

import json
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from hdf5_cases import differences, isaaclab_file, robomimic_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mimicpipe.convert.options import Options
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.digest import digest_parts
from mimicpipe.tools.convert import convert
from mimicpipe.tools.dataset_checks import open_dataset, run_checks

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
PLAIN = Options()


def there_and_back(source, folder, there=PLAIN, back=PLAIN):
    convert(source, folder / "dataset", there)
    convert(folder / "dataset", folder / "back.hdf5", back)
    return folder / "dataset", folder / "back.hdf5"


def test_isaac_labs_layout(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    dataset, back = there_and_back(source, tmp_path)
    assert differences(source, back) == []
    with h5py.File(back) as file:
        assert file.attrs["format_version"] == 1
        assert json.loads(file["data"].attrs["env_args"])["sim_args"]["decimation"] == 5
        assert file["data"].attrs["total"] == 28
    assert all(good for _, good, _ in run_checks(open_dataset(dataset)))


def test_robomimics_layout_with_masks(tmp_path):
    source = robomimic_file(tmp_path / "rm.hdf5", numbers=(0, 1, 12))
    dataset, back = there_and_back(source, tmp_path, Options(task="Lift the cube."))
    assert differences(source, back) == []
    with h5py.File(back) as file:
        assert [name.decode() for name in file["mask/train"]] == ["demo_0", "demo_1"]
        assert file["data/demo_12/dones"].shape == (8,)
        assert "format_version" not in file.attrs
    info = json.loads((dataset / "meta" / "info.json").read_text())
    assert info["fps"] == 20  # env_kwargs.control_freq
    assert info["features"]["next.done"]["dtype"] == "int64"


def test_lerobot_opens_it(tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    source = isaaclab_file(tmp_path / "il.hdf5", cameras=True)
    convert(source, tmp_path / "dataset", Options(task="Lift the cube."))
    dataset = LeRobotDataset("local/converted", root=tmp_path / "dataset")
    with h5py.File(source) as file:
        for number, begin in ((0, 0), (1, 9), (2, 21)):
            demo = file[f"data/demo_{number}"]
            item: Any = dataset[begin + 3]
            assert np.array_equal(item["action"].numpy(), demo["actions"][3])
            assert np.array_equal(item["states.articulation.robot.root_pose"].numpy(),
                                  demo["states/articulation/robot/root_pose"][3])  # fmt: skip
            assert item["task"] == "Lift the cube."
            assert item["observation.images.table_cam"].shape == (3, 24, 32)
    assert dataset.num_episodes == 3


def test_a_state_for_policies_beside_the_keys(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    dataset, back = there_and_back(source, tmp_path, Options(state=("obs/joint_pos", "obs/eef_*")))
    feature = json.loads((dataset / "meta" / "info.json").read_text())["features"]["observation.state"]
    assert feature["names"] == [f"eef_quat_{i}" for i in range(4)] + [f"joint_pos_{i}" for i in range(9)]
    table = pq.read_table(dataset / "data", columns=["observation.state"]).to_pydict()["observation.state"]
    with h5py.File(source) as file:
        obs = file["data/demo_1/obs"]
        wanted = np.concatenate([obs["eef_quat"][()], obs["joint_pos"][()]], axis=1)
    assert np.array_equal(np.array(table[9:21], np.float32), wanted)
    assert differences(source, back) == []
    with pytest.raises(ConfigError, match="no vector is called like"):
        convert(source, tmp_path / "none", Options(state=("nothing",)))


def test_pictures_without_a_loss(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5", lengths=(4, 5), cameras=True)
    with h5py.File(source, "a") as file:
        for name in file["data"]:
            rows = len(file["data"][name]["actions"])
            depth = np.random.default_rng(0).integers(0, 2**16, (rows, 17, 19, 1), dtype=np.uint16)
            file["data"][name]["obs/depth"] = depth
    _, back = there_and_back(source, tmp_path, Options(images=True), Options(frames=True))
    assert differences(source, back) == []


def test_frames_of_videos_are_those_that_lerobot_shows(tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    source = isaaclab_file(tmp_path / "il.hdf5", lengths=(4, 5), cameras=True)
    dataset, back = there_and_back(source, tmp_path, back=Options(frames=True))
    shown: Any = LeRobotDataset("local/converted", root=dataset)
    with h5py.File(back) as file:
        for number, begin in ((0, 0), (1, 4)):
            frames = file[f"data/demo_{number}/obs/table_cam"][()]
            for place, frame in enumerate(frames):
                there = (shown[begin + place]["observation.images.table_cam"] * 255).round().numpy()
                assert np.array_equal(there.transpose(1, 2, 0), frame)
    assert differences(source, back, without=["obs/table_cam"]) == []


@st.composite
def demo_files(draw):
    """{key: array} of a few demos alike but for their lengths, of every dtype, matrices and bare numbers among them."""
    shapes = st.sampled_from([(), (1,), (3,), (4, 4), (2, 3, 2), (1, 1)])
    names = ["obs/x", "obs/deep/er", "next_obs/x", "states/a/b", "rewards", "dones", "obs/a.b", "extra-1"]
    keys = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
    kinds = {key: (draw(st.sampled_from(DTYPES)), draw(shapes)) for key in keys}
    kinds["actions"] = (
        draw(st.sampled_from(["float32", "float64", "int64"])),
        draw(st.sampled_from([(2,), (), (2, 2)])),
    )
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    return kinds, lengths, draw(st.integers(0, 2**32 - 1))


def values_of(dtype, shape, rng):
    """Numbers with every bit of their mantissas, of many magnitudes, negative zero among them."""
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype in FLOATS:
        lowest, highest = (-6, 3) if dtype == "float16" else (-30, 12)
        values = np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(lowest, highest, shape)).astype(dtype)
        return np.where(rng.random(shape) > 0.9, np.asarray(-0.0, dtype), values)
    info = np.iinfo(dtype)
    return rng.integers(info.min, min(info.max, np.iinfo(np.int64).max), shape, dtype=dtype, endpoint=True)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=demo_files())
def test_any_numbers_keep_their_bits(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("bits")
    kinds, lengths, seed = drawn
    rng = np.random.default_rng(seed)
    with h5py.File(folder / "any.hdf5", "w") as file:
        for number, length in enumerate(lengths):
            demo = file.create_group(f"data/demo_{number * 3}")
            for key, (dtype, shape) in kinds.items():
                demo[key] = values_of(dtype, (length, *shape), rng)
    dataset, back = there_and_back(folder / "any.hdf5", folder, Options(fps=10, task="t"))
    assert differences(folder / "any.hdf5", back) == []
    assert all(good for _, good, _ in run_checks(open_dataset(dataset)))


def test_a_dataset_of_ours_comes_back_as_it_was(recorded_dataset, tmp_path):
    convert(recorded_dataset, tmp_path / "demos.hdf5", Options(frames=True))
    convert(tmp_path / "demos.hdf5", tmp_path / "again", Options(images=True))
    assert digest_parts(tmp_path / "again") == digest_parts(recorded_dataset)


@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_quaternions_are_moved_where_that_is_asked_for(tmp_path, order):
    other = {"wxyz": "xyzw", "xyzw": "wxyz"}[order]
    source = isaaclab_file(tmp_path / "il.hdf5", version=None)
    asked = Options(quaternions=order, to_quaternions=other)
    dataset, back = there_and_back(source, tmp_path, asked)
    key = "states/articulation/robot/root_pose"
    with h5py.File(source) as a, h5py.File(back) as b:
        before, after = a[f"data/demo_0/{key}"][()], b[f"data/demo_0/{key}"][()]
        assert np.array_equal(after[:, 3:], np.roll(before[:, 3:], 1 if other == "wxyz" else -1, axis=1))
        assert np.array_equal(after[:, :3], before[:, :3])
        first = a[f"data/demo_0/initial_{key.replace('states', 'state')}"][()]
        moved = b[f"data/demo_0/initial_{key.replace('states', 'state')}"][()]
        assert np.array_equal(moved[:, 3:], np.roll(first[:, 3:], 1 if other == "wxyz" else -1, axis=1))
        # What Isaac Lab takes the order from.
        assert ("format_version" in b.attrs) == (other == "xyzw")
    convert(dataset, tmp_path / "restored.hdf5", Options(to_quaternions=order))
    assert differences(source, tmp_path / "restored.hdf5") == []
