"""What the user asks of a conversion, and what has come of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from mimicpipe.errors import ConfigError
from mimicpipe.pools.names import listing


@dataclass(frozen=True)
class Options:
    """See `python -m mimicpipe.tools.convert --help`."""

    fps: int | None = None
    task: str | None = None
    robot_type: str | None = None
    repo_id: str | None = None
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    common: bool = False
    state: Sequence[str] = ()
    success_only: bool = False
    mask: str | None = None
    max_demos: int | None = None
    images: bool = False
    frames: bool = False
    quaternions: str | None = None
    to_quaternions: str | None = None
    quaternion_keys: Sequence[str] = ()
    on_error: Literal["skip", "raise"] = "skip"
    workers: int = 0
    overwrite: bool = False

    def require_matches(self, paths: Collection[str], features: Collection[str]) -> None:
        """Raise ConfigError where a pattern of `include` or `exclude` is like no name of a key: it is misspelt."""
        for flag, patterns in (("--include", self.include), ("--exclude", self.exclude)):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in (*paths, *features)):
                    raise ConfigError(f"{flag} {pattern}: no key like this; there are {listing(list(paths))}")

    def wants(self, *names: str) -> bool:
        """Whether the key with these names (in the demo, as a feature) is asked for."""
        if any(fnmatchcase(name, pattern) for pattern in self.exclude for name in names):
            return False
        return not self.include or any(fnmatchcase(name, pattern) for pattern in self.include for name in names)


@dataclass
class Converted:
    """What a conversion has written.

    Attributes:
        path: the dataset's folder, or the file.
        total: demos or episodes in the source.
        episodes: how many of them were written.
        frames: in these.
        skipped: (demo, why) of the others.
        notes: what was assumed or left out, a line each.
        resumed: episodes that an interrupted conversion had done already.
    """

    path: Path
    total: int = 0
    episodes: int = 0
    frames: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    resumed: int = 0
