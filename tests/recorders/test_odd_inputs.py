"""What a newcomer may give to the tools for datasets: one line that says what is wrong, never a traceback."""

import json
import shutil

import pytest
from small_episodes import CAMERAS, FEATURES, episode_of

from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.report.attempts import read_attempts
from mimicpipe.tools import convert, digest, merge, recover, validate, view


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("sound") / "dataset"
    features = {**FEATURES, "observation.images.front": CAMERAS["observation.images.front"]}
    recorder = ShardedRecorder(root, "local/small", 20, features)
    for attempt in range(2):
        recorder.commit(episode_of(attempt, 5, "do it", features))
    recorder.finalize()
    return root


def first(root, pattern):
    return next(root.glob(pattern))


def info_with(**changes):
    def change(root):
        path = root / "meta" / "info.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


DAMAGE = {
    "no JSON": lambda root: (root / "meta" / "info.json").write_text("{"),
    "a list": lambda root: (root / "meta" / "info.json").write_text("[]"),
    "no features": info_with(features={}),
    "a number for a feature": info_with(features={"action": 3}),
    "fps 0": info_with(fps=0),
    "fps a text": info_with(fps="20"),
    "another data path": info_with(data_path="{nothing}"),
    "data elsewhere": info_with(data_path="data/{chunk_index}/{file_index}.parquet"),
    "no video path": info_with(video_path=None),
    "no data": lambda root: shutil.rmtree(root / "data"),
    "no videos": lambda root: shutil.rmtree(root / "videos"),
    "damaged data": lambda root: first(root, "data/*/*.parquet").write_bytes(b"PAR1xxxx"),
    "damaged episodes": lambda root: first(root, "meta/episodes/*/*.parquet").write_bytes(b"PAR1xxxx"),
    "damaged tasks": lambda root: (root / "meta" / "tasks.parquet").write_bytes(b""),
    "damaged video": lambda root: first(root, "videos/*/*/*.mp4").write_bytes(b"no video"),
    "notes a list": lambda root: (root / "meta" / "mimicpipe.json").write_text("[]"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_datasets(sound, tmp_path, damage, capsys):
    root = shutil.copytree(sound, tmp_path / "damaged")
    DAMAGE[damage](root)
    code = validate.main([str(root)])
    capsys.readouterr()
    assert damage == "notes a list" or code in (1, 2)  # those are mimicpipe's own, not LeRobot's
    for main, arguments in (
        (digest.main, [root]),
        (merge.main, [tmp_path / "merged", sound, root]),
        (convert.main, [root, tmp_path / "demos.hdf5", "--frames"]),
    ):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert code in (0, 1, 2)
        errors = [line for line in printed.err.splitlines() if not line.startswith("skipped ")]
        assert len(errors) == (code != 0)
        assert all(line.startswith("error: ") and len(line) > 40 for line in errors)
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["damaged"], ["damaged", "merged"], ["damaged", "demos.hdf5"], ["damaged", "demos.hdf5", "merged"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("main", "arguments", "said"),
    [
        (validate.main, ["none"], "no LeRobot v3 dataset"),
        (validate.main, ["file.hdf5"], "is a file; name the folder"),
        (digest.main, ["none"], "no LeRobot v3 dataset"),
        (recover.main, ["none"], "nothing to recover"),
        (convert.main, ["none", "out.hdf5", "--frames"], "no such file or folder"),
        (convert.main, ["dataset", "out"], "so TARGET is a new file, NAME.hdf5"),
        (merge.main, ["out", "none"], "no dataset of a mimicpipe recorder"),
        (merge.main, ["dataset", "dataset"], "exists; choose another, or replace the dataset with --overwrite"),
        (merge.main, ["dataset/", "dataset", "--overwrite"], "is one of the datasets to merge"),
        (merge.main, ["dataset/sub", "dataset"], "one of the datasets to merge; choose another folder"),
    ],
)
def test_wrong_names(sound, tmp_path, monkeypatch, main, arguments, said, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset").symlink_to(sound)
    (tmp_path / "file.hdf5").write_bytes(b"")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert "dataset." not in error
    assert len(error.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "file.hdf5"]


def test_a_runs_folder_with_other_json_in_it(tmp_path, capsys):
    (tmp_path / "run.json").write_text("[]")
    (tmp_path / "attempts.jsonl").write_text('[]\n{"x": 1}\n{"attempt": 4, "success": true}\n3\n{"attempt": 5')
    assert view.main([str(tmp_path)]) == 2
    assert "no output folder of a run" in capsys.readouterr().err
    assert list(read_attempts(tmp_path / "attempts.jsonl")) == [4]
