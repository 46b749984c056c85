"""Where a dataset grows, and how it gets to its place: in a sibling folder, then with one rename."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.layout import HDF5_NAME
from mimicpipe.recorders.segment_log import sync_path
from mimicpipe.recorders.staging_area import check_staging, make_parents, replace_folder, sync_tree

_REPO_ID = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_])?(?:/[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_])?)?"
)


_MARKS = ("meta/info.json", HDF5_NAME)
"""By which a dataset is known: LeRobot's, or one of `recorder=hdf5`."""


def check_repo_id(repo_id: str) -> str:
    """A repo id the Hub takes ("name" or "user/name"); it never becomes part of a path here.

    Raises:
        ConfigError: anything else.
    """
    if not _REPO_ID.fullmatch(repo_id) or ".." in repo_id or "--" in repo_id or len(repo_id) > 96:
        raise ConfigError(
            f"dataset.repo_id={repo_id!r}: a name, or user/name, of at most 96 letters, digits, '_', '-' and '.' "
            "(no '..' or '--'), beginning and ending with a letter, digit or '_'"
        )
    return repo_id


def check_root(root: Path | str, overwrite: bool, resume: bool = False) -> Path:
    """The absolute folder of a dataset that may be written; nothing is left behind by the check.

    Raises:
        ConfigError: it exists and may not be replaced, or its parent folder cannot be written.
    """
    root = Path(root).expanduser().resolve()
    if os.path.lexists(root):
        _check_replaceable(root, overwrite or resume)
    check_staging(root, overwrite, resume)
    check_writable("dataset.root", root)
    return root


def check_writable(key: str, path: Path) -> None:
    """Make and remove a folder in the nearest folder that exists, the only test that every file system answers truly.

    Raises:
        ConfigError: it fails; names the key and the path.
    """
    parent = path.parent if path.exists() else path
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        raise ConfigError(f"{key}={path}: {parent} is not a folder")
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".mimicpipe-", dir=parent))
    except OSError as error:
        raise ConfigError(f"{key}={path}: cannot be made in {parent} ({error.strerror}); choose another") from None


def _check_replaceable(root: Path, overwrite: bool) -> None:
    try:
        foreign = not root.is_dir() or (any(root.iterdir()) and not any((root / mark).is_file() for mark in _MARKS))
    except OSError as error:
        raise ConfigError(f"dataset.root={root}: exists and cannot be read ({error.strerror})") from None
    if foreign:
        raise ConfigError(
            f"dataset.root={root}: exists and is no LeRobot dataset (no meta/info.json), nor one of recorder=hdf5, so "
            "it stays; choose another"
        )
    if not overwrite:
        raise ConfigError(
            f"dataset.root={root}: exists; choose another, or replace the dataset with dataset.overwrite=true"
        )


class Staging:
    """A folder beside `root` in which the dataset grows, so that the last step is a rename in one file system.

    Attributes:
        path: where the dataset is to be made; it does not exist yet.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._new_parents = make_parents(root.parent)
        self._folder = Path(tempfile.mkdtemp(prefix=f".{root.name[:32]}.", suffix=".partial", dir=root.parent))
        self.path = self._folder / "dataset"

    def publish(self, overwrite: bool) -> None:
        """Make every file durable and move the dataset to `root`; a dataset that was there goes only now.

        Raises:
            RecorderError: something has appeared at `root` that may not be replaced.
            OSError: the rename failed; what was at `root` is there still.
        """
        sync_tree(self.path)
        replace_folder(self.path, self._root, self._folder / "replaced", overwrite)
        sync_path(self._root.parent)
        shutil.rmtree(self._folder)

    def discard(self) -> None:
        """Remove the folder and the parents that were made for it, as far as they are empty."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for parent in self._new_parents:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
