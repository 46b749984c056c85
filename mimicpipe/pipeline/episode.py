"""What travels out of the simulator: an attempt's identity, its outcome, and the columns of a finished episode."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Attempt(NamedTuple):
    """One try at generating a demo."""

    index: int
    """Attempt index k, from 0; the order of everything in the dataset."""
    seed: int
    """The attempt's own seed, `rng.attempt_seeds(run_seed, k)`."""


FAILURES = ("not_successful", "success_not_held", "timeout", "plan_failed", "state_mismatch", "nonfinite")
"""Reasons of failed attempts, apart from "error:<Type>"."""


@dataclass(slots=True)
class Outcome:
    """How an attempt ended: one row of attempts.jsonl."""

    attempt: int
    slot: int
    seed: int
    success: bool
    reason: str
    """"success", one of `FAILURES`, or "error:<Type>"."""
    length: int
    """Control steps executed."""
    source_demos: list[Any] = field(default_factory=list)
    """For each executed subtask in order: {"eef", "subtask", "demo"}."""
    episode_index: int | None = None
    """Index in the dataset; None if not recorded."""
    detail: str = ""
    """What went wrong, in words, for "plan_failed" and "state_mismatch"."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished attempt's trajectory on the host, owning its memory (detached from every live buffer)."""

    outcome: Outcome
    columns: dict[str, Tensor]
    """{feature: (T, *shape)} CPU tensors: observations before each action, the `action`, and per-frame annotations."""
    task: str
    """Language instruction."""
    initial_state: Tensor
    """(S,) float64, `MimicEnv.get_state` right after the reset."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Kept with the episode in the dataset (attempt, seed, source demos, and what a generator returns as metadata)."""
    finite: bool = False
    """The columns were looked through by `first_nonfinite` already, and it found nothing."""

    @property
    def length(self) -> int:
        """Number of frames T."""
        return next(iter(self.columns.values())).shape[0] if self.columns else 0

    @property
    def nbytes(self) -> int:
        """Host memory of the columns, bytes."""
        return sum(c.numel() * c.element_size() for c in self.columns.values())


def is_finite(values: Tensor) -> bool:
    """Whether a host tensor of floats holds no NaN or infinity; a fifth of the time of torch's operations."""
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is infinite or NaN if a summand is; the other way round it may only have grown too large.
        return math.isfinite(values.numpy().sum()) or bool(torch.isfinite(values).all())


def first_nonfinite(columns: Mapping[str, Tensor]) -> str | None:
    """Which of an episode's columns (T, *shape) holds a NaN or infinity, and in which frame; None if none does."""
    for name, column in columns.items():
        if column.is_floating_point() and not is_finite(column):
            frame = int((~torch.isfinite(column)).reshape(len(column), -1).any(dim=1).nonzero()[0])
            return f"feature {name!r}: NaN or infinity in frame {frame}"
    return None
