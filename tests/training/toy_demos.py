"""Small data to learn from: a number is seen, and half of it is done."""

import numpy as np

from mimicpipe.training.columns import Demos


def toy_demos(episodes: int = 12, length: int = 20, seeds: tuple[int, ...] = ()) -> Demos:
    """Actions are half of the observation, in every frame of an episode the same."""
    generator = np.random.default_rng(0)
    seen = generator.uniform(-1.0, 1.0, (episodes, 1, 2)).astype(np.float32).repeat(length, axis=1)
    flat = seen.reshape(-1, 2)
    return Demos(
        {"observation.state": flat},
        0.5 * flat,
        np.full(episodes, length, dtype=np.int64),
        {"observation.state": ("a", "b"), "action": ("da", "db")},
        20.0,
        seeds,
        (0,),
    )
