"""A reset whose scene is a function of one seed, with events that draw from the process's global generators."""

import random
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import torch

_TORCH_SEEDS = 2**63
_NUMPY_SEEDS = 2**32


@contextmanager
def seeded(seed: int, device: torch.device) -> Generator[None]:
    """Seed torch's, numpy's and Python's global generators for the block, then put back what they were.

    Args:
        seed: 0 <= seed < 2**63, of an attempt.
        device: where events draw, beside the CPU.
    """
    before = random.getstate(), np.random.get_state()
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed % _TORCH_SEEDS)
        np.random.seed(seed % _NUMPY_SEEDS)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
