"""The folder beside a dataset's root in which a run makes its episodes durable, and from which they are assembled.

    .NAME.staging/lock              held by the run that writes, and by its processes
                  token, token-000  of a run with several workers: by these they know that they see the same folder
                  episodes-000.log  one segment log for each writer
                  dataset/          the dataset, while it is being assembled
                  assembled         it is complete and on the disk; all that is left is to move it to its place
                  replaced/         what was at the root before, while the two change places
                  base              the dataset at the root is the run's own, and its episodes come before the logs'

The name is fixed, so that the episodes of a killed run can be found; only one run at a time can have it.
"""

import fcntl
import os
import shutil
from pathlib import Path

from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.recorders.segment_log import scan, sync_path

_LONGEST_NAME = 200


def staging_path(root: Path) -> Path:
    """Where the episodes of the dataset at `root` are staged."""
    return root.parent / f".{root.name[:_LONGEST_NAME]}.staging"


def staged_logs(folder: Path) -> list[Path]:
    """The segment logs in a staging folder."""
    return sorted(folder.glob("episodes-*.log"))


def log_path(folder: Path, number: int) -> Path:
    """A segment log in a staging folder."""
    return folder / f"episodes-{number:03d}.log"


def is_published(root: Path) -> bool:
    """Whether the dataset at a root is that of the run that was staged beside it, as far as can be seen."""
    folder = staging_path(root)
    if not folder.is_dir():
        return root.exists()
    return (folder / "assembled").is_file() and not (folder / "dataset").exists()


def has_base(root: Path) -> bool:
    """Whether what is staged beside a root goes on with the dataset that is there."""
    return (staging_path(root) / "base").is_file()


def put_back(root: Path) -> None:
    """Undo the half of `publish` that a process has done before it was killed: what was at the root is there again."""
    replaced = staging_path(root) / "replaced"
    if replaced.exists() and not os.path.lexists(root):
        replaced.rename(root)


def count_staged(folder: Path) -> int:
    """Number of episodes that are durable in a staging folder."""
    return sum(len(scan(path)[1]) for path in staged_logs(folder))


def check_staging(root: Path, overwrite: bool, resume: bool = False) -> None:
    """Refuse a root beside which another run writes, or a killed one has left episodes that are not to be taken over.

    Raises:
        ConfigError: says which, and how to go on.
    """
    folder = staging_path(root)
    if not folder.is_dir():
        return
    if (owner := owner_of(folder)) is not None:
        raise ConfigError(f"dataset.root={root}: process {owner} is writing this dataset; choose another")
    if not (overwrite or resume) and (count := count_staged(folder)):
        raise ConfigError(
            f"dataset.root={root}: an interrupted run has left {count} episodes in {folder.name}; "
            f"make a dataset of them with 'python -m mimicpipe.tools.recover {root}', "
            "or drop them with dataset.overwrite=true"
        )


class StagingArea:
    """Owns the staging folder of a dataset until it is published, discarded or left.

    Args:
        root: the dataset's root.
        clear: drop what another run has left; otherwise its episodes stay, and count.

    Raises:
        RecorderError: another run has it.
        OSError: it cannot be made.
    """

    def __init__(self, root: Path, clear: bool) -> None:
        self._root = root
        self.folder = staging_path(root)
        self._new_parents = make_parents(root.parent)
        self.folder.mkdir(exist_ok=True)
        self.lock = _lock(self.folder)
        if clear:
            for path in self.folder.iterdir():
                if path.name != "lock":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    @property
    def dataset(self) -> Path:
        """Where the dataset is assembled."""
        return self.folder / "dataset"

    def log(self, number: int) -> Path:
        """Segment log of a writer."""
        return log_path(self.folder, number)

    @property
    def is_assembled(self) -> bool:
        """Whether the dataset is complete, and may even be at its place."""
        return (self.folder / "assembled").is_file()

    def keep_base(self) -> None:
        """Note, before anything is staged, that the dataset at the root stays, and what is staged goes on with it."""
        (self.folder / "base").touch()
        sync_path(self.folder)

    def begin_assembly(self) -> Path:
        """The empty place for the dataset; what an interrupted assembly has left there is removed."""
        (self.folder / "assembled").unlink(missing_ok=True)
        if self.dataset.exists():
            shutil.rmtree(self.dataset)
        return self.dataset

    def publish(self, overwrite: bool) -> None:
        """Make every file of the dataset durable and move it to the root; may be interrupted and called again.

        Raises:
            RecorderError: something is at the root that may not be replaced.
            OSError: the rename failed; what was at the root is there still.
        """
        if not self.is_assembled:
            sync_tree(self.dataset)
            (self.folder / "assembled").touch()
            sync_path(self.folder)
        if self.dataset.exists():
            replace_folder(self.dataset, self._root, self.folder / "replaced", overwrite or has_base(self._root))
        sync_path(self._root.parent)
        self._remove()

    def discard(self) -> None:
        """Remove the folder, and the parents that were made for it, as far as they are empty."""
        self._remove()
        for parent in self._new_parents:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()

    def leave(self) -> None:
        """Let go of the folder, with everything that is durable in it."""
        lock, self.lock = self.lock, -1
        if lock >= 0:
            os.close(lock)

    def _remove(self) -> None:
        # The marks go last: without them, what is left of the logs would be taken for a run's.
        for path in sorted(self.folder.glob("*"), key=lambda path: path.name in ("assembled", "lock")):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != "lock":
                path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.leave()


def replace_folder(new: Path, root: Path, replaced: Path, overwrite: bool) -> None:
    """Rename `new` to `root`; what is there is moved to `replaced`, and back if that fails.

    Raises:
        RecorderError: something is at `root`, and `overwrite` is off.
    """
    if os.path.lexists(root):
        if not overwrite:
            raise RecorderError(f"{root} has appeared since the recorder was made")
        root.rename(replaced)
    try:
        new.rename(root)
    except OSError:
        if replaced.exists():
            replaced.rename(root)
        raise


def sync_tree(folder: Path) -> None:
    """fsync every file and folder below: a rename may otherwise reach the disk before what it renames."""
    for base, _, files in os.walk(folder):
        for name in files:
            sync_path(Path(base, name))
        sync_path(Path(base))


def _lock(folder: Path) -> int:
    """An open, locked file; its lock ends with the last process that has it open."""
    while True:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise RecorderError(f"{folder}: process {owner_of(folder)} is writing there") from None
        if (folder / "lock").exists() and os.path.samestat(os.fstat(lock), os.stat(folder / "lock")):
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            return lock
        os.close(lock)  # its last owner has removed the folder in the meantime
        folder.mkdir(exist_ok=True)


def owner_of(folder: Path) -> str | None:
    """Process that holds a folder's lock, as text; None if nobody does."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(lock, 32).decode() or "?"
    else:
        return None
    finally:
        os.close(lock)


def make_parents(parent: Path) -> list[Path]:
    """Make a folder; returns those that were missing, innermost first."""
    missing = []
    while not parent.exists():
        missing.append(parent)
        parent = parent.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
    return missing
