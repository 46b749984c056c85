"""What a policy learns from: the numeric columns of a LeRobot dataset's first episodes, and where they come from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mimicpipe.errors import ConfigError, MimicpipeError
from mimicpipe.pools.lerobot_files import LeRobotFiles, open_dataset
from mimicpipe.recorders.dataset_meta import INFO_FILE
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.tools.replaying import read_columns

Floats = npt.NDArray[np.float32]
ACTION = "action"


@dataclass(frozen=True)
class Demos:
    """Episodes one behind the other: F frames of E episodes."""

    observations: dict[str, Floats]
    """{feature: (F, W)} of every numeric `observation.*`."""
    actions: Floats
    """(F, A)."""
    lengths: npt.NDArray[np.int64]
    """(E,) frames of each episode."""
    names: dict[str, tuple[str, ...]]
    """{feature: name of each of its numbers}; where the dataset names none, "0", "1", ..."""
    fps: float
    seeds: tuple[int, ...]
    """Seeds of the attempts that the episodes are; empty where the dataset does not say."""
    run_seeds: tuple[int, ...]
    """Of the runs that made it, several where datasets were merged; empty where another program wrote the data."""


def load_demos(root: Path, episodes: int | None = None) -> Demos:
    """Read a dataset.

    Args:
        root: its folder.
        episodes: how many, from the first; None is all.

    Raises:
        ConfigError: it has fewer, or no numeric observation or action.
        SourceDemoError: it is no LeRobot v3 dataset, or damaged.
    """
    files = open_dataset(root)
    count = len(files.episodes) if episodes is None else episodes
    if not 1 <= count <= len(files.episodes):
        raise ConfigError(f"--episodes {count}: {root} has {len(files.episodes)}")
    lengths = np.array([row["length"] for row in files.episodes[:count]], dtype=np.int64)
    columns = read_columns(root, 0, int(lengths.sum()))
    actions = columns.pop(ACTION, None)
    if actions is None or not columns:
        raise ConfigError(f"{root}: a policy needs {ACTION} and at least one numeric observation.* in the data")
    names = {name: _names(files, name, values.shape[1]) for name, values in {**columns, ACTION: actions}.items()}
    return Demos(
        {name: np.ascontiguousarray(values, np.float32) for name, values in columns.items()},
        np.ascontiguousarray(actions, np.float32),
        lengths,
        names,
        files.fps,
        _seeds(root, count),
        _run_seeds(root),
    )


def _names(files: LeRobotFiles, feature: str, width: int) -> tuple[str, ...]:
    given = files.features[feature].get("names")
    if isinstance(given, dict) and len(given) == 1:  # {"motors": [...]}, of older datasets
        (given,) = given.values()
    if isinstance(given, list) and len(given) == width:
        return tuple(map(str, given))
    return tuple(map(str, range(width)))


def _run_seeds(root: Path) -> tuple[int, ...]:
    try:
        run: dict[str, Any] = json.loads((root / INFO_FILE).read_text(encoding="utf-8"))["run"]
    except FileNotFoundError:
        return ()
    return tuple(run["seed"] for run in _single(run) if "seed" in run)


def _single(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Notes of each run that a dataset comes from; one that was merged has those of its parts, which may be merged."""
    for part in run.get("merged", ()):
        yield from _single(part)
    if "merged" not in run:
        yield run


def _seeds(root: Path, count: int) -> tuple[int, ...]:
    try:
        return tuple(int(row["seed"]) for row in read_episode_metadata(root)[:count])
    except (MimicpipeError, KeyError):  # not written by a mimicpipe recorder
        return ()
