"""square: success and signals on hand-made views, and where nut and peg start."""

import math

import numpy as np
import pytest
import torch
from task_views import at, view

from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.envs.tasks.square import HANDLE, SquareTask
from mimicpipe.rng import attempt_seeds

TASK = SquareTask()
PEG = at(0.7, 0.1, 0.0)
AWAY = at(0.5, 0.0, 0.25)


@pytest.mark.parametrize(
    ("nut", "hand", "width", "moving", "success"),
    [
        (at(0.7, 0.1, 0.01, 0.3), AWAY, 0.08, None, True),
        (at(0.709, 0.1, 0.0102), AWAY, 0.0, None, True),  # against the peg
        (at(0.7, 0.1, 0.01), at(0.7615, 0.1, 0.02), 0.08, None, True),  # fingers still around the handle, open
        (at(0.7, 0.1, 0.01), at(0.7615, 0.1, 0.02), 0.032, None, False),  # still gripped
        (at(0.7, 0.1, 0.01), AWAY, 0.08, {"square_nut": 0.05}, False),  # falling
        (at(0.7, 0.1, 0.06), AWAY, 0.08, None, False),  # stuck half way down
        (at(0.7, 0.1, 0.14), AWAY, 0.08, None, False),  # on the peg's top
        (at(0.7, 0.1, 0.018, tilt=0.4), AWAY, 0.08, None, False),  # wedged
        (at(0.72, 0.1, 0.01), AWAY, 0.08, None, False),  # where the peg would be in the frame
        (at(0.64, 0.1, 0.01), AWAY, 0.08, None, False),  # beside
    ],
)  # fmt: skip
def test_success_is_a_nut_flat_around_the_peg_released_and_still(nut, hand, width, moving, success) -> None:
    assert TASK.success(view({"square_nut": nut, "square_peg": PEG}, hand, width, moving)).tolist() == [success]


@pytest.mark.parametrize(
    ("height", "hand", "width", "grasp"),
    [
        (0.03, (0.0615, 0.03), 0.032, True),
        (0.019, (0.0615, 0.02), 0.032, False),  # on the table
        (0.03, (0.0615, 0.03), 0.05, False),
        (0.03, (0.0, 0.03), 0.032, False),  # the hand in the hole
    ],
)
def test_grasp_is_the_handle_held_off_the_table(height, hand, width, grasp) -> None:
    nut = at(0.4, 0.2, height, yaw=math.pi / 2)
    eef = at(0.4, 0.2 + hand[0], hand[1])
    seen = view({"square_nut": nut, "square_peg": PEG}, eef, width)
    assert TASK.subtask_term_signals(seen)["grasp"].tolist() == [grasp]
    assert HANDLE[0] == 0.0615


REGIONS = {
    "D0": {"square_nut": ((-0.115, -0.11), (0.11, 0.225)), "square_peg": ((0.23, 0.23), (0.1, 0.1))},
    "D1": {"square_nut": ((-0.115, 0.115), (-0.255, 0.255)), "square_peg": ((-0.1, 0.3), (-0.2, 0.2))},
    "D2": {"square_nut": ((-0.25, 0.25), (-0.25, 0.25)), "square_peg": ((-0.25, 0.25), (-0.25, 0.25))},
}


@pytest.mark.parametrize("variant", REGIONS)
def test_nut_and_peg_start_in_mimicgens_regions(variant: str) -> None:
    poses = SquareTask(variant).sample_object_poses(attempt_seeds(4, np.arange(1500)))
    for name, region in REGIONS[variant].items():
        for axis, (low, high) in enumerate(region):
            values = poses[name][:, axis, 3] - TABLE_CENTRE[axis]
            assert low - 1e-9 <= values.min() <= low + 0.05 * (high - low) + 1e-9
            assert high + 1e-9 >= values.max() >= high - 0.05 * (high - low) - 1e-9
    peg_yaw = torch.atan2(poses["square_peg"][:, 1, 0], poses["square_peg"][:, 0, 0])
    turned = math.pi / 2 if variant == "D2" else 0.0
    assert 0.95 * turned <= peg_yaw.max() <= turned
    assert peg_yaw.min() >= 0.0
    gap = torch.linalg.vector_norm((poses["square_nut"] - poses["square_peg"])[:, :2, 3], dim=1)
    assert gap.min() > 0.11
