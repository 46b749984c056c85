"""Observation groups as features, and seeded draws; nothing here imports Isaac Lab."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mimicpipe.envs.isaaclab.features import ObservationMap
from mimicpipe.envs.isaaclab.seeding import seeded
from mimicpipe.envs.isaaclab.settings import subtasks_of
from mimicpipe.errors import ConfigError

GROUPS: dict[str, Any] = {
    "policy": {
        "pos": torch.arange(6.0).reshape(2, 3),
        "done": torch.tensor([True, False]),
        "front": torch.full((2, 16, 16, 3), 7, dtype=torch.uint8),
    },
    "critic": torch.arange(8, dtype=torch.int64).reshape(2, 2, 2),
    "depth": {"hand": torch.tensor([0.5, torch.inf]).reshape(2, 1, 1, 1).expand(2, 16, 16, 1)},
}


def test_groups_become_features():
    seen = ObservationMap(GROUPS)
    shapes = {name: (feature.dtype, feature.shape, feature.names) for name, feature in seen.features.items()}
    axes = ("height", "width", "channels")
    assert shapes == {
        "observation.state": ("float32", (4,), ("pos_0", "pos_1", "pos_2", "done")),
        "observation.images.front": ("video", (16, 16, 3), axes),
        "observation.critic": ("float32", (4,), ("critic_0", "critic_1", "critic_2", "critic_3")),
        "observation.images.hand": ("depth", (16, 16, 1), axes),
    }
    values = seen.observe(GROUPS, torch.tensor([1]))
    assert values["observation.state"].tolist() == [[3.0, 4.0, 5.0, 0.0]]
    assert values["observation.critic"].tolist() == [[4.0, 5.0, 6.0, 7.0]]
    assert values["observation.images.hand"].unique().tolist() == [65535]
    both = seen.observe(GROUPS, slice(None))
    assert both["observation.images.hand"][0].unique().tolist() == [500]
    both["observation.images.front"].zero_()  # is the caller's own
    assert bool((GROUPS["policy"]["front"] == 7).all())


def test_images_that_no_camera_holds_are_refused():
    with pytest.raises(ConfigError, match=r"rgb\.front is torch\.float32 with 3 channels.*normalize=False"):
        ObservationMap({"rgb": {"front": torch.zeros(1, 16, 16, 3)}})
    picture = torch.zeros(1, 16, 16, 3, dtype=torch.uint8)
    with pytest.raises(ConfigError, match="two observation groups have an image term 'front'"):
        ObservationMap({"a": {"front": picture}, "b": {"front": picture}})


def test_draws_follow_the_seed_and_leave_the_generators_alone():
    def draw() -> tuple[float, float, float]:
        return float(torch.rand(1)), float(np.random.random()), random.random()

    def block(seed: int) -> tuple[float, float, float]:
        with seeded(seed, torch.device("cpu")):
            return draw()

    def failing_block() -> None:
        with seeded(4, torch.device("cpu")):
            draw()
            raise ValueError("stop")

    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    expected = [draw() for _ in range(3)]
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    seen = [draw()]
    first = block(2**63 - 1)
    seen.append(draw())
    assert block(2**63 - 1) == first
    assert all(a != b for a, b in zip(block(3), first, strict=True))
    with pytest.raises(ValueError, match="stop"):
        failing_block()
    seen.append(draw())
    assert seen == expected


def test_start_signals_are_the_configurations_own_or_with_skillgen_those_of_the_ends():
    def subtask(signal: str | None, **more: Any) -> SimpleNamespace:
        return SimpleNamespace(
            object_ref="cube", subtask_term_signal=signal, subtask_start_offset_range=(1, 2), source="x", **more
        )

    def starts(skillgen: bool, *configs: SimpleNamespace) -> list[tuple[str | None, tuple[int, int]]]:
        return [(s.subtask_start_signal, s.subtask_start_offset_range) for s in subtasks_of(configs, skillgen)]

    isaac, own = (subtask("grasp"), subtask(None)), (subtask("grasp", subtask_start_signal="reach"), subtask(None))
    assert starts(False, *isaac) == [(None, (0, 0)), (None, (0, 0))]
    assert starts(True, *isaac) == [("grasp", (1, 2)), (None, (0, 0))]
    assert starts(False, *own) == starts(True, *own) == [("reach", (1, 2)), (None, (0, 0))]
