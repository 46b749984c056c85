"""What a slot of `generator=skillgen` is at: its attempt, and what each eef has still to play."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mimicpipe.datagen.batch import EefSpec, Rows
from mimicpipe.pipeline.run_state import RunState


@dataclass(slots=True)
class SkillAttempt:
    """The attempt that a slot is at."""

    slot: int
    seed: int
    attempt: int
    """Its index."""
    visible: int
    """Demos it may choose from."""
    run: RunState
    run_seed: int
    ids: Tensor
    """(1,) the slot."""
    asked: int = 0
    """Ways that were asked for."""

    def row(self, subtask: int) -> Rows:
        """The attempt as the only row of a batch."""
        one = np.ones(1, dtype=np.int64)
        return Rows(0 * one, self.slot * one, self.seed * one, self.visible * one, subtask * one)


@dataclass(slots=True)
class EefScript:
    """What one eef of an attempt has to play."""

    spec: EefSpec
    next: int = 0
    """Its next subtask, or how many there are."""
    planned: int = 0
    """Steps planned so far."""
    targets: Tensor = field(default_factory=lambda: torch.empty(0, 4, 4))
    """(L, 4, 4) still to be played, and likewise (L, G) and (L, P):"""
    grippers: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    noise: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    last_target: Tensor | None = None
    last_gripper: Tensor | None = None

    @property
    def left(self) -> int:
        """Steps still to be played."""
        return len(self.targets)

    def take(self, steps: int, *, plays: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The next steps; where it waits, the last target, held without noise."""
        if not plays:
            assert self.last_target is not None
            assert self.last_gripper is not None
            held = self.last_target.expand(steps, 4, 4), self.last_gripper.expand(steps, -1)
            return *held, self.noise.new_zeros(steps, self.noise.shape[1])
        taken = self.targets[:steps], self.grippers[:steps], self.noise[:steps]
        self.targets, self.grippers, self.noise = self.targets[steps:], self.grippers[steps:], self.noise[steps:]
        self.last_target, self.last_gripper = taken[0][-1], taken[1][-1]
        return taken
