"""Everything that can be wrong in a source file is one line that names file, demo and key."""

import os
import re
from typing import Any

import h5py
import numpy as np
import pytest
from demo_factory import make_demo, make_demos, read_all

from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5 import list_demos, read_demos
from mimicpipe.pools.hdf5_writer import write_demos

NEEDS: dict[str, Any] = {
    "eef_names": ["panda"],
    "object_names": ["cube"],
    "signal_names": ["grasp"],
    "gripper_from_actions": lambda actions: {"panda": actions[:, -1:]},
    "action_dim": 7,
}
INFO = "obs/datagen_info"


def needing(**changes: Any) -> dict[str, Any]:
    return NEEDS | changes


@pytest.fixture
def path(tmp_path):
    """A good file with demo_0 to demo_2."""
    write_demos(tmp_path / "demos.hdf5", make_demos(3), {})
    return tmp_path / "demos.hdf5"


def change(path, key, value, demo="demo_1"):
    """Replace or (None) remove an array of a demo."""
    with h5py.File(path, "r+") as file:
        group = file[f"data/{demo}"]
        old = group[key][()] if isinstance(group.get(key), h5py.Dataset) else None
        if group.get(key, getlink=True) is not None:
            del group[key]
        if value is not None:
            group[key] = value(old) if callable(value) else value


def error_of(path, **options):
    """The error that reading raises, which is one line and starts with the file."""
    with pytest.raises(SourceDemoError) as caught:
        read_demos(path, **needing(**options))
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def filled(step, value):
    def fill(array):
        array = array.copy()
        array[step] = value
        return array

    return fill


def test_no_file(tmp_path):
    assert "no such file" in error_of(tmp_path / "none.hdf5")


def test_a_folder(tmp_path):
    assert "is a folder" in error_of(tmp_path)


def test_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.hdf5")
    assert "is no regular file" in error_of(tmp_path / "pipe.hdf5")


def test_an_empty_file(tmp_path):
    (tmp_path / "a.hdf5").touch()
    assert "is empty" in error_of(tmp_path / "a.hdf5")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(path):
    path.chmod(0)
    assert "may not be read" in error_of(path)


@pytest.mark.parametrize("content", [b"PK\x03\x04" * 500, b"\x89HDF", b"demos\n"])
def test_another_format(tmp_path, content):
    (tmp_path / "a.hdf5").write_bytes(content)
    assert "is not an HDF5 file" in error_of(tmp_path / "a.hdf5")


def test_a_truncated_file(path):
    path.write_bytes(path.read_bytes()[:-100])
    assert "is truncated" in error_of(path)


def test_no_data_group(path):
    with h5py.File(path, "r+") as file:
        file.move("data", "episodes")
    assert re.match(r"data: no such group \(the file has episodes\)", error_of(path))


