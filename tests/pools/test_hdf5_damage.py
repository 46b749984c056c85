"""A damaged file gives SourceDemoError or the demos as they were: no other exception, no wrong number."""

from typing import Any

import h5py
import pytest
from demo_factory import make_demos, read_all, same, tensors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5 import read_demos
from mimicpipe.pools.hdf5_writer import write_demos

pytestmark = pytest.mark.timeout(180)
DEMOS = make_demos(10, length=6)
"""More than eight in a group: HDF5 then keeps the links in a heap and a tree instead of the header."""
# Other examples in every run, so a few are enough for each.
DAMAGE = settings(deadline=None, max_examples=50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module")
def intact(folder):
    write_demos(folder / "intact.hdf5", DEMOS, {"env_name": "pick"})
    return (folder / "intact.hdf5").read_bytes()


@pytest.fixture(scope="module")
def intact_old_format(folder):
    """HDF5's first object format, which Isaac Lab and robomimic write: no checksums."""
    with h5py.File(folder / "old.hdf5", "w", libver="earliest") as file:
        for demo in DEMOS[:2]:
            group = file.create_group(f"data/{demo.name}")
            group.attrs["num_samples"], group.attrs["success"] = 6, True
            for key, value in tensors(demo).items():
                field, _, name = key.partition("/")
                kind = {"object_poses": "object_pose"}.get(field, field)
                path = f"obs/datagen_info/{kind}/{name}" if name and field != "obs" else key
                group.create_dataset(path.replace("initial_state", "initial_state/mimicpipe"), data=value.numpy())
    assert len(read_all(folder / "old.hdf5").demos) == 2
    return (folder / "old.hdf5").read_bytes()


def read_or_refuse(path, content):
    """The demos in a file with this content, or None if it is refused with one line."""
    path.write_bytes(content)
    try:
        return read_all(path).demos
    except SourceDemoError as error:
        text = str(error)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return None


def overwrite(content, position, patch):
    start = int(position * (len(content) - 1))
    return content[:start] + patch[: len(content) - start] + content[start + len(patch) :]


def is_intact(demos):
    return len(demos) == len(DEMOS) and all(same(a, b) for a, b in zip(DEMOS, demos, strict=True))


@DAMAGE
@given(position=st.floats(0, 1), patch=st.binary(min_size=1, max_size=200) | st.integers(1, 4000).map(bytes))
def test_any_damaged_bytes_are_noticed(folder, intact, position, patch):
    demos = read_or_refuse(folder / "a.hdf5", overwrite(intact, position, patch))
    assert demos is None or is_intact(demos)


@DAMAGE
@given(position=st.floats(0, 1), bit=st.integers(0, 7))
@example(position=0.0, bit=0)
def test_any_flipped_bit_is_noticed(folder, intact, position, bit):
    at = int(position * (len(intact) - 1))
    demos = read_or_refuse(folder / "a.hdf5", overwrite(intact, position, bytes([intact[at] ^ 1 << bit])))
    assert demos is None or is_intact(demos)


@settings(deadline=None, max_examples=25)
@given(position=st.floats(0, 1, exclude_max=True))
@example(position=0.0)
@example(position=0.999999)
def test_a_file_cut_anywhere_is_refused(folder, intact, position):
    assert read_or_refuse(folder / "a.hdf5", intact[: int(position * len(intact))]) is None


@settings(deadline=None, max_examples=25)
@given(position=st.floats(0, 1), patch=st.binary(min_size=1, max_size=200))
def test_skipping_keeps_only_demos_as_they_were(folder, intact, position, patch):
    path = folder / "a.hdf5"
    path.write_bytes(overwrite(intact, position, patch))
    options: dict[str, Any] = dict.fromkeys(("eef_names", "object_names", "signal_names", "start_signal_names"))
    try:
        result = read_demos(path, **options, gripper_from_actions=None, observations=True, on_error="skip")
    except SourceDemoError:
        return
    by_name = {demo.name: demo for demo in DEMOS}
    assert all(same(demo, by_name[demo.name]) for demo in result.demos)
    assert len(result.demos) + len(result.skipped) == len(DEMOS)


@DAMAGE
@given(position=st.floats(0, 1), patch=st.binary(min_size=1, max_size=40) | st.integers(1, 400).map(bytes))
def test_damage_without_checksums_raises_nothing_else(folder, intact_old_format, position, patch):
    demos = read_or_refuse(folder / "a.hdf5", overwrite(intact_old_format, position, patch))
    for demo in demos or []:
        assert len({demo.actions.shape[0], *(v.shape[0] for v in demo.info.eef_pose.values())}) == 1
        assert bool(demo.actions.isfinite().all())
