from typing import Any

import pytest
import torch
from demo_factory import make_demo, make_demos
from hypothesis import given
from hypothesis import strategies as st

from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5 import Hdf5Pool, demo_reader, load_demos, needs_of
from mimicpipe.pools.hdf5_writer import write_demos
from mimicpipe.pools.names import listing, natural_key, show

NEEDS: dict[str, Any] = {
    "eef_names": ["panda"],
    "object_names": ["cube"],
    "signal_names": ["grasp"],
    "gripper_from_actions": None,
}


def needing(**changes: Any) -> dict[str, Any]:
    return NEEDS | changes


@pytest.fixture
def folder(tmp_path):
    """Files a2.hdf5 (2 demos) and a10.h5 (3 demos) beside what is none."""
    write_demos(tmp_path / "a10.h5", make_demos(3), {})
    write_demos(tmp_path / "a2.hdf5", make_demos(2), {})
    (tmp_path / ".b.hdf5.tmp").touch()
    (tmp_path / ".b.hdf5").touch()
    (tmp_path / "README.md").touch()
    (tmp_path / "c.hdf5").mkdir()
    return tmp_path


def names(result):
    return [demo.name for demo in result.demos]


def test_a_file_keeps_its_names(folder):
    assert names(load_demos(folder / "a2.hdf5", **NEEDS)) == ["demo_0", "demo_1"]
    assert names(load_demos(str(folder / "a2.hdf5"), **NEEDS, demo_keys=["demo_1"])) == ["demo_1"]


def test_a_folder_is_read_in_natural_order(folder):
    expected = [*(f"a2.hdf5/demo_{i}" for i in range(2)), *(f"a10.h5/demo_{i}" for i in range(3))]
    assert names(load_demos(folder, **NEEDS)) == expected
    assert names(load_demos(folder, **NEEDS, max_demos=3)) == expected[:3]
    assert names(load_demos(folder, **NEEDS, demo_keys=["a10.h5/demo_2", "a2.hdf5/demo_0"])) == [
        "a2.hdf5/demo_0",
        "a10.h5/demo_2",
    ]


def test_a_list_may_repeat_file_names(folder):
    (folder / "sub").mkdir()
    write_demos(folder / "sub" / "a2.hdf5", make_demos(1), {})
    result = load_demos([folder / "sub", folder / "a2.hdf5"], **NEEDS)
    assert names(result) == [f"{folder}/sub/a2.hdf5/demo_0", f"{folder}/a2.hdf5/demo_0", f"{folder}/a2.hdf5/demo_1"]


def test_a_bad_file_is_raised_or_skipped(folder):
    (folder / "a1.hdf5").write_bytes(b"no demos")
    with pytest.raises(SourceDemoError, match=r"a1\.hdf5: is not an HDF5 file"):
        load_demos(folder, **NEEDS)
    result = load_demos(folder, **NEEDS, on_error="skip")
    assert len(result.demos) == 5
    ((name, reason),) = result.skipped
    assert name == "a1.hdf5"
    assert "is not an HDF5 file" in reason


def test_a_bad_demo_is_named_with_its_file(folder):
    write_demos(folder / "a3.hdf5", [make_demo(objects=("other",)), make_demo()], {})
    with pytest.raises(SourceDemoError, match=r"a3\.hdf5: demo_0: object_pose: no cube, it has other"):
        load_demos(folder, **NEEDS)
    result = load_demos(folder, **NEEDS, on_error="skip")
    assert [name for name, _ in result.skipped] == ["a3.hdf5/demo_0"]
    assert len(result.demos) == 6


def test_files_of_different_robots_do_not_mix(folder):
    write_demos(folder / "a3.hdf5", [make_demo(action_dim=8)], {})
    with pytest.raises(SourceDemoError, match=r"a3\.hdf5/demo_0: actions: 8 columns, a2\.hdf5/demo_0 has 7"):
        load_demos(folder, **NEEDS)
    assert [name for name, _ in load_demos(folder, **NEEDS, on_error="skip").skipped] == ["a3.hdf5/demo_0"]


