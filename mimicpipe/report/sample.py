"""A few episodes, kept small enough to be played again after the run: where they began, and their actions.

An episode is its initial state and its actions, bit for bit, so this is all that pictures and paths need.
"""

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.run_state import RunState

if TYPE_CHECKING:
    from mimicpipe.recorders.episode_rows import Row

SHOWN = 8
"""Episodes that are shown."""
FAILURES_SHOWN = 4
"""Of these, failures; fewer where there are not as many."""


@dataclass(frozen=True, slots=True)
class Take:
    """What an episode can be played again from."""

    attempt: int
    success: bool
    reason: str
    initial_state: Tensor
    """(S,) float64."""
    actions: Tensor
    """(T, A) float32."""


class EpisodeSample:
    """Keeps the first successes and the first failures by attempt, so that num_envs does not matter.

    Told of each attempt as it finishes (`RunState.on_finished`); costs nothing once the first ones are there.

    Args:
        run: whose rollout buffer the actions come from; nothing is kept where nobody records.
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._kept: dict[bool, list[Take]] = {True: [], False: []}
        run.on_finished = self.finished

    def finished(self, slot: int, outcome: Outcome) -> None:
        """Keep the attempt if it is among the first of its kind."""
        run, kept = self._run, self._kept[outcome.success]
        full = len(kept) == (SHOWN if outcome.success else FAILURES_SHOWN)
        if (full and outcome.attempt > kept[-1].attempt) or run.rollout is None:
            return
        actions = run.rollout.column(slot, outcome.length, "action")
        take = Take(outcome.attempt, outcome.success, outcome.reason, run.first_state(slot), actions)
        bisect.insort(kept, take, key=attrgetter("attempt"))
        del kept[SHOWN if outcome.success else FAILURES_SHOWN :]

    def takes(self, attempts: int) -> list[Take]:
        """Those to show, successes first, of the attempts below `attempts`, which are the ones that count."""
        return chosen(take for take in self.kept() if take.attempt < attempts)

    def kept(self) -> list[Take]:
        """All that are kept."""
        return [take for kept in self._kept.values() for take in kept]


def chosen(takes: Iterable[Take]) -> list[Take]:
    """At most `SHOWN`, at most `FAILURES_SHOWN` of them failures, successes first, each kind by attempt."""
    ordered = sorted(takes, key=attrgetter("attempt"))
    failures = [take for take in ordered if not take.success][:FAILURES_SHOWN]
    return [*[take for take in ordered if take.success][: SHOWN - len(failures)], *failures]


def takes_of_dataset(root: Path) -> list[Take]:
    """The first episodes of a dataset of mimicpipe.

    Args:
        root: its folder.

    Raises:
        ConfigError: no dataset there, or one that was not written by a mimicpipe recorder.
    """
    from mimicpipe.recorders.episode_rows import read_episode_metadata

    episodes = read_episode_metadata(root)[:SHOWN]
    return [_take(row, actions) for row, actions in zip(episodes, read_actions(root, episodes), strict=True)]


def _take(row: "Row", actions: Tensor) -> Take:
    return Take(row["attempt"], row["success"], row["reason"], row["initial_state"], actions)


def read_actions(root: Path, episodes: "list[Row]") -> list[Tensor]:
    """The actions (T, A) of a dataset's first episodes, whose rows `read_episode_metadata` has read."""
    import numpy as np
    import pyarrow.parquet as pq
    import torch

    wanted, parts, rows = sum(row["length"] for row in episodes), [], 0
    for file in sorted((root / "data").glob("*/*.parquet")):
        if rows >= wanted:
            break
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=4096, columns=["action"]):
                column = batch.column("action")
                parts.append(column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1))
                rows += len(column)
                if rows >= wanted:
                    break
    frames = torch.from_numpy(np.concatenate(parts)[:wanted].astype(np.float32))
    return list(frames.split([row["length"] for row in episodes]))
