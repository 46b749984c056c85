"""threading: success and signals on hand-made views, and where tripod and needle start."""

import math

import numpy as np
import pytest
import torch
from task_views import at, view
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.envs.tasks.threading import HANDLE, RING, ThreadingTask
from mimicpipe.rng import attempt_seeds

TASK = ThreadingTask()
TRIPOD = at(0.56, -0.15, 0.0, yaw=1.2)
TABLE_SPOT = at(0.45, 0.2, 0.02, yaw=-1.0)


def threaded(along: float = 0.0, side: float = 0.0, up: float = 0.0) -> Tensor:
    """The needle along the ring's axis, its middle off the ring's by metres."""
    return poses.compose(TRIPOD, at(RING[0] + along + 0.02, RING[1] + side, RING[2] + up, yaw=-math.pi / 2))


def scene(needle: Tensor, width: float = 0.04):
    hand = poses.compose(needle, at(*HANDLE))
    return view({"needle": needle, "tripod": TRIPOD}, hand, width)


@pytest.mark.parametrize(
    ("needle", "success"),
    [
        (threaded(), True),
        (threaded(along=0.011, side=0.003, up=-0.003), True),
        (threaded(along=0.013), False),  # not far enough
        (threaded(along=-0.013), False),
        (threaded(along=0.07), False),  # before the ring
        (threaded(side=0.0045), False),  # beside the hole
        (threaded(up=0.02), False),  # over it
        (TABLE_SPOT, False),
    ],
)
@pytest.mark.parametrize("width", [0.04, 0.08])
def test_success_is_a_needle_half_way_through_the_ring(needle, success, width) -> None:
    assert TASK.success(scene(needle, width)).tolist() == [success]


@pytest.mark.parametrize(("height", "width", "grasp"), [(0.04, 0.04, True), (0.025, 0.04, False), (0.04, 0.07, False)])
def test_grasp_is_the_handle_held_off_the_table(height, width, grasp) -> None:
    seen = scene(at(0.45, 0.2, height, yaw=-1.0), width)
    assert TASK.subtask_term_signals(seen)["grasp"].tolist() == [grasp]


def test_start_signals_are_a_hand_at_the_handle_and_a_tip_at_the_ring() -> None:
    cases = ((TABLE_SPOT, 0.08), (threaded(along=0.09), 0.04), (threaded(along=0.17), 0.04), (threaded(), 0.08))
    seen = [{k for k, v in TASK.subtask_start_signals(scene(*case)).items() if v.all()} for case in cases]
    assert seen == [{"reach"}, {"reach", "carry"}, {"reach"}, {"reach"}]


REGIONS = {
    "D0": {"tripod": ((0.0, 0.0), (-0.15, -0.15), (90, 90)), "needle": ((-0.2, -0.05), (0.15, 0.25), (-120, -60))},
    "D1": {"tripod": ((-0.1, 0.15), (-0.2, -0.1), (30, 150)), "needle": ((-0.2, 0.05), (0.15, 0.25), (-210, 30))},
    "D2": {"tripod": ((-0.1, 0.15), (0.1, 0.2), (-150, -30)), "needle": ((-0.2, 0.05), (-0.25, -0.15), (-210, 30))},
}


@pytest.mark.parametrize("variant", REGIONS)
def test_tripod_and_needle_start_in_mimicgens_regions(variant: str) -> None:
    found = ThreadingTask(variant).sample_object_poses(attempt_seeds(4, np.arange(1000)))
    for name, region in REGIONS[variant].items():
        pose = found[name]
        yaw = torch.rad2deg(torch.atan2(pose[:, 1, 0], pose[:, 0, 0]))
        if name == "needle":
            yaw = torch.where(yaw > 60, yaw - 360, yaw)
        for values, (low, high) in zip((pose[:, 0, 3] - TABLE_CENTRE[0], pose[:, 1, 3], yaw), region, strict=True):
            slack = 0.02 * (high - low) + 1e-5
            assert low - 1e-5 <= values.min() <= low + slack
            assert high - slack <= values.max() <= high + 1e-5
