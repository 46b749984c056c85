"""Small episodes of every dtype that a dataset can hold."""

import torch

from mimicpipe.envs.base import Feature
from mimicpipe.pipeline.episode import Episode, Outcome

FEATURES = {
    "observation.state": Feature("float32", (3,), ("x", "y", "z")),
    "observation.environment_state": Feature("float64", (7,)),
    "observation.contact": Feature("bool", (1,)),
    "observation.counter": Feature("int64", (2,)),
    "action": Feature("float32", (7,)),
}
CAMERAS = {
    "observation.images.front": Feature("video", (32, 32, 3)),
    "observation.images.wrist": Feature("image", (24, 36, 3)),
}


def random_column(feature: Feature, length: int, generator: torch.Generator) -> torch.Tensor:
    shape = (length, *feature.shape)
    if feature.dtype in ("image", "video", "uint8"):
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    if feature.dtype == "bool":
        return torch.rand(shape, generator=generator) > 0.5
    if feature.dtype == "int64":
        return torch.randint(-(2**62), 2**62, shape, generator=generator)
    return torch.randn(shape, generator=generator, dtype=getattr(torch, feature.dtype))


def episode_of(attempt, length, task, features, **metadata):
    """The same arguments, the same bits."""
    generator = torch.Generator().manual_seed(attempt)
    columns = {name: random_column(feature, length, generator) for name, feature in features.items()}
    demos = [{"eef": "gripper", "subtask": i, "demo": f"demo_{attempt + i}"} for i in range(2)]
    outcome = Outcome(attempt, attempt % 4, 2**63 - 1 - attempt, True, "success", length, demos)
    state = torch.randn(5, generator=generator, dtype=torch.float64)
    return Episode(outcome, columns, task, state, metadata)