def test_data_is_an_array(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["data"] = np.zeros(3)
    assert error_of(tmp_path / "a.hdf5").startswith("data: no such group")


def test_no_demos(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_group("data")
    assert "data: holds no demos" in error_of(tmp_path / "a.hdf5")


BAD_DEMOS = [
    ("actions", None, "actions: missing (the demo has initial_state, obs)"),
    ("actions", lambda a: a[:, :6], "actions: 6 columns, this env's actions have 7"),
    ("actions", lambda a: a[:0], "actions: shape (0, 7)"),
    ("actions", lambda a: a[:, 0], "actions: shape (12,)"),
    ("actions", lambda a: a[:-1], "attribute num_samples: 12, but actions has 11 steps"),
    ("actions", filled(4, np.nan), "actions: NaN or infinity at step 4"),
    ("actions", lambda a: a.astype(np.float64) * 1e300, "actions: NaN or infinity at step 0"),
    ("actions", "text", "actions: holds object, expected numbers"),
    ("actions", np.zeros((12, 7), [("x", "f4")]), "expected numbers of up to 64 bits"),
    ("actions", np.zeros((12, 7), np.complex64), "expected numbers of up to 64 bits"),
    ("actions", h5py.Empty("f4"), "actions: holds nothing, expected numbers"),
    ("obs", None, "obs/datagen_info: missing (the demo has actions, initial_state)"),
    (INFO, None, "obs/datagen_info: missing (the demo has actions, initial_state, obs); annotate"),
    (INFO, np.zeros(3), "obs/datagen_info: missing"),
    (f"{INFO}/eef_pose", None, "eef_pose: no panda, it has nothing"),
    (f"{INFO}/eef_pose/panda", None, "eef_pose: no panda, it has nothing"),
    (f"{INFO}/object_pose/cube", None, "object_pose: no cube, it has nothing"),
    (f"{INFO}/object_pose", np.zeros((12, 4, 4)), "object_pose: is an array, expected a group"),
    (f"{INFO}/target_eef_pose", None, "target_eef_pose: no panda, it has nothing"),
    (f"{INFO}/gripper_action/panda", None, "gripper_action: no panda, it has nothing"),
    (f"{INFO}/gripper_action/panda", lambda a: a[:, :0], "gripper_action/panda: shape (12, 0), expected (12, G)"),
    (f"{INFO}/gripper_action/panda", lambda a: a[:, [0, 0]], "gripper_action/panda: 2 columns, demo_0 has 1"),
    (f"{INFO}/gripper_action/panda", filled(2, np.inf), "gripper_action/panda: NaN or infinity at step 2"),
    (f"{INFO}/subtask_term_signals", None, "subtask_term_signals: no grasp, it has nothing"),
    (f"{INFO}/subtask_term_signals/grasp", np.zeros(12, bool), "subtask_term_signals/grasp: the signal never goes 0→1"),
    (f"{INFO}/subtask_term_signals/grasp", np.ones(12, bool), "subtask_term_signals/grasp: the signal is true from"),
    (f"{INFO}/subtask_term_signals/grasp", np.full(12, np.nan), "subtask_term_signals/grasp: holds other values"),
    (f"{INFO}/subtask_term_signals/grasp", np.full(12, 0.5), "subtask_term_signals/grasp: holds other values"),
    (f"{INFO}/subtask_term_signals/grasp", np.arange(5) > 2, "subtask_term_signals/grasp: shape (5,), expected (12,)"),
    (f"{INFO}/subtask_term_signals/grasp", np.ones((12, 2)), "subtask_term_signals/grasp: shape (12, 2), expected"),
    (
        f"{INFO}/eef_pose/panda",
        lambda a: a[:0],
        "eef_pose/panda: shape (0, 4, 4), expected (12, 4, 4) as actions has 12 steps",
    ),
    (f"{INFO}/eef_pose/panda", lambda a: a[:-1], "eef_pose/panda: shape (11, 4, 4), expected (12, 4, 4)"),
    (f"{INFO}/eef_pose/panda", lambda a: a[0], "eef_pose/panda: shape (4, 4), expected (12, 4, 4)"),
    (f"{INFO}/eef_pose/panda", filled((7, 0, 3), np.nan), "eef_pose/panda: NaN or infinity at step 7"),
    (f"{INFO}/object_pose/cube", lambda a: a[:, :3], "object_pose/cube: shape (12, 3, 4), expected (12, 4, 4)"),
    (f"{INFO}/object_pose/cube", lambda a: a * 1.01, "object_pose/cube: the pose at step 0 is no rigid transform"),
    (f"{INFO}/object_pose/cube", filled((3, 3, 3), 0), "object_pose/cube: the pose at step 3 is no rigid transform"),
    (f"{INFO}/target_eef_pose/panda", lambda a: a * [1, 1, -1, 1], "target_eef_pose/panda: the pose at step 0"),
    ("initial_state/mimicpipe", np.zeros((2, 2)), "initial_state/mimicpipe: shape (2, 2), expected (S,)"),
    ("initial_state/mimicpipe", np.array([0.0, np.nan]), "initial_state/mimicpipe: NaN or infinity"),
    ("initial_state/mimicpipe/x", None, "initial_state/mimicpipe: is a group"),
]


def _break(path, key, value):
    if key == "initial_state/mimicpipe/x":
        change(path, "initial_state/mimicpipe", None)
        with h5py.File(path, "r+") as file:
            file.create_group("data/demo_1/initial_state/mimicpipe/x")
    else:
        change(path, key, value)


@pytest.mark.parametrize(("key", "value", "message"), BAD_DEMOS)
def test_a_bad_demo_is_named_or_skipped(path, key, value, message):
    _break(path, key, value)
    text = error_of(path)
    assert text.startswith("demo_1: ")
    assert message in text
    result = read_demos(path, **NEEDS, on_error="skip")
    assert [demo.name for demo in result.demos] == ["demo_0", "demo_2"]
    assert result.skipped == [("demo_1", f"{path}: {text}")]


def test_no_demo_left_after_skipping(path):
    for demo in ("demo_0", "demo_1", "demo_2"):
        change(path, f"{INFO}/eef_pose", None, demo)
    text = error_of(path, on_error="skip")
    assert text.startswith("no usable demo, 3 skipped; the first: ")
    assert "demo_0: eef_pose: no panda" in text


def test_no_gripper_action_anywhere(path):
    change(path, f"{INFO}/gripper_action", None)
    assert "demo_1: gripper_action: none recorded for panda" in error_of(path, gripper_from_actions=None)
    assert "none recorded for panda" in error_of(path, gripper_from_actions=lambda a: {"left": a[:, :1]})
    assert len(read_demos(path, **NEEDS).demos) == 3


def test_a_missing_name_lists_those_there_are(tmp_path):
    names: dict[str, Any] = {"objects": ("cubeB", "cubeA"), "signals": ("s10", "s9"), "start_signals": ("skill",)}
    write_demos(tmp_path / "a.hdf5", [make_demo(**names)], {})
    assert "object_pose: no cube, it has cubeA, cubeB" in error_of(tmp_path / "a.hdf5")
    common: dict[str, Any] = {"object_names": ["cubeA"], "signal_names": ["s9"]}
    assert "subtask_term_signals: no grasp, it has s9, s10" in error_of(
        tmp_path / "a.hdf5", object_names=["cubeA"], signal_names=["s9", "grasp"]
    )
    assert "subtask_start_signals: no lift, it has skill" in error_of(
        tmp_path / "a.hdf5", **common, start_signal_names=["lift"]
    )
    assert not read_demos(tmp_path / "a.hdf5", **needing(**common)).demos[0].info.subtask_start_signals


def test_what_the_task_does_not_need_may_be_bad(path):
    change(path, f"{INFO}/object_pose/other", np.full((3, 3), np.nan))
    change(path, f"{INFO}/subtask_term_signals/other", np.zeros(2))
    change(path, "obs/camera", np.zeros(2))
    assert len(read_demos(path, **NEEDS).demos) == 3


def test_failed_demos_are_read_only_if_asked_for(path):
    with h5py.File(path, "r+") as file:
        file["data/demo_1"].attrs["success"] = False
        del file["data/demo_2"].attrs["success"]
    assert "demo_1: success: the demo is recorded as a failure" in error_of(path)
    assert [d.name for d in read_demos(path, **NEEDS, on_error="skip").demos] == ["demo_0", "demo_2"]
    assert [d.success for d in read_demos(path, **NEEDS, failed=True).demos] == [True, False, True]


@pytest.mark.parametrize("value", ["yes", np.array([True, False]), h5py.Empty("f4")])
def test_attributes_must_be_numbers(path, value):
    with h5py.File(path, "r+") as file:
        file["data/demo_1"].attrs["success"] = value
    assert re.match(r"demo_1: attribute success: .*expected one number", error_of(path))


def test_a_demo_that_is_an_array(path):
    with h5py.File(path, "r+") as file:
        file["data/demo_3"] = np.zeros(3)
        file["data/demo_4"] = np.dtype("f4")
    assert "demo_3: is no group" in error_of(path)
    assert len(read_demos(path, **NEEDS, on_error="skip").skipped) == 2


def test_observations_are_as_long_as_the_actions(path):
    change(path, "obs/camera", np.zeros((11, 2)))
    assert "demo_1: obs/camera: shape (11, 2), expected (12, ...)" in error_of(path, observations=True)


@pytest.mark.parametrize("key", ["actions", f"{INFO}/eef_pose", f"{INFO}/eef_pose/panda", "initial_state", "obs"])
def test_links_out_of_the_file_are_never_followed(path, tmp_path, key):
    """The link leads to a good array, so only the refusal can stop it."""
    write_demos(tmp_path / "other.hdf5", make_demos(3), {})
    change(path, key, h5py.ExternalLink("other.hdf5", f"/data/demo_1/{key}"))
    assert "link out of the file" in error_of(path)
    with h5py.File(path, "r+") as file:  # a soft link that leaves the file through another's external link
        file["away"] = h5py.ExternalLink("other.hdf5", "/data")
        del file["data/demo_1"][key]
        file["data/demo_1"][key] = h5py.SoftLink(f"/away/demo_1/{key}")
    assert "link out of the file" in error_of(path)


def test_soft_links_lead_somewhere(path):
    change(path, "actions", h5py.SoftLink("/nowhere"))
    assert "demo_1: actions: a soft link that leads nowhere" in error_of(path)
    change(path, "actions", h5py.SoftLink("actions"))
    assert "demo_1: actions: soft links in a circle" in error_of(path)


def test_external_and_virtual_storage_are_never_opened(path, tmp_path):
    (tmp_path / "raw.bin").write_bytes(bytes(12 * 7 * 4))
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/actions"]
        file["data/demo_1"].create_dataset("actions", (12, 7), "f4", external=[(str(tmp_path / "raw.bin"), 0, 336)])
    assert "demo_1: actions: stored in another file" in error_of(path)
    layout = h5py.VirtualLayout((12, 7), "f4")
    layout[:] = h5py.VirtualSource(path, "data/demo_0/actions", (12, 7))
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/actions"]
        file["data/demo_1"].create_virtual_dataset("actions", layout)
    assert "demo_1: actions: stored in another file" in error_of(path)


def test_memory_is_not_taken_for_what_is_not_stored(path):
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/actions"]
        file["data/demo_1"].create_dataset("actions", (2**40, 7), "f4", chunks=(1024, 7))
    assert re.search(r"demo_1: actions: claims \d{14} bytes but 0 are stored", error_of(path))
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/actions"]
        file["data/demo_1"].create_dataset("actions", (12, 7), "f4", chunks=(2**26, 7), maxshape=(None, 7))
    assert "demo_1: actions: chunks (67108864, 7) are larger than 1 GiB" in error_of(path)


def test_demos_come_in_natural_order(tmp_path):
    write_demos(tmp_path / "a.hdf5", make_demos(12), {})
    names = [f"demo_{i}" for i in range(12)]
    assert list_demos(tmp_path / "a.hdf5") == names
    assert [d.name for d in read_all(tmp_path / "a.hdf5").demos] == names
    chosen = read_all(tmp_path / "a.hdf5", demo_keys=["demo_10", "demo_2"])
    assert [d.name for d in chosen.demos] == ["demo_2", "demo_10"]


def test_unknown_demo_keys_list_the_valid_ones(path):
    text = error_of(path, demo_keys=["demo_7", "demo_0", "x"], on_error="skip")
    assert text == "unknown demo demo_7, x; the file has demo_0, demo_1, demo_2"
    assert error_of(path, demo_keys=[]).startswith("demo_keys is empty; the file has")


def test_max_demos_counts_usable_ones(path):
    change(path, "actions", None, "demo_0")
    result = read_demos(path, **NEEDS, max_demos=1, on_error="skip")
    assert [d.name for d in result.demos] == ["demo_1"]
    assert [name for name, _ in result.skipped] == ["demo_0"]
    assert len(read_demos(path, **NEEDS, max_demos=99, on_error="skip").demos) == 2
    assert "max_demos is 0" in error_of(path, max_demos=0)


def test_on_error_is_one_of_two(path):
    assert "on_error is 'ignore'; valid: raise, skip" in error_of(path, on_error="ignore")
