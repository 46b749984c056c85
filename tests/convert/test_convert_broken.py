"""Broken and mixed demos: each is said by name, and the others are converted."""

import json
import os
import shutil
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdf5_cases import arrays, differences, isaaclab_demo, isaaclab_file, robomimic_file

from mimicpipe.convert.options import Options
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.tools import convert as tool
from mimicpipe.tools.convert import convert


def nan(demo):
    demo["obs/joint_pos"][4, 2] = np.nan


def no_actions(demo):
    del demo["actions"]


def empty(demo):
    for name in list(demo):
        del demo[name]
    demo.attrs["num_samples"] = 0


def no_steps(demo):
    del demo["actions"]
    demo["actions"] = np.zeros((0, 7), np.float32)


def cut_off(demo):
    demo.attrs["num_samples"] = 90


def short_key(demo):
    values = demo["obs/joint_pos"][:-1]
    del demo["obs/joint_pos"]
    demo["obs/joint_pos"] = values


def other_shape(demo):
    rows = len(demo["actions"])
    del demo["obs/joint_pos"]
    demo["obs/joint_pos"] = np.zeros((rows, 8), np.float32)


def other_dtype(demo):
    values = demo["obs/joint_pos"][()]
    del demo["obs/joint_pos"]
    demo["obs/joint_pos"] = values.astype(np.float64)


def missing_key(demo):
    del demo["obs/eef_quat"]


def more_keys(demo):
    demo["obs/extra"] = np.zeros((len(demo["actions"]), 2))


def leads_out(demo):
    del demo["obs/joint_pos"]
    demo["obs/joint_pos"] = h5py.ExternalLink("elsewhere.hdf5", "/x")


def endless(demo):
    demo["obs/again"] = h5py.SoftLink(demo["obs"].name)


FAULTS = {
    nan: "NaN or infinity in frame 4",
    no_actions: "actions: missing",
    empty: "actions: missing",
    no_steps: "the demo is empty",
    cut_off: "num_samples: 90, but actions has 12 steps",
    short_key: "obs/joint_pos: has not as many rows as actions",
    other_shape: "obs/joint_pos: float32 of shape (8,) a frame, most demos have float32 of shape (9,)",
    other_dtype: "obs/joint_pos: float64 of shape (9,)",
    missing_key: "has no obs/eef_quat, which most demos have",
    more_keys: "has obs/extra, which most demos have not",
    leads_out: "a link out of the file",
    endless: "a link to itself",
}


def test_broken_demos_are_named_and_skipped(tmp_path, capsys):
    """Each fault in a demo of its own, with whole ones before, between and behind them."""
    source, whole = tmp_path / "il.hdf5", {0, 5, 10, 14}
    isaaclab_file(source, lengths=(12,) * (len(FAULTS) + len(whole)))
    broken = dict(zip(sorted(set(range(len(FAULTS) + len(whole))) - whole), FAULTS, strict=True))
    with h5py.File(source, "a") as file:
        for number, fault in broken.items():
            fault(file[f"data/demo_{number}"])
    assert tool.main([str(source), str(tmp_path / "dataset")]) == 0
    printed = capsys.readouterr()
    assert "4 of 16 demos (48 frames)" in printed.out
    lines = printed.err.splitlines()
    assert len(lines) == len(broken)
    for number, fault in broken.items():
        line = next(line for line in lines if f" {source}: demo_{number}: " in line)
        assert line.startswith("skipped ")
        assert FAULTS[fault] in line
    convert(tmp_path / "dataset", tmp_path / "back.hdf5", Options())
    with h5py.File(source, "a") as file:
        for number in broken:
            del file[f"data/demo_{number}"]
    assert differences(source, tmp_path / "back.hdf5") == []


