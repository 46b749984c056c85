"""Where one of several processes stages its episodes of a dataset that another one assembles (`shared_staging`)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mimicpipe.errors import ConfigError
from mimicpipe.recorders.staging_area import log_path

_SEEN_WITHIN_S = 15.0
"""How long a file system that machines share may take to show one of them what another has written."""
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Shard:
    """Where one process stages its episodes, and how it shows that it is the same folder that others see."""

    folder: Path
    """The staging folder, which another process holds."""
    first_log: int
    """Number of its first log; it has one for each of its writers."""
    token: str
    """What the folder's holder has written into it."""

    def log(self, number: int) -> Path:
        """Segment log of the shard's writer 0, 1, ..."""
        return log_path(self.folder, self.first_log + number)

    @property
    def answer(self) -> Path:
        """The file by which the shard's process says that it sees the folder."""
        return self.folder / f"token-{self.first_log:03d}"

    def report(self) -> None:
        """Say to the folder's holder that its folder is seen here; call it in the shard's process.

        Raises:
            ConfigError: the folder is not there, or another one.
        """
        if not _within(lambda: _read(self.folder / "token") == self.token):
            raise ConfigError(
                f"dataset.root: {self.folder} of the process that assembles the dataset is not seen by this worker; "
                "choose a folder that all machines share, by the same path"
            )
        try:
            self.answer.write_text(self.token, encoding="ascii")
        except OSError as error:
            raise ConfigError(f"dataset.root: {self.folder} cannot be written here ({error.strerror})") from None

    def check_answer(self) -> None:
        """Raise ConfigError unless the shard's process, which has called `report`, has written into this folder."""
        if not _within(lambda: _read(self.answer) == self.token):
            raise ConfigError(
                f"dataset.root: what a worker writes into {self.folder} does not arrive here; choose a folder that all "
                "machines share, by the same path"
            )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return None


def _within(seen: Callable[[], bool]) -> bool:
    """Whether something is seen soon."""
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while not (found := seen()) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return found
