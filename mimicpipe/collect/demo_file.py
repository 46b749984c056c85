"""The file that collected demos go into: each is durable, and the file readable, before the next one is made."""

import fcntl
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5_access import child, guarded, open_hdf5
from mimicpipe.pools.hdf5_file import read_file
from mimicpipe.pools.hdf5_layout import Needs
from mimicpipe.pools.hdf5_writer import write_demos

_EVERYTHING = Needs(eef_names=None, object_names=None, signal_names=None, start_signal_names=None, observations=True)


@dataclass(frozen=True)
class SavedDemo:
    """One demo of the file, for people to see."""

    name: str
    steps: int
    seed: int


class DemoFile:
    """An HDF5 file of demos of one task, which may exist.

    Args:
        path: the file.
        env_args: attribute `env_args` of a new file; of one that exists, env_name and the control must be the same.

    Raises:
        ConfigError: the file is there, and holds something else, or cannot be read.
    """

    def __init__(self, path: Path, env_args: Mapping[str, Any]) -> None:
        self.path = path.expanduser().resolve()
        self._env_args = dict(env_args)
        self.saved: list[SavedDemo] = []
        if not _can_be_made(self.path):
            raise ConfigError(f"--out={self.path}: no file can be made there; name another one")
        if self.path.exists():
            try:
                demos, seeds, _ = self._read()
            except SourceDemoError as error:
                raise ConfigError(f"--out: {error}; name another file") from error
            self._list(demos, seeds)

    def append(self, demo: SourceDemo, seed: int) -> SavedDemo:
        """Add a demo; on return it is durable.

        The file is read anew and replaced in one step, so it may be read, and be added to by others, at any time.

        Raises:
            SourceDemoError: `write_demos` refuses the demo, or the file has been changed into another one.
            OSError: it cannot be written; it is as it was.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.parent):
            demos, seeds, env_args = self._read() if self.path.exists() else ([], [], self._env_args)
            write_demos(self.path, [*demos, demo], env_args, seeds=[*seeds, seed])
        self._list([*demos, demo], [*seeds, seed])
        return self.saved[-1]

    def _list(self, demos: list[SourceDemo], seeds: list[int]) -> None:
        self.saved = [SavedDemo(f"demo_{i}", each.info.length, seeds[i]) for i, each in enumerate(demos)]

    def _read(self) -> tuple[list[SourceDemo], list[int], dict[str, Any]]:
        """Demos, their seeds, and `env_args` of the file."""
        with open_hdf5(self.path) as file:
            data = child(file, "data", f"{self.path}: data")
            with guarded(str(self.path)):
                env_args = _parsed(data.attrs.get("env_args", b"")) if isinstance(data, h5py.Group) else {}
        self._check_origin(env_args)
        demos = read_file(self.path, _EVERYTHING).demos
        with open_hdf5(self.path) as file:
            return demos, [_seed(file, demo.name, f"{self.path}: {demo.name}") for demo in demos], env_args

    def _check_origin(self, env_args: Mapping[str, Any]) -> None:
        found, wanted = _origin(env_args), _origin(self._env_args)
        if found != wanted:
            held = "demos of {} (control {})".format(*found) if found[0] else "no demos that were collected here"
            raise SourceDemoError(f"{self.path}: holds {held}, and these are of {wanted[0]} (control {wanted[1]})")


def _parsed(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _origin(env_args: Mapping[str, Any]) -> tuple[str, str]:
    """Task and control, each empty where unknown."""
    more = env_args.get("env_kwargs")
    return str(env_args.get("env_name", "")), str(more.get("control", "")) if isinstance(more, dict) else ""


def _seed(file: h5py.File, name: str, where: str) -> int:
    demo = child(file, f"data/{name}", where)
    with guarded(where):
        seed = demo.attrs.get("seed") if demo is not None else None
    if not isinstance(seed, np.integer):
        raise SourceDemoError(f"{where}: attribute seed: missing, so the demo was not collected here")
    return int(seed)


def _can_be_made(path: Path) -> bool:
    folder = next(parent for parent in path.parents if parent.exists())
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Alone among processes that add to a file of this folder; nothing is left behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
