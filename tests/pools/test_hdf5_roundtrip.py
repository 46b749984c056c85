import hashlib
import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from demo_factory import make_demo, make_demos, read_all, same, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import poses
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5_writer import write_demos

pytestmark = pytest.mark.timeout(180)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda n: n != "."
)
UNIQUE = st.lists(NAMES, min_size=1, max_size=3, unique=True)
ARGS = {"env_name": "pick", "type": 2, "env_kwargs": {"variant": "D0"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("roundtrip")


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_what_is_written_is_read_bit_for_bit(folder, data):
    options: dict[str, Any] = {
        "eefs": data.draw(UNIQUE),
        "objects": data.draw(UNIQUE),
        "signals": data.draw(UNIQUE),
        "start_signals": data.draw(st.lists(NAMES, max_size=2, unique=True)),
        "observations": [n for n in data.draw(st.lists(NAMES, max_size=2, unique=True)) if n != "datagen_info"],
        "action_dim": data.draw(st.integers(1, 9)),
        "gripper_dim": data.draw(st.integers(1, 3)),
        "state_dim": data.draw(st.none() | st.integers(1, 40)),
    }
    count = data.draw(st.sampled_from([1, 2, 11]))
    lengths = data.draw(st.lists(st.integers(2, 30), min_size=count, max_size=count))
    demos = [
        make_demo(f"demo_{i}", length, seed=i, success=data.draw(st.booleans()), **options)
        for i, length in enumerate(lengths)
    ]
    write_demos(folder / "a.hdf5", demos, ARGS)
    result = read_all(folder / "a.hdf5")
    assert not result.skipped
    assert len(result.demos) == count
    assert all(same(a, b) for a, b in zip(demos, result.demos, strict=True))


def test_read_tensors_own_contiguous_memory(folder):
    write_demos(folder / "a.hdf5", [make_demo()], ARGS)
    (demo,) = read_all(folder / "a.hdf5").demos
    for value in tensors(demo).values():
        assert value.is_contiguous()
        value.zero_()  # raises on memory that is not writable
    actions = make_demo().actions
    (demo,) = read_all(folder / "a.hdf5").demos
    assert torch.equal(demo.actions, actions)


def test_gripper_comes_from_the_actions_where_none_is_recorded(folder):
    demo = make_demo(gripper_dim=2)
    write_demos(folder / "a.hdf5", [demo], ARGS)
    with h5py.File(folder / "a.hdf5", "r+") as file:
        del file["data/demo_0/obs/datagen_info/gripper_action"]
    (read,) = read_all(folder / "a.hdf5", gripper_from_actions=lambda a: {"panda": a[:, -2:]}).demos
    gripper = read.info.gripper_action["panda"]
    assert torch.equal(gripper, demo.actions[:, -2:])
    assert gripper.data_ptr() != read.actions[:, -2:].data_ptr()


def test_layout_is_isaac_labs(folder):
    demos = make_demos(2, start_signals=("grasp",))
    write_demos(folder / "a.hdf5", demos, ARGS, seeds=[7, 2**63 - 1])
    found = {}
    with h5py.File(folder / "a.hdf5", "r") as file:
        assert json.loads(file["data"].attrs["env_args"]) == ARGS
        assert file["data"].attrs["total"] == 24
        assert [file[f"data/demo_{i}"].attrs["seed"] for i in range(2)] == [7, 2**63 - 1]
        assert [file[f"data/demo_{i}"].attrs["num_samples"] for i in range(2)] == [12, 12]
        assert bool(file["data/demo_1"].attrs["success"])
        file["data/demo_1"].visititems(
            lambda name, node: found.update({name: (node.shape, node.dtype)} if isinstance(node, h5py.Dataset) else {})
        )
    info = "obs/datagen_info"
    assert found == {
        "actions": ((12, 7), np.float32),
        "initial_state/mimicpipe": ((20,), np.float64),
        "obs/observation.state": ((12, 5), np.float32),
        f"{info}/eef_pose/panda": ((12, 4, 4), np.float32),
        f"{info}/object_pose/cube": ((12, 4, 4), np.float32),
        f"{info}/target_eef_pose/panda": ((12, 4, 4), np.float32),
        f"{info}/gripper_action/panda": ((12, 1), np.float32),
        f"{info}/subtask_term_signals/grasp": ((12,), np.bool_),
        f"{info}/subtask_start_signals/grasp": ((12,), np.bool_),
    }


def test_isaac_labs_own_types_and_nested_state_are_read(folder):
    """As HDF5DatasetFileHandler writes them: gzip, (T, 1) signals of any number type, initial_state in groups."""
    demo = make_demo(signals=("grasp", "lift"))
    info = demo.info
    with h5py.File(folder / "isaac.hdf5", "w") as file:
        group = file.create_group("data/demo_0")
        group.attrs["num_samples"] = 12
        group.attrs["success"] = True
        arrays = {
            "actions": demo.actions.double().numpy(),
            "states/articulation/robot/joint_position": np.zeros((12, 9), np.float32),
            "initial_state/articulation/robot/joint_position": np.zeros((1, 9), np.float32),
            "initial_state/rigid_object/cube/root_pose": np.zeros((1, 7), np.float32),
            "obs/joint_pos": np.ones((12, 9), np.float32),
            "obs/object_pose/cube/root_pose": np.zeros((12, 7), np.float32),
            "obs/datagen_info/eef_pose/panda": info.eef_pose["panda"].numpy().astype(">f8"),
            "obs/datagen_info/target_eef_pose/panda": info.target_eef_pose["panda"].numpy(),
            "obs/datagen_info/object_pose/cube": info.object_poses["cube"].numpy(),
            "obs/datagen_info/subtask_term_signals/grasp": info.subtask_term_signals["grasp"][:, None].float().numpy(),
            "obs/datagen_info/subtask_term_signals/lift": info.subtask_term_signals["lift"].numpy().astype(np.uint8),
        }
        for key, value in arrays.items():
            group.create_dataset(key, data=value, compression="gzip")
    (read,) = read_all(
        folder / "isaac.hdf5",
        eef_names=["panda"],
        object_names=["cube"],
        signal_names=["lift", "grasp"],
        gripper_from_actions=lambda a: {"panda": a[:, -1:]},
    ).demos
    assert read.initial_state is None
    assert list(read.info.subtask_term_signals) == ["lift", "grasp"]
    assert list(read.observations) == ["joint_pos"]
    read.observations, read.initial_state = demo.observations, demo.initial_state
    demo.info.gripper_action = {"panda": demo.actions[:, -1:]}
    assert same(read, demo)


def test_mimicgens_layout_is_read(folder):
    """As prepare_src_dataset.py writes it: no `obs/`, one arm without a name, no `success`."""
    demo = make_demo(gripper_dim=1)
    info = demo.info
    with h5py.File(folder / "mimicgen.hdf5", "w") as file:
        group = file.create_group("data/demo_0")
        group.attrs["num_samples"] = 12
        group["actions"] = demo.actions.numpy()
        group["states"] = np.zeros((12, 30))
        group["datagen_info/eef_pose"] = info.eef_pose["panda"].double().numpy()
        group["datagen_info/target_pose"] = info.target_eef_pose["panda"].double().numpy()
        group["datagen_info/gripper_action"] = info.gripper_action["panda"].numpy()
        group["datagen_info/object_poses/cube"] = info.object_poses["cube"].double().numpy()
        group["datagen_info/subtask_term_signals/grasp"] = info.subtask_term_signals["grasp"].numpy().astype(np.int64)
    (read,) = read_all(folder / "mimicgen.hdf5", eef_names=["panda"]).demos
    demo.observations, demo.initial_state = {}, None
    assert same(read, demo)
    (unnamed,) = read_all(folder / "mimicgen.hdf5").demos
    assert list(unnamed.info.eef_pose) == list(unnamed.info.gripper_action) == ["eef"]
    with pytest.raises(SourceDemoError, match=r"eef_pose: one end effector recorded, the task has left, right"):
        read_all(folder / "mimicgen.hdf5", eef_names=["left", "right"])


def test_soft_links_inside_the_file_are_followed(folder):
    demo = make_demo()
    write_demos(folder / "a.hdf5", [demo], ARGS)
    with h5py.File(folder / "a.hdf5", "r+") as file:
        group = file["data/demo_0/obs/datagen_info"]
        file.move("data/demo_0/actions", "elsewhere")
        file["data/demo_0/actions"] = h5py.SoftLink("/elsewhere")
        group.move("eef_pose", "poses")
        group["eef_pose"] = h5py.SoftLink("./poses")
    (read,) = read_all(folder / "a.hdf5").demos
    assert same(read, demo)


def test_equal_demos_give_equal_bytes_in_every_process(folder):
    write_demos(folder / "a.hdf5", make_demos(10), ARGS)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from demo_factory import make_demos\n"
        "from mimicpipe.pools.hdf5_writer import write_demos\n"
        f"write_demos(sys.argv[2], make_demos(10), {dict(reversed(ARGS.items()))!r})"
    )
    other = folder / "another name.hdf5"
    subprocess.run([sys.executable, "-c", code, Path(__file__).parent, other], check=True)
    assert hashlib.sha256(other.read_bytes()).digest() == hashlib.sha256((folder / "a.hdf5").read_bytes()).digest()


def test_a_file_of_ten_demos_is_small(folder):
    """Twenty demos of ten seconds have to fit into 2 MB, even where actions and state are noise."""
    demos = make_demos(10, length=200)
    for demo in demos:
        steps = torch.linspace(0, 1, 200)
        for group in (demo.info.eef_pose, demo.info.object_poses):
            for name, pose in group.items():
                group[name] = poses.interpolate(pose[:1].expand(200, 4, 4), pose[-1:].expand(200, 4, 4), steps)
        for name, pose in demo.info.eef_pose.items():
            demo.info.target_eef_pose[name] = pose.roll(-1, 0)  # each target is where the eef is next
        demo.info.object_poses["cube"][:100] = demo.info.object_poses["cube"][0]
    write_demos(folder / "a.hdf5", demos, ARGS)
    assert (folder / "a.hdf5").stat().st_size < 500_000


def test_writing_replaces_atomically_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "new" / "a.hdf5"
    write_demos(path, [make_demo(seed=1)], ARGS)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_demos(path, [make_demo(seed=2)], {"env_name": object()})
    assert path.read_bytes() == before
    write_demos(path, [make_demo(seed=2)], ARGS)
    assert path.read_bytes() != before
    assert [p.name for p in path.parent.iterdir()] == ["a.hdf5"]


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    write_demos(tmp_path / "a.hdf5", [make_demo()], ARGS)
    (tmp_path / "plain").touch()
    mode = [stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("a.hdf5", "plain")]
    assert mode[0] == mode[1]


def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(tmp_path):
    path = tmp_path / "a.hdf5"
    write_demos(path, [make_demo()], ARGS)
    before = path.read_bytes()
    demos = make_demos(4, length=400)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_demos(path, demos, ARGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def _unsound(change):
    demo = make_demo()
    change(demo)
    return demo


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.info.eef_pose.clear(), "eef_pose"),
        (
            lambda d: d.info.eef_pose["panda"].__setitem__((3, 0, 0), torch.nan),
            "eef_pose/panda: NaN or infinity at step 3",
        ),
        (lambda d: d.info.object_poses["cube"].__setitem__((3, 0, 0), 9.0), "object_pose/cube: the pose at step 3"),
        (lambda d: d.info.subtask_term_signals["grasp"].zero_(), "subtask_term_signals/grasp: the signal never"),
        (lambda d: d.info.target_eef_pose.update(other=d.info.eef_pose["panda"]), "target_eef_pose"),
        (lambda d: d.info.gripper_action.clear(), "gripper_action"),
        (
            lambda d: setattr(d, "actions", d.actions[:-1]),
            r"eef_pose/panda: shape \(12, 4, 4\), expected \(11, 4, 4\) as actions",
        ),
        (lambda d: setattr(d, "actions", d.actions[:, 0]), r"actions: shape \(12,\)"),
        (lambda d: d.actions.__setitem__((5, 0), torch.inf), "actions: NaN or infinity at step 5"),
        (lambda d: d.observations.update(x=torch.zeros(3)), "obs/x: shape"),
        (lambda d: d.observations.update({"a/b": torch.zeros(12)}), "'a/b' cannot be a key"),
        (lambda d: d.observations.update(datagen_info=torch.zeros(12)), "obs/datagen_info"),
        (lambda d: d.initial_state.__setitem__(0, torch.nan), "initial_state"),
    ],
)
def test_the_writer_refuses_what_the_reader_would(tmp_path, change, message):
    path = tmp_path / "a.hdf5"
    with pytest.raises(SourceDemoError, match=message) as caught:
        write_demos(path, [make_demo(), _unsound(change)], ARGS)
    assert str(caught.value).startswith(f"{path}: demo_0")
    assert not any(tmp_path.iterdir())


def test_the_writer_wants_demos_and_as_many_seeds(tmp_path):
    with pytest.raises(SourceDemoError, match="no demos to write"):
        write_demos(tmp_path / "a.hdf5", [], ARGS)
    with pytest.raises(ValueError, match="1 seeds for 2 demos"):
        write_demos(tmp_path / "a.hdf5", make_demos(2), ARGS, seeds=[1])
