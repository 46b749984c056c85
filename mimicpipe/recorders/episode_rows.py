"""What is kept of an episode beside its frames: extra columns of `meta/episodes`, one row an episode.

The columns are named `mimicpipe/...`. LeRobot's loader, its `episode_filter` and its merge tool carry them along:
`LeRobotDataset(..., episode_filter=lambda episode: episode["mimicpipe/success"])`. Its tools that drop or split
episodes write meta/episodes anew and leave them out. The slot an attempt ran in is not kept: it depends on num_envs,
and the dataset must not.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Episode, is_finite

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "mimicpipe/"
Row = dict[str, Any]


def episode_row(episode: Episode) -> Row:
    """The row of an episode, in plain Python values that share no memory with it.

    Raises:
        ValueError: a seed beyond int64, a non-finite number or something JSON does not know; names the key.
    """
    outcome = episode.outcome
    if not -(2**63) <= outcome.seed < 2**63:
        raise ValueError(f"seed {outcome.seed} does not fit in int64")
    state = episode.initial_state.detach().to("cpu", torch.float64).reshape(-1)
    if not is_finite(state):
        raise ValueError("initial_state: NaN or infinity")
    return {
        "attempt": int(outcome.attempt),
        "seed": int(outcome.seed),
        "success": bool(outcome.success),
        "reason": outcome.reason,
        "source_demos": _to_json(outcome.source_demos, "source_demos"),
        "initial_state": state.tolist(),
        "metadata": _to_json(episode.metadata, "metadata"),
    }


def arrow_schema() -> "pa.Schema":
    """Types of the columns, prefix included."""
    import pyarrow as pa

    types = {
        "attempt": pa.int64(),
        "seed": pa.int64(),
        "success": pa.bool_(),
        "reason": pa.string(),
        "source_demos": pa.string(),
        "initial_state": pa.list_(pa.float64()),
        "metadata": pa.string(),
    }
    return pa.schema([(PREFIX + name, kind) for name, kind in types.items()])


def read_episode_metadata(root: Path) -> list[dict[str, Any]]:
    """What a recorder kept beside the frames of a dataset, by episode.

    Args:
        root: folder of a LeRobot v3 dataset.

    Returns:
        For each episode: `episode_index`, `length` (frames), `tasks`, `attempt`, `seed`, `success`, `reason`,
        `source_demos` (a list), `metadata` (a dict) and `initial_state`, a float64 tensor (S,) for a MimicEnv's
        `set_state`.

    Raises:
        ConfigError: no dataset there, or one that was not written by a mimicpipe recorder.
    """
    import pyarrow.parquet as pq

    files = sorted((Path(root) / "meta" / "episodes").glob("*/*.parquet"))
    if not files:
        raise ConfigError(f"{root}: no LeRobot v3 dataset (no meta/episodes/*/*.parquet)")
    own = [field.name for field in arrow_schema()]
    episodes: list[dict[str, Any]] = []
    for file in files:
        missing = sorted(set(own) - set(pq.read_schema(file).names))
        if missing:
            raise ConfigError(f"{file}: no column {missing[0]!r}; the dataset was not written by a mimicpipe recorder")
        episodes += pq.read_table(file, columns=["episode_index", "length", "tasks", *own]).to_pylist()
    return [_parsed(row) for row in episodes]


def _parsed(row: Mapping[str, Any]) -> dict[str, Any]:
    parsed = {name.removeprefix(PREFIX): value for name, value in row.items()}
    parsed["source_demos"] = json.loads(parsed["source_demos"])
    parsed["metadata"] = json.loads(parsed["metadata"])
    parsed["initial_state"] = torch.tensor(parsed["initial_state"], dtype=torch.float64)
    return parsed


def _to_json(value: object, where: str) -> str:
    return json.dumps(_plain(value, where), ensure_ascii=False, sort_keys=True)


def _plain(value: object, where: str) -> object:
    """Copy of a value in JSON's types; tensors and arrays become lists."""
    if type(value) in (str, int):  # most of them
        return value
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where}: {value} is not finite")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{where}: the key {key!r} is not a string")
        return {key: _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    raise ValueError(f"{where}: {type(value).__name__} cannot be kept; use numbers, strings, lists, dicts or tensors")