def test_nothing_to_load(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    for path, message in (
        (tmp_path / "empty", r"empty: the folder has no \.hdf5 or \.h5 file"),
        ([], "no source demo file given"),
        (tmp_path / "none.hdf5", "no such file"),
    ):
        with pytest.raises(SourceDemoError, match=message):
            load_demos(path, **NEEDS)
    with pytest.raises(SourceDemoError, match=r"unknown demo demo_0; the files have a2\.hdf5/demo_0, .*a10\.h5/demo_2"):
        load_demos(folder, **NEEDS, demo_keys=["demo_0"])
    with pytest.raises(SourceDemoError, match="no usable demo, 5 skipped"):
        load_demos(folder, **needing(signal_names=["lift"]), on_error="skip")
    with pytest.raises(SourceDemoError, match="max_demos is 0"):
        load_demos(folder, **NEEDS, max_demos=0)


@pytest.fixture
def stack_env():
    return KinematicEnv(StackTask("D0"), num_envs=1)


@pytest.fixture
def stack_subtasks():
    return {
        "panda": [
            SubTaskConfig(object_ref="cubeA", subtask_term_signal="grasp"),
            SubTaskConfig(object_ref="cubeA", subtask_term_signal="lift"),
            SubTaskConfig(object_ref=None),
        ]
    }


def test_a_task_needs_what_its_subtasks_name(stack_env, stack_subtasks):
    needs = needs_of(stack_env, stack_subtasks)
    assert list(needs.eef_names or ()) == ["panda"]
    assert needs.object_names == ["cubeA"]
    assert needs.signal_names == ["grasp", "lift"]
    assert needs.action_dim == stack_env.action_dim


def test_the_pool_group_loads_for_an_env(tmp_path, stack_env, stack_subtasks):
    options: dict[str, Any] = {"objects": ("cubeA",), "signals": ("grasp", "lift")}
    good = make_demo(action_dim=stack_env.action_dim, **options)
    write_demos(tmp_path / "a.hdf5", [good, make_demo(action_dim=3, **options), good], {})
    result = Hdf5Pool(tmp_path / "a.hdf5", on_error="skip").load(stack_env, stack_subtasks)
    assert names(result) == ["demo_0", "demo_2"]
    assert not result.demos[0].observations
    chosen = Hdf5Pool(str(tmp_path), demo_keys=["demo_2"], max_demos=1).load(stack_env, stack_subtasks)
    assert names(chosen) == ["demo_2"]
    with pytest.raises(SourceDemoError, match=f"actions: 3 columns, this env's actions have {stack_env.action_dim}"):
        Hdf5Pool(tmp_path / "a.hdf5").load(stack_env, stack_subtasks)


def test_the_pool_of_generators_reads_files_itself(tmp_path, stack_env, stack_subtasks):
    demo = make_demo(length=40, objects=("cubeA",), signals=("grasp", "lift"))
    for name, step in (("grasp", 10), ("lift", 20)):
        demo.info.subtask_term_signals[name] = torch.arange(40) >= step
    write_demos(tmp_path / "a.hdf5", [demo] * 3, {})
    reader = demo_reader(stack_env, stack_subtasks)
    pool = DataGenInfoPool(stack_env, stack_subtasks, reader=reader)
    assert pool.load_from_dataset_file(tmp_path / "a.hdf5", ["demo_0", "demo_2"]) == 2
    assert torch.equal(pool.datagen_infos[1].eef_pose["panda"], demo.info.eef_pose["panda"])


def test_the_pool_of_generators_names_the_file_of_what_it_finds(tmp_path, stack_env, stack_subtasks):
    demo = make_demo(length=40, objects=("cubeA",), signals=("grasp", "lift"))
    for name, step in (("grasp", 20), ("lift", 10)):
        demo.info.subtask_term_signals[name] = torch.arange(40) >= step
    write_demos(tmp_path / "a.hdf5", [demo], {})
    pool = DataGenInfoPool(stack_env, stack_subtasks, reader=demo_reader(stack_env, stack_subtasks))
    with pytest.raises(SourceDemoError, match=r"a\.hdf5: demo_0: subtask_term_signals/lift: out of order"):
        pool.load_from_dataset_file(tmp_path / "a.hdf5")


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=6))
def test_natural_order_is_the_order_of_the_numbers(numbers):
    assert sorted((f"demo_{n}" for n in numbers), key=natural_key) == [f"demo_{n}" for n in sorted(numbers)]


@given(st.lists(st.text(st.sampled_from("a0129_²٣"), max_size=6), max_size=6))
def test_natural_order_is_total(words):
    ordered, backwards = sorted(words, key=natural_key), words[::-1]
    assert ordered == sorted(backwards, key=natural_key)
    assert len({natural_key(word) for word in words}) == len(set(words))


def test_names_are_safe_to_print():
    assert show("demo_0") == "demo_0"
    assert show("a\nb\udc80") == r"'a\nb\udc80'"
    assert listing([]) == "nothing"
    assert listing([f"d{i}" for i in range(12)]) == "d0, d1, d2, d3, d4, d5, d6, d7, d8, d9 and 2 more"
