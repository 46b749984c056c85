import os
import stat

import pytest

from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders.staging import Staging, check_repo_id, check_root


def make_dataset(root, content="old"):
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "info.json").write_text(content)


@pytest.mark.parametrize("repo_id", ["pick", "local/pick", "user-1/pick_D0.v2", "a"])
def test_good_repo_ids(repo_id):
    assert check_repo_id(repo_id) == repo_id


@pytest.mark.parametrize(
    "repo_id",
    ["", "/pick", "local/", "a/b/c", "../pick", "a/..", "a\\b", "a b", "a--b", "a..b", ".a", "-a", "é", "x" * 97],
)
def test_bad_repo_ids_are_refused(repo_id):
    with pytest.raises(ConfigError, match=r"dataset\.repo_id="):
        check_repo_id(repo_id)


def test_a_root_is_made_absolute_and_nothing_is_left_by_the_check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_root("a/b/../dataset", overwrite=False) == tmp_path / "a" / "dataset"
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_exists_needs_overwrite_and_must_be_a_dataset(tmp_path):
    for name in ("empty", "dataset", "precious"):
        (tmp_path / name).mkdir()
    make_dataset(tmp_path / "dataset" / "inner")
    make_dataset(tmp_path / "old")
    (tmp_path / "precious" / "thesis.tex").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("empty", "old"):
        with pytest.raises(ConfigError, match=r"exists; .*dataset.overwrite=true"):
            check_root(tmp_path / name, overwrite=False)
    assert check_root(tmp_path / "old", overwrite=True) == tmp_path / "old"
    assert check_root(tmp_path / "empty", overwrite=True) == tmp_path / "empty"
    for name in ("precious", "file", "dataset"):
        with pytest.raises(ConfigError, match="no LeRobot dataset"):
            check_root(tmp_path / name, overwrite=True)
        with pytest.raises(ConfigError, match="no LeRobot dataset") as raised:
            check_root(tmp_path / name, overwrite=False)
        assert "overwrite" not in str(raised.value)


def test_a_root_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        check_root(tmp_path / "file" / "dataset", overwrite=False)
    with pytest.raises(ConfigError, match="cannot be made in /proc"):
        check_root("/proc/dataset", overwrite=False)


def test_publishing_moves_everything_at_once_and_leaves_nothing_else(tmp_path):
    root = tmp_path / "new" / "deep" / "dataset"
    staging = Staging(root)
    assert staging.path.parent.parent == root.parent
    make_dataset(staging.path, "new")
    assert not root.exists()
    staging.publish(overwrite=False)
    assert (root / "meta" / "info.json").read_text() == "new"
    assert list(root.parent.iterdir()) == [root]
    assert stat.S_IMODE(root.stat().st_mode) == stat.S_IMODE((root / "meta").stat().st_mode)


def test_the_old_dataset_stays_until_the_new_one_is_there(tmp_path):
    root = tmp_path / "dataset"
    make_dataset(root, "old")
    staging = Staging(root)
    make_dataset(staging.path, "new")
    assert (root / "meta" / "info.json").read_text() == "old"
    staging.publish(overwrite=True)
    assert (root / "meta" / "info.json").read_text() == "new"
    assert list(tmp_path.iterdir()) == [root]


def test_a_failed_rename_brings_the_old_dataset_back(tmp_path):
    root = tmp_path / "dataset"
    make_dataset(root, "old")
    staging = Staging(root)  # and nothing was made in it, so there is nothing to rename
    with pytest.raises(FileNotFoundError):
        staging.publish(overwrite=True)
    assert (root / "meta" / "info.json").read_text() == "old"


def test_what_has_appeared_meanwhile_is_not_replaced(tmp_path):
    root = tmp_path / "dataset"
    staging = Staging(root)
    make_dataset(staging.path, "new")
    make_dataset(root, "someone else's")
    with pytest.raises(RecorderError, match="has appeared"):
        staging.publish(overwrite=False)
    assert (root / "meta" / "info.json").read_text() == "someone else's"
    assert (staging.path / "meta" / "info.json").read_text() == "new"


def test_discarding_removes_the_folder_and_the_parents_made_for_it(tmp_path):
    (tmp_path / "there").mkdir()
    staging = Staging(tmp_path / "there" / "made" / "too" / "dataset")
    make_dataset(staging.path)
    staging.discard()
    assert list((tmp_path / "there").iterdir()) == []
    shared = Staging(tmp_path / "shared" / "dataset")
    (tmp_path / "shared" / "note").write_text("")
    shared.discard()
    assert os.listdir(tmp_path / "shared") == ["note"]