def test_a_demo_whose_bytes_are_damaged(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    with h5py.File(source, "a") as file:
        del file["data/demo_1/obs/joint_pos"]
        values = np.arange(108, dtype=np.float32).reshape(12, 9)
        file["data/demo_1"].create_dataset("obs/joint_pos", data=values, chunks=(12, 9), fletcher32=True)
        place = file["data/demo_1/obs/joint_pos"].id.get_chunk_info(0).byte_offset
    with source.open("r+b") as file:
        file.seek(place + 8)
        file.write(b"\xff\xfe\xfd")
    result = convert(source, tmp_path / "dataset", Options())
    assert result.episodes == 2
    assert [name for name, _ in result.skipped] == ["demo_1"]
    assert "damaged" in result.skipped[0][1]


def test_what_is_no_demo(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    with h5py.File(source, "a") as file:
        file["data/notes"] = np.zeros(3)
    result = convert(source, tmp_path / "dataset", Options())
    assert (result.episodes, [name for name, _ in result.skipped]) == (3, ["notes"])


def test_raise_leaves_nothing_behind(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    with h5py.File(source, "a") as file:
        nan(file["data/demo_2"])
    with pytest.raises(SourceDemoError, match=r"demo_2: feature 'observation\.joint_pos': NaN"):
        convert(source, tmp_path / "dataset", Options(on_error="raise"))
    assert os.listdir(tmp_path) == ["il.hdf5"]


def test_nothing_that_can_be_converted(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5", lengths=(9,))
    with h5py.File(source, "a") as file:
        nan(file["data/demo_0"])
    with pytest.raises(SourceDemoError, match=r"no demo can be converted, 1 skipped; the first: .*NaN"):
        convert(source, tmp_path / "dataset", Options())
    assert os.listdir(tmp_path) == ["il.hdf5"]


def test_files_that_cannot_be_read(tmp_path, capsys):
    whole = isaaclab_file(tmp_path / "il.hdf5").read_bytes()
    (tmp_path / "cut.hdf5").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.hdf5").write_text("no HDF5")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["x"] = 1
    for name, said in (
        ("cut.hdf5", "is truncated"),
        ("text.hdf5", "is not an HDF5 file"),
        ("other.hdf5", "no such group (the file has x)"),
        ("none.hdf5", "no such file"),
        ("", "is a folder"),
    ):
        assert tool.main([str(tmp_path / name), str(tmp_path / "dataset")]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "dataset").exists()


def test_mixed_files_keep_what_all_demos_have(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    with h5py.File(source, "a") as file:
        missing_key(file["data/demo_0"])
        more_keys(file["data/demo_1"])
        other_shape(file["data/demo_2"])
    result = convert(source, tmp_path / "dataset", Options(common=True))
    assert result.episodes == 3
    assert any("not in every demo, or not alike): obs/eef_quat, obs/extra, obs/joint_pos" in n for n in result.notes)
    convert(tmp_path / "dataset", tmp_path / "back.hdf5", Options())
    with h5py.File(tmp_path / "back.hdf5") as file:
        assert "obs/joint_pos" not in arrays(file["data/demo_0"])
    result = convert(source, tmp_path / "other", Options(exclude=("obs/eef_quat", "*extra", "observation.joint_pos")))
    assert result.episodes == 3


def test_which_keys_are_converted(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5", lengths=(5,))
    convert(source, tmp_path / "dataset", Options(include=("obs/joint_pos", "states*root_pose")))
    features = json.loads((tmp_path / "dataset/meta/info.json").read_text())["features"]
    assert {name for name in features if "." in name or name == "action"} == {
        "action", "observation.joint_pos", "states.articulation.robot.root_pose"
    }  # fmt: skip
    with pytest.raises(ConfigError, match="--include obs/joint: no key like this; there are actions, initial_state"):
        convert(source, tmp_path / "none", Options(include=("obs/joint",)))
    with pytest.raises(ConfigError, match=r"--exclude observation\.x: no key like this"):
        convert(tmp_path / "dataset", tmp_path / "none.hdf5", Options(exclude=("observation.x",)))


def test_a_file_that_was_changed_after_it_was_made_from_a_dataset(recorded_dataset, tmp_path):
    convert(recorded_dataset, tmp_path / "demos.hdf5", Options())
    with h5py.File(tmp_path / "demos.hdf5", "a") as file:
        for demo in file["data"].values():
            del demo["obs/state"]
            demo["obs/state"] = np.zeros((len(demo["actions"]), 5), np.float32)
    convert(tmp_path / "demos.hdf5", tmp_path / "dataset", Options())
    feature = json.loads((tmp_path / "dataset/meta/info.json").read_text())["features"]["observation.state"]
    assert (feature["shape"], feature["names"]) == ([5], None)


def test_failures_masks_and_the_first_few(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5")
    with h5py.File(source, "a") as file:
        file["data/demo_1"].attrs["success"] = np.False_
    convert(source, tmp_path / "all", Options())
    assert [row["success"] for row in read_episode_metadata(tmp_path / "all")] == [True, False, True]
    result = convert(source, tmp_path / "good", Options(success_only=True))
    assert (result.episodes, result.skipped[0][0]) == (2, "demo_1")
    assert convert(source, tmp_path / "first", Options(max_demos=1)).episodes == 1
    masked = robomimic_file(tmp_path / "rm.hdf5")
    result = convert(masked, tmp_path / "valid", Options(mask="valid"))
    assert (result.total, result.episodes) == (1, 1)
    with pytest.raises(ConfigError, match=r"--mask test: .* has train, valid"):
        convert(masked, tmp_path / "test", Options(mask="test"))


def test_numbers_of_demos_with_gaps_come_in_their_order(tmp_path):
    with h5py.File(tmp_path / "gaps.hdf5", "w") as file:
        data = file.create_group("data")
        for number in (10, 2, 7):
            isaaclab_demo(data, number, length=number)
    convert(tmp_path / "gaps.hdf5", tmp_path / "dataset", Options(fps=30, task="t"))
    rows = read_episode_metadata(tmp_path / "dataset")
    assert [(row["length"], row["seed"], row["metadata"]["hdf5"]["demo"]) for row in rows] == [
        (2, 102, "demo_2"),
        (7, 107, "demo_7"),
        (10, 110, "demo_10"),
    ]


def test_nothing_is_guessed(tmp_path):
    with h5py.File(tmp_path / "bare.hdf5", "w") as file:
        isaaclab_demo(file.create_group("data"), 0)
    with pytest.raises(ConfigError, match="--fps"):
        convert(tmp_path / "bare.hdf5", tmp_path / "dataset", Options(task="t"))
    with pytest.raises(SourceDemoError, match="--task"):
        convert(tmp_path / "bare.hdf5", tmp_path / "dataset", Options(fps=20))
    with pytest.raises(ConfigError, match="declare it with --quaternions"):
        convert(tmp_path / "bare.hdf5", tmp_path / "dataset", Options(fps=20, task="t", to_quaternions="wxyz"))
    result = convert(tmp_path / "bare.hdf5", tmp_path / "dataset", Options(fps=20, task="t"))
    assert any("order unknown, left as they are" in note for note in result.notes)


def test_a_target_that_is_there_stays(tmp_path, capsys):
    source = isaaclab_file(tmp_path / "il.hdf5", lengths=(5,))
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine.txt").write_text("mine")
    assert tool.main([str(source), str(tmp_path / "dataset"), "--overwrite"]) == 2
    assert tool.main([str(source), str(tmp_path / "dataset")]) == 2
    assert (tmp_path / "dataset" / "mine.txt").read_text() == "mine"
    convert(source, tmp_path / "fine", Options())
    assert tool.main([str(source), str(tmp_path / "fine")]) == 2
    assert tool.main([str(source), str(tmp_path / "fine"), "--overwrite"]) == 0
    assert tool.main([str(tmp_path / "fine"), str(source)]) == 2
    assert tool.main([str(tmp_path / "fine"), str(tmp_path / "folder")]) == 2
    assert tool.main([str(source), str(tmp_path / "new.hdf5")]) == 2
    assert tool.main([str(tmp_path / "fine"), str(tmp_path / "new.hdf5"), "--task", "t"]) == 2
    assert "--task: means nothing where SOURCE is a LeRobot dataset" in capsys.readouterr().err


def change_data(root, change):
    path = next((root / "data").glob("*/*.parquet"))
    table = pq.read_table(path)
    pq.write_table(change(table), path, row_group_size=3)


def nan_in_the_second(table):
    rows: Any = table.column("observation.state").to_pylist()
    rows[5][1] = float("nan")
    column = pa.array(rows, table.schema.field("observation.state").type)
    return table.set_column(table.schema.get_field_index("observation.state"), "observation.state", column)


def no_picture_in_the_second(table):
    rows: Any = table.column("observation.images.front").to_pylist()
    rows[5] = {"bytes": b"no PNG", "path": None}
    column = pa.array(rows, table.schema.field("observation.images.front").type)
    name = "observation.images.front"
    return table.set_column(table.schema.get_field_index(name), name, column)


@pytest.mark.parametrize(
    ("change", "said"),
    [(nan_in_the_second, "observation.state: NaN or infinity in frame 1"), (no_picture_in_the_second, "frame 1: ")],
)
def test_a_broken_episode_of_a_dataset(recorded_dataset, tmp_path, change, said):
    change_data(recorded_dataset, change)
    result = convert(recorded_dataset, tmp_path / "demos.hdf5", Options(frames=True))
    assert [name for name, _ in result.skipped] == ["episode_1"]
    assert said in result.skipped[0][1]
    with h5py.File(tmp_path / "demos.hdf5") as file:
        assert [file["data"][name].attrs["attempt"] for name in file["data"]] == [0, 4]
    with pytest.raises(SourceDemoError, match="episode_1"):
        convert(recorded_dataset, tmp_path / "none.hdf5", Options(frames=True, on_error="raise"))
    assert not (tmp_path / "none.hdf5").exists()
    assert not list(tmp_path.glob(".*"))


def test_videos_that_lack_frames(tmp_path):
    source = isaaclab_file(tmp_path / "il.hdf5", lengths=(4, 5), cameras=True)
    convert(source, tmp_path / "dataset", Options())
    video = next((tmp_path / "dataset" / "videos").glob("*/*/*.mp4"))
    shorter = isaaclab_file(tmp_path / "short.hdf5", lengths=(4, 3), cameras=True)
    convert(shorter, tmp_path / "shorter", Options())
    shutil.copy(next((tmp_path / "shorter" / "videos").glob("*/*/*.mp4")), video)
    result = convert(tmp_path / "dataset", tmp_path / "back.hdf5", Options(frames=True))
    assert (result.episodes, result.skipped[0][0]) == (1, "episode_1")
    assert "frame 3 of 5 is missing" in result.skipped[0][1]
    video.write_bytes(b"no video")
    with pytest.raises(SourceDemoError, match="no episode can be converted, 2 skipped"):
        convert(tmp_path / "dataset", tmp_path / "none.hdf5", Options(frames=True))
    assert convert(tmp_path / "dataset", tmp_path / "plain.hdf5", Options()).episodes == 2


def test_paths_out_of_a_dataset_are_not_followed(recorded_dataset, tmp_path):
    info = recorded_dataset / "meta" / "info.json"
    data = next((recorded_dataset / "data").glob("*/*.parquet"))
    shutil.copy(data, tmp_path / "elsewhere.parquet")
    info.write_text(json.dumps({**json.loads(info.read_text()), "data_path": "../elsewhere.parquet"}))
    with pytest.raises(SourceDemoError, match="lies outside of the dataset"):
        convert(recorded_dataset, tmp_path / "demos.hdf5", Options())
    assert not (tmp_path / "demos.hdf5").exists()
