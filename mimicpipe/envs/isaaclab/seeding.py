"""The process's global generators, from which Isaac Lab's events draw: seeded for a while, and put back."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

_TORCH_SEEDS = 2**63
_NUMPY_SEEDS = 2**32


@dataclass(frozen=True)
class GeneratorStates:
    """States of torch's, numpy's and Python's global generators."""

    cpu: Tensor
    cuda: Tensor | None
    numpy: Any
    python: Any
    device: torch.device

    @classmethod
    def now(cls, device: torch.device) -> "GeneratorStates":
        """The present ones.

        Args:
            device: where events draw, beside the CPU.
        """
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return cls(torch.get_rng_state(), cuda, np.random.get_state(legacy=False), random.getstate(), device)

    @classmethod
    def seeded(cls, seed: int, device: torch.device) -> "GeneratorStates":
        """Those after seeding; the generators are left there."""
        # `torch.manual_seed` also notes down the call stack for every kind of device that is not in use: 0.5 ms.
        torch.default_generator.manual_seed(seed % _TORCH_SEEDS)
        if device.type == "cuda":
            torch.cuda.manual_seed_all(seed % _TORCH_SEEDS)
        np.random.seed(seed % _NUMPY_SEEDS)
        random.seed(seed)
        return cls.now(device)

    def put_back(self) -> None:
        """Let the generators go on from here."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)
        np.random.set_state(self.numpy)
        random.setstate(self.python)

    def same_as(self, other: "GeneratorStates") -> bool:
        """Whether nothing was drawn between the two."""
        cuda = self.cuda is None or other.cuda is None or torch.equal(self.cuda, other.cuda)
        mine, theirs = self.numpy["state"], other.numpy["state"]
        numpy = mine["pos"] == theirs["pos"] and self.numpy["has_gauss"] == other.numpy["has_gauss"]
        numpy = numpy and np.array_equal(mine["key"], theirs["key"])
        return cuda and numpy and torch.equal(self.cpu, other.cpu) and self.python == other.python


@contextmanager
def put_back(device: torch.device) -> Generator[GeneratorStates]:
    """Afterwards the global generators are what they were before the block."""
    before = GeneratorStates.now(device)
    try:
        yield before
    finally:
        before.put_back()


@contextmanager
def seeded(seed: int, device: torch.device) -> Generator[None]:
    """Seed the global generators for the block, then put back what they were.

    Args:
        seed: 0 <= seed < 2**63, of an attempt.
        device: where events draw, beside the CPU.
    """
    with put_back(device):
        GeneratorStates.seeded(seed, device)
        yield
