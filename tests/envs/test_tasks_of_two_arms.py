"""The tasks of two arms: success and signals on hand-made views, and where things start."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from task_views import at, view

from mimicpipe.envs.tasks.bimanual_handover import BimanualHandoverTask
from mimicpipe.envs.tasks.bimanual_lift import BimanualLiftTask
from mimicpipe.envs.tasks.bimanual_threading import BimanualThreadingTask
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.rng import attempt_seeds

FAR = at(0.5, 0.0, 0.5)
TURN = 0.5 * math.pi

# -- bimanual_lift

HANDS = {"left": at(0.5, 0.17, 0.15), "right": at(0.5, -0.17, 0.15)}
HELD = {"left": 0.024, "right": 0.024}


@pytest.mark.parametrize(
    ("tray", "carton", "hands", "widths", "success"),
    [
        (at(0.5, 0.0, 0.15), at(0.52, 0.03, 0.19), {}, {}, True),
        (at(0.5, 0.0, 0.15), at(0.5, 0.0, 0.19), {}, {"left": 0.08}, False),
        (at(0.5, 0.0, 0.15), at(0.5, 0.0, 0.19), {"right": FAR}, {}, False),
        (at(0.5, 0.0, 0.15, 0.0, 0.12), at(0.5, 0.0, 0.19, 0.0, 0.12), {}, {}, True),  # 7 degrees askew
        (at(0.5, 0.0, 0.18, 0.0, 0.20), at(0.5, 0.0, 0.22, 0.0, 0.20), {}, {}, False),  # 11 degrees
        (at(0.5, 0.0, 0.117), at(0.5, 0.0, 0.157), {}, {}, False),  # not high enough
        (at(0.5, 0.0, 0.15, math.pi), at(0.5, 0.0, 0.19), {}, {}, False),  # each hand at the other's handle
        (at(0.5, 0.0, 0.15), at(0.5, 0.0, 0.156, 0.0, 0.5 * math.pi), {}, {}, False),  # the carton lies on it
        (at(0.5, 0.0, 0.15), at(0.5, 0.0, 0.19, 0.0, 0.3), {}, {}, False),  # it is about to
        (at(0.5, 0.0, 0.15), at(0.5, 0.3, 0.05), {}, {}, False),  # it stands on the table
    ],
)
def test_a_lifted_tray_is_level_and_held_by_both_with_the_carton_on_it(tray, carton, hands, widths, success) -> None:
    seen = view({"tray": tray, "carton": carton}, HANDS | hands, HELD | widths)
    assert BimanualLiftTask().success(seen).tolist() == [success]


def test_each_handle_has_its_grasp() -> None:
    task, tray = BimanualLiftTask(), {"tray": at(0.5, 0.0, 0.02), "carton": at(0.5, 0.0, 0.06)}
    down = {eef: at(0.5, y, 0.025) for eef, y in (("left", 0.17), ("right", -0.17))}
    seen = task.subtask_term_signals(view(tray, down, {"left": 0.024, "right": 0.08}))
    assert {name: value.item() for name, value in seen.items()} == {"left_grasp": True, "right_grasp": False}


# -- bimanual_handover

PLACED = {"bar": at(0.5, -0.2, 0.015), "pad": at(0.5, -0.2, 0.0)}
BOTH_FAR = {"left": FAR, "right": FAR}


@pytest.mark.parametrize(
    ("bodies", "widths", "moving", "success"),
    [
        ({}, {}, None, True),
        ({"bar": at(0.5, -0.2, 0.015, math.pi)}, {}, None, True),  # the other way round
        ({"bar": at(0.52, -0.2, 0.015, 0.3)}, {}, None, True),
        ({"bar": at(0.5, -0.2, 0.015, 0.4)}, {}, None, False),  # across the pad
        ({"bar": at(0.535, -0.2, 0.015)}, {}, None, False),
        ({"bar": at(0.5, -0.2, 0.03)}, {}, None, False),  # in the air
        ({}, {"right": 0.03}, None, False),  # still in the right hand
        ({}, {"left": 0.03}, None, False),
        ({}, {}, {"bar": 0.05}, False),
    ],
)
def test_a_bar_handed_over_lies_on_the_pad_let_go_and_still(bodies, widths, moving, success) -> None:
    seen = view(PLACED | bodies, BOTH_FAR, {"left": 0.08, "right": 0.08} | widths, moving)
    assert BimanualHandoverTask().success(seen).tolist() == [success]


def test_signals_of_a_handover_rise_one_after_the_other() -> None:
    low, high, pad = at(0.5, 0.17, 0.015), at(0.5, 0.0, 0.28), at(0.5, -0.2, 0.0)
    left, right = at(0.5, 0.07, 0.28), at(0.5, -0.07, 0.28)
    steps = [
        (low, BOTH_FAR, (0.08, 0.08)),
        (at(0.5, 0.17, 0.05), {"left": at(0.5, 0.24, 0.05), "right": FAR}, (0.03, 0.08)),
        (high, {"left": left, "right": FAR}, (0.03, 0.08)),
        (high, {"left": left, "right": right}, (0.03, 0.03)),
        (high, {"left": left, "right": right}, (0.08, 0.03)),  # the left hand is open, but still there
        (high, {"left": at(0.5, 0.07, 0.38), "right": right}, (0.08, 0.03)),
    ]
    seen = []
    for bar, hands, (a, b) in steps:
        signals = BimanualHandoverTask().subtask_term_signals(
            view({"bar": bar, "pad": pad}, hands, {"left": a, "right": b})
        )
        seen.append({name for name, value in signals.items() if value.all()})
    held = {"left_grasp", "presented"}
    assert seen == [set(), {"left_grasp"}, held, held | {"right_grasp"}, {"right_grasp"}, {"right_grasp", "given"}]


# -- bimanual_threading

THREADED = {"ring": at(0.5, -0.06, 0.2, TURN), "peg": at(0.5, -0.06, 0.18, TURN)}
HOLDS = {"left": at(0.5, 0.06, 0.2), "right": at(0.5, -0.06, 0.33)}


@pytest.mark.parametrize(
    ("bodies", "hands", "left_width", "success"),
    [
        ({}, {}, 0.024, True),
        ({"peg": at(0.505, -0.06, 0.182, TURN, 0.05)}, {}, 0.024, True),  # it hangs askew
        ({"peg": at(0.5, -0.06, 0.20, TURN)}, {}, 0.024, False),  # its head is over the ring
        ({"peg": at(0.51, -0.06, 0.18, TURN)}, {}, 0.024, False),  # beside the hole
        ({"peg": at(0.5, -0.06, 0.26, TURN, TURN)}, {}, 0.024, False),  # it lies on the ring
        ({}, {"right": at(0.5, -0.06, 0.23)}, 0.024, False),  # the hand is still there
        ({}, {"left": FAR}, 0.024, False),
        ({}, {}, 0.08, False),
        ({"ring": at(0.5, -0.06, 0.01, TURN), "peg": at(0.5, -0.06, -0.01, TURN)}, {}, 0.024, False),
    ],
)
def test_a_threaded_peg_hangs_in_the_ring_that_the_left_hand_holds_up(bodies, hands, left_width, success) -> None:
    seen = view(THREADED | bodies, HOLDS | hands, {"left": left_width, "right": 0.08})
    assert BimanualThreadingTask().success(seen).tolist() == [success]


def test_ring_and_peg_are_grasped_once_they_are_off_the_table() -> None:
    task = BimanualThreadingTask()
    for height, grasped in ((0.0, False), (0.03, True)):
        hands = {"left": at(0.5, 0.27, 0.01 + height), "right": at(0.5, -0.15, 0.105 + height)}
        bodies = {"ring": at(0.5, 0.15, 0.01 + height, TURN), "peg": at(0.5, -0.15, 0.06 + height, TURN)}
        signals = task.subtask_term_signals(view(bodies, hands, {"left": 0.024, "right": 0.024}))
        assert {name: value.item() for name, value in signals.items()} == dict.fromkeys(
            ("left_grasp", "right_grasp"), grasped
        )


# -- where things start


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**40))
def test_the_carton_stands_on_the_tray(seed) -> None:
    poses = BimanualLiftTask("D1").sample_object_poses(attempt_seeds(seed, np.arange(50)))
    x, y, z = (torch.linalg.inv(poses["tray"]) @ poses["carton"])[:, :3, 3].unbind(1)
    assert max(x.abs().max(), y.abs().max()) <= 0.03
    torch.testing.assert_close(z, torch.full_like(z, 0.04))


RANGES = [
    (BimanualLiftTask, "D0", "tray", (-0.05, 0.05), (-0.05, 0.05)),
    (BimanualLiftTask, "D1", "tray", (-0.15, 0.10), (-0.12, 0.12)),
    (BimanualHandoverTask, "D0", "bar", (-0.05, 0.05), (0.12, 0.22)),
    (BimanualHandoverTask, "D1", "bar", (-0.15, 0.10), (0.05, 0.25)),
    (BimanualHandoverTask, "D0", "pad", (-0.05, 0.05), (-0.22, -0.18)),
    (BimanualHandoverTask, "D1", "pad", (-0.15, 0.10), (-0.25, -0.10)),
    (BimanualThreadingTask, "D0", "ring", (-0.05, 0.05), (0.12, 0.20)),
    (BimanualThreadingTask, "D1", "ring", (-0.15, 0.10), (0.05, 0.20)),
    (BimanualThreadingTask, "D0", "peg", (-0.05, 0.05), (-0.20, -0.12)),
    (BimanualThreadingTask, "D1", "peg", (-0.15, 0.10), (-0.25, -0.05)),
]


@pytest.mark.parametrize(("task", "variant", "body", "x", "y"), RANGES)
def test_bodies_start_all_over_their_regions(task, variant, body, x, y) -> None:
    pose = task(variant).sample_object_poses(attempt_seeds(4, np.arange(1500)))[body]
    place = pose[:, :2, 3] - torch.tensor(TABLE_CENTRE, dtype=torch.float64)
    for axis, (low, high) in enumerate((x, y)):
        margin = 0.03 * (high - low)
        assert low <= place[:, axis].min() < low + margin
        assert high - margin < place[:, axis].max() <= high
