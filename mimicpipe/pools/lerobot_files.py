"""A LeRobot v3 dataset as its files tell it, read with pyarrow alone: whatever is wrong is one SourceDemoError line.

A dataset may come from anywhere, so no path in it is followed out of its folder.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.names import listing

INFO = Path("meta") / "info.json"
_VERSION = "v3.0"
_PLACE = ("episode_index", "length", "data/chunk_index", "data/file_index")
_OWN = ("mimicpipe/success", "mimicpipe/initial_state")
"""What this package's recorders keep beside the frames; others' datasets have neither."""
_NO_NUMBERS = ("video", "image", "string")
Values = npt.NDArray[np.generic]


def is_dataset(path: Path) -> bool:
    """Whether a folder is a LeRobot dataset."""
    return (path / INFO).is_file()


@dataclass(frozen=True)
class Column:
    """One feature over an episode."""

    feature: str
    values: Values
    """(T, W)."""
    names: tuple[str, ...] | None
    """One for each of W elements; None where the dataset names none."""


@dataclass
class LeRobotFiles:
    """One dataset; files are read as they are asked for, and the last one is kept.

    Attributes:
        root: its folder.
        info: meta/info.json.
        episodes: a row each, in order.
    """

    root: Path
    info: dict[str, Any]
    episodes: list[dict[str, Any]]
    _last: tuple[Path, Any] | None = field(default=None, repr=False)

    @property
    def fps(self) -> float:
        """Frames per second."""
        return float(self.info["fps"])

    @property
    def features(self) -> dict[str, Any]:
        """{name: feature}."""
        return self.info["features"]

    def columns(self, episode: int, features: Sequence[str]) -> dict[str, Column]:
        """Numeric features of one episode.

        Raises:
            SourceDemoError: no such feature, one that holds no numbers, or a file that is missing or damaged.
        """
        where = f"{self.root}: episode_{episode}"
        if missing := [name for name in features if name not in self.features]:
            raise SourceDemoError(
                f"{where}: {missing[0]}: no such feature, the dataset has {listing(list(self.features))}; "
                "name the right ones in pool.features"
            )
        table = self._frames(episode, where)
        found = {}
        for name in features:
            if name not in table.column_names:
                raise SourceDemoError(f"{where}: {name}: is not among the frames' columns (a video?); name another one")
            found[name] = Column(name, _numbers(table.column(name), f"{where}: {name}"), self._names(name))
        return found

    def _frames(self, episode: int, where: str) -> Any:
        """Rows of an episode, a pyarrow table."""
        import pyarrow.parquet as pq

        row = self.episodes[episode]
        with _guarded(f"{where}: data_path"):
            relative = self.info["data_path"].format(
                chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
            )
        path = (self.root / relative).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise SourceDemoError(f"{where}: its frames lie outside of the dataset, at {relative}; they are not read")
        if self._last is None or self._last[0] != path:
            with _guarded(f"{path}"):
                known = pq.read_schema(path).names
                wanted = [name for name, feature in self.features.items() if feature["dtype"] not in _NO_NUMBERS]
                self._last = (path, pq.read_table(path, columns=[name for name in wanted if name in known]))
        with _guarded(f"{path}"):
            table = self._last[1]
            mine = np.flatnonzero(table["episode_index"].to_numpy() == episode)
            table = table.take(mine)
        if table.num_rows != row["length"] or table.num_rows == 0:
            raise SourceDemoError(
                f"{where}: {table.num_rows} frames in {path.name}, expected {row['length']}, more than 0; "
                "copy the dataset again"
            )
        return table

    def _names(self, feature: str) -> tuple[str, ...] | None:
        names = self.features[feature].get("names")
        if isinstance(names, dict) and len(names) == 1:  # {"motors": [...]}, of older datasets
            (names,) = names.values()
        return tuple(map(str, names)) if isinstance(names, list) and names else None


def open_dataset(root: Path) -> LeRobotFiles:
    """Read a dataset's info and its table of episodes.

    Raises:
        SourceDemoError: no dataset, of another version, or damaged.
    """
    with _guarded(str(root / INFO)):
        info = json.loads((root / INFO).read_text(encoding="utf-8"))
    if not isinstance(info, dict) or info.get("codebase_version") != _VERSION:
        version = info.get("codebase_version") if isinstance(info, dict) else None
        raise SourceDemoError(
            f"{root}: LeRobot dataset of version {version}, expected {_VERSION}; convert it with "
            "`python -m lerobot.scripts.convert_dataset_v21_to_v30`"
        )
    if missing := [key for key in ("fps", "features", "data_path") if key not in info]:
        raise SourceDemoError(f"{root / INFO}: has no {listing(missing)}; copy the dataset again")
    return LeRobotFiles(root, info, _episodes(root))


def _episodes(root: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for file in sorted((root / "meta" / "episodes").glob("*/*.parquet")):
        with _guarded(str(file)):
            known = pq.read_schema(file).names
            rows += pq.read_table(file, columns=[name for name in (*_PLACE, *_OWN) if name in known]).to_pylist()
    if not rows:
        raise SourceDemoError(f"{root}: holds no episodes (meta/episodes); record some into it")
    if missing := [name for name in _PLACE if name not in rows[0]]:
        raise SourceDemoError(f"{root}: meta/episodes has no column {missing[0]}; copy the dataset again")
    if [row["episode_index"] for row in rows] != list(range(len(rows))):
        raise SourceDemoError(f"{root}: meta/episodes: episodes are not 0, 1, 2, ...; copy the dataset again")
    return rows


def flattened(column: Any) -> Any:
    """The values in an arrow column and in its (nested) lists, one after another; truth values as numbers."""
    import pyarrow as pa

    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    return column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column


def holds_numbers(column: Any) -> bool:
    """Whether an arrow column's values are numbers."""
    import pyarrow as pa

    return pa.types.is_integer(column.type) or pa.types.is_floating(column.type)


def _numbers(column: Any, where: str) -> Values:
    """(T, W) of an arrow column of numbers or (nested) lists of them."""
    numbers = flattened(column.combine_chunks())
    if numbers.null_count or not holds_numbers(numbers):
        raise SourceDemoError(f"{where}: holds {numbers.type}, some of it null perhaps; expected numbers")
    values = numbers.to_numpy(zero_copy_only=False)
    if len(values) % len(column):
        raise SourceDemoError(f"{where}: frames have not all as many numbers; record the dataset again")
    return values.reshape(len(column), -1)


@contextmanager
def _guarded(where: str) -> Generator[None]:
    """Turn what a damaged file makes the libraries raise into one line."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SourceDemoError(f"{where}: cannot be read ({reason}); copy the dataset again") from error
