"""One dataset whose episodes several processes stage, and one assembles.

The staging folder is held by the process that assembles. Each of the others has logs of its own in it, a `Shard`, and
numbers its episodes by their attempts, so that no two of them need to know of each other: in the end the episodes stand
in the order of the attempts, and those of attempts that do not count are left out. A process that takes the place of a
lost one gets new logs; what both have written has the same bits, and counts once.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from mimicpipe.recorders.shard import Shard
from mimicpipe.recorders.staged_storage import leave_staged, publish_staged
from mimicpipe.recorders.staging_area import StagingArea, count_staged, staged_logs


class SharedStaging:
    """Holds the staging folder of a dataset while other processes write its episodes, and assembles it.

    Args:
        root: the dataset's root.
        overwrite: replace a dataset that is there.
        kept: of a run that is gone on with, how many of its episodes count; None: a new run.

    Raises:
        RecorderError: another run has the folder.
        OSError: it cannot be made.
    """

    def __init__(self, root: Path, overwrite: bool, kept: int | None = None) -> None:
        self._root = root
        self._overwrite = overwrite
        self._kept = kept
        self._area = StagingArea(root, clear=kept is None)
        if kept and count_staged(self._area.folder) == 0:
            self._area.keep_base()
        self._token = secrets.token_hex(16)
        (self._area.folder / "token").write_text(self._token, encoding="ascii")
        logs = staged_logs(self._area.folder)
        self._next_log = 1 + max((int(log.stem.removeprefix("episodes-")) for log in logs), default=-1)

    def shard(self, logs: int) -> Shard:
        """A new shard with so many logs."""
        first, self._next_log = self._next_log, self._next_log + logs
        return Shard(self._area.folder, first, self._token)

    def assembly(self, attempts: int, expected: int) -> "Assembly":
        """What makes the dataset of the attempts below `attempts`, which have `expected` episodes."""
        return Assembly(self, attempts, expected)

    def publish(self, attempts: int, expected: int) -> Path | None:
        """Assemble the dataset of the attempts below `attempts`, and move it to its place; None if it has no episode.

        Args:
            attempts: how many are settled.
            expected: episodes that they have.

        Raises:
            RecorderError: it failed; what is durable is still in the staging folder, and the error says where.
        """
        if self._kept and count_staged(self._area.folder) == 0:
            self._area.discard()  # nothing has come to what was published before
            return self._root
        return publish_staged(self._area, self._root, self._overwrite, expected, limit=attempts)

    def leave(self) -> None:
        """Let go of the folder with everything durable in it; with nothing in it, remove it. Idempotent."""
        if self._area.lock >= 0:
            leave_staged(self._area)


@dataclass(frozen=True)
class Assembly:
    """Completes a dataset in a call without arguments, as a recorder does."""

    staging: SharedStaging
    attempts: int
    expected: int

    def finalize(self) -> Path | None:
        """As `SharedStaging.publish`."""
        return self.staging.publish(self.attempts, self.expected)

    def stats(self) -> dict[str, float]:
        """Nothing waits."""
        return {}
