"""Small episodes with numbers, truth values, a matrix and a camera."""

import torch

from mimicpipe.envs.base import Feature
from mimicpipe.pipeline.episode import Episode, Outcome

FEATURES = {
    "observation.state": Feature("float32", (3,), ("x", "y", "z")),
    "observation.deep.matrix": Feature("float64", (4, 4)),
    "observation.contact": Feature("bool", (1,)),
    "observation.images.front": Feature("image", (16, 18, 3)),
    "action": Feature("float32", (2,)),
}


def small_episode(number, length):
    generator = torch.Generator().manual_seed(number)
    columns = {
        "observation.state": torch.randn(length, 3, generator=generator),
        "observation.deep.matrix": torch.randn(length, 4, 4, generator=generator, dtype=torch.float64),
        "observation.contact": torch.rand(length, 1, generator=generator) > 0.5,
        "observation.images.front": torch.randint(0, 256, (length, 16, 18, 3), generator=generator, dtype=torch.uint8),
        "action": torch.randn(length, 2, generator=generator),
    }
    success = number != 1
    source_demos = [{"eef": "panda", "subtask": 0, "demo": "demo_2"}]
    outcome = Outcome(2 * number, 0, 2**62 + number, success, "success" if success else "timeout", length, source_demos)
    state = torch.randn(4, generator=generator, dtype=torch.float64)
    return Episode(outcome, columns, f"task {number % 2}", state, {"note": {"n": number}})
