"""three_piece_assembly: success and signals on hand-made views, where the pieces start, and that they fit."""

import math

import numpy as np
import pytest
import torch
from task_views import at, view
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.envs.tasks.three_piece_assembly import (
    KNOB,
    PIECE_1_HALF,
    PIECE_2_HALF,
    RIDGE,
    SEAT_1,
    SEAT_2,
    ThreePieceAssemblyTask,
)
from mimicpipe.rng import attempt_seeds

TASK = ThreePieceAssemblyTask()
BASE = at(0.6, 0.1, 0.0, yaw=0.4)
AWAY = at(0.4, 0.0, 0.5)


def on_base(x: float, y: float, height: float, tilt: float = 0.0) -> Tensor:
    """A pose by its offset from the base's middle, a quarter turn from the base."""
    return poses.compose(BASE, at(x, y, height, yaw=math.pi / 2, tilt=tilt))


DONE = {"base": BASE, "piece_1": on_base(0.0, 0.0, SEAT_1), "piece_2": on_base(0.0, 0.0, SEAT_2)}
ON_TABLE = {"base": BASE, "piece_1": at(0.4, -0.1, PIECE_1_HALF), "piece_2": at(0.4, 0.15, PIECE_2_HALF)}


@pytest.mark.parametrize(
    ("change", "hand", "width", "moving", "success"),
    [
        ({}, AWAY, 0.08, None, True),
        ({"piece_1": on_base(0.005, -0.005, SEAT_1), "piece_2": on_base(0.008, -0.002, SEAT_2)}, AWAY, 0.0, None, True),
        ({}, poses.compose(DONE["piece_2"], at(*KNOB)), 0.08, None, True),  # open fingers around the knob
        ({}, poses.compose(DONE["piece_2"], at(*KNOB)), 0.04, None, False),  # still gripped
        ({}, AWAY, 0.08, {"piece_2": 0.1}, False),
        ({"piece_1": on_base(0.0, 0.0, SEAT_1 + 0.038)}, AWAY, 0.08, None, False),  # piece 1 on the base, not in it
        ({"piece_2": on_base(0.0, 0.0, SEAT_2 + 0.02)}, AWAY, 0.08, None, False),  # piece 2 stuck on the ridge
        ({"piece_2": on_base(0.015, 0.0, SEAT_2)}, AWAY, 0.08, None, False),
        ({"piece_2": on_base(0.0, 0.0, SEAT_2, tilt=0.2)}, AWAY, 0.08, None, False),
        ({"piece_2": ON_TABLE["piece_2"]}, AWAY, 0.08, None, False),
        ({"piece_1": ON_TABLE["piece_1"]}, AWAY, 0.08, None, False),
    ],
)
def test_success_is_all_pieces_in_place_released_and_still(change, hand, width, moving, success) -> None:
    assert TASK.success(view(DONE | change, hand, width, moving)).tolist() == [success]


def test_signals_rise_one_after_the_other() -> None:
    lifted_1 = ON_TABLE | {"piece_1": at(0.4, -0.1, PIECE_1_HALF + 0.05)}
    inserted = ON_TABLE | {"piece_1": DONE["piece_1"]}
    lifted_2 = inserted | {"piece_2": at(0.4, 0.15, PIECE_2_HALF + 0.05)}
    steps = [
        (ON_TABLE, AWAY, 0.08),
        (lifted_1, poses.compose(lifted_1["piece_1"], at(*RIDGE)), 0.031),
        (inserted, poses.compose(inserted["piece_1"], at(*RIDGE)), 0.031),
        (inserted, poses.compose(inserted["piece_1"], at(*RIDGE)), 0.08),
        (lifted_2, poses.compose(lifted_2["piece_2"], at(*KNOB)), 0.04),
    ]
    seen = [{k for k, v in TASK.subtask_term_signals(view(*step)).items() if v.all()} for step in steps]
    assert seen == [set(), {"grasp_1"}, set(), {"insert_1"}, {"insert_1", "grasp_2"}]


TURNS = {"D0": ((0, 0), (90, 90)), "D1": ((0, 0), (90, 90)), "D2": ((-45, 45), (0, 180))}


@pytest.mark.parametrize("variant", TURNS)
def test_pieces_start_in_mimicgens_regions(variant: str) -> None:
    found = ThreePieceAssemblyTask(variant).sample_object_poses(attempt_seeds(4, np.arange(1000)))
    for name, turn in zip(("base", "piece_1", "piece_2"), (TURNS[variant][0], *[TURNS[variant][1]] * 2), strict=True):
        pose = found[name]
        half = 0.0 if (variant, name) == ("D0", "base") else 0.22
        yaw = torch.rad2deg(torch.atan2(pose[:, 1, 0], pose[:, 0, 0]))
        for values, (low, high) in (
            (pose[:, 0, 3] - TABLE_CENTRE[0], (-half, half)), (pose[:, 1, 3], (-half, half)), (yaw, turn)
        ):  # fmt: skip
            slack = 0.03 * (high - low) + 1e-5
            assert low - 1e-5 <= values.min() <= low + slack
            assert high - slack <= values.max() <= high + 1e-5


def test_pieces_dropped_over_their_places_come_to_rest_assembled() -> None:
    env = MujocoEnv(TASK, 1)
    env.reset(env.all_ids(), attempt_seeds(0, np.arange(1)))
    base = env.get_object_poses()["base"]
    for name, height in (("piece_1", SEAT_1), ("piece_2", SEAT_2)):
        column = 1 + env.model.joint(f"{name}_joint").qposadr[0]
        state = env.get_state()
        state[0, column : column + 3] = base[0, :3, 3].double() + torch.tensor([0.002, -0.001, height + 0.006])
        env.set_state(state)
        for _ in range(12):
            env.step(torch.tensor([[0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1.0]]))
    assert env.success().all()
    env.close()
