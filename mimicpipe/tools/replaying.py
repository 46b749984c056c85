"""Plays recorded episodes again and compares what the simulator shows with what was recorded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mimicpipe.envs.base import MimicEnv
from mimicpipe.recorders.episode_rows import read_episode_metadata
from mimicpipe.tools.column_values import column_values

Columns = dict[str, np.ndarray]


@dataclass
class Replayed:
    """One episode, played again."""

    index: int
    recorded_success: bool
    success: bool
    """The task's condition held in the last steps, as many as a success has to hold for."""
    difference: float
    """The largest of any observation in any frame."""
    feature: str
    """Where that was."""
    frame: int


class RecordedEpisodes:
    """Some episodes of a dataset, evenly over it.

    Args:
        root: the dataset.
        number: how many at most.

    Raises:
        ConfigError: it was not written by a mimicpipe recorder.
    """

    def __init__(self, root: Path, number: int) -> None:
        rows = read_episode_metadata(root)
        starts = np.cumsum([0, *(row["length"] for row in rows)])
        chosen = np.unique(np.linspace(0, len(rows) - 1, min(number, len(rows))).round().astype(int))
        self.rows = [rows[i] for i in chosen]
        self.columns = [read_columns(root, int(starts[i]), int(starts[i + 1])) for i in chosen]


def read_columns(root: Path, begin: int, end: int) -> Columns:
    """Numeric columns of the dataset's rows `begin` to `end`."""
    import pyarrow.parquet as pq

    parts: dict[str, list[np.ndarray]] = {}
    at = 0
    for file in sorted((root / "data").glob("*/*.parquet")):
        rows = pq.read_metadata(file).num_rows
        low, high = max(begin - at, 0), min(end - at, rows)
        if low < high:
            names = [name for name in pq.read_schema(file).names if name == "action" or name.startswith("observation.")]
            table = pq.read_table(file, columns=names).slice(low, high - low)
            for name in names:
                values = column_values(table.column(name).combine_chunks())
                if values is not None:
                    parts.setdefault(name, []).append(values)
        at += rows
    return {name: np.concatenate(found) for name, found in parts.items()}


def replay(env: MimicEnv, recorded: RecordedEpisodes, hold_steps: int) -> list[Replayed]:
    """Play the episodes from their initial states and actions alone.

    Args:
        env: the run's simulator, or one like it.
        recorded: the episodes.
        hold_steps: steps that success has to hold for.
    """
    played: list[Replayed] = []
    for first in range(0, len(recorded.rows), env.num_envs):
        part = slice(first, first + env.num_envs)
        played += _replay_batch(env, recorded.rows[part], recorded.columns[part], hold_steps)
    return played


def _replay_batch(env: MimicEnv, rows: list[dict[str, Any]], columns: list[Columns], hold_steps: int) -> list[Replayed]:
    """Episode i in slot i."""
    env.set_state(torch.stack([row["initial_state"] for row in rows]).to(env.device),
                  torch.arange(len(rows), device=env.device))  # fmt: skip
    out = [Replayed(row["episode_index"], row["success"], False, 0.0, "", 0) for row in rows]
    actions = torch.zeros(env.num_envs, env.action_dim, device=env.device)
    held = [0] * len(rows)
    for step in range(max(row["length"] for row in rows)):
        slots = [slot for slot, row in enumerate(rows) if step < row["length"]]
        ids = torch.tensor(slots, device=env.device)
        for name, values in env.observe(ids).items():
            for row, slot in enumerate(slots):
                _compare(out[slot], name, step, values[row], columns[slot].get(name))
        for slot in slots:
            actions[slot] = torch.from_numpy(columns[slot]["action"][step].copy())
        env.step(actions, ids)
        success = env.success().tolist()
        for slot in slots:
            held[slot] = held[slot] + 1 if success[slot] else 0
            out[slot].success = held[slot] >= hold_steps
    return out


def _compare(out: Replayed, name: str, step: int, value: torch.Tensor, recorded: np.ndarray | None) -> None:
    if recorded is None:
        return
    difference = float(np.abs(value.cpu().numpy().reshape(-1).astype(np.float64) - recorded[step]).max(initial=0.0))
    if difference > out.difference:
        out.difference, out.feature, out.frame = difference, name, step
