"""stack_three: success and signals on hand-made views, and where the cubes start."""

import math

import numpy as np
import pytest
import torch
from task_views import at, view

from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.envs.tasks.stack_three import StackThreeTask
from mimicpipe.rng import attempt_seeds

TASK = StackThreeTask()
TOWER = {"cubeA": at(0.5, 0.0, 0.07), "cubeB": at(0.5, 0.0, 0.025), "cubeC": at(0.505, 0.0, 0.11)}
AWAY = at(0.5, 0.0, 0.25)


@pytest.mark.parametrize(
    ("change", "hand", "width", "moving", "success"),
    [
        ({}, AWAY, 0.08, None, True),
        ({}, AWAY, 0.0, None, True),
        ({}, at(0.505, 0.0, 0.11), 0.08, None, True),
        ({}, at(0.505, 0.0, 0.11), 0.04, None, False),  # C still gripped
        ({}, AWAY, 0.08, {"cubeB": 0.05}, False),
        ({"cubeC": at(0.505, 0.0, 0.12)}, AWAY, 0.08, None, False),  # in the air
        ({"cubeC": at(0.54, 0.0, 0.11)}, AWAY, 0.08, None, False),
        ({"cubeC": at(0.6, 0.0, 0.02)}, AWAY, 0.08, None, False),  # only A on B
        ({"cubeA": at(0.5, 0.0, 0.11), "cubeC": at(0.5, 0.0, 0.07)}, AWAY, 0.08, None, False),  # in the wrong order
        ({name: at(0.5, 0.0, z + 0.02) for name, z in (("cubeA", 0.07), ("cubeB", 0.025), ("cubeC", 0.11))},
         AWAY, 0.08, None, False),  # the whole tower off the table
    ],
)  # fmt: skip
def test_success_is_a_tower_in_order_released_and_still(change, hand, width, moving, success) -> None:
    assert TASK.success(view(TOWER | change, hand, width, moving)).tolist() == [success]


def test_signals_rise_one_after_the_other() -> None:
    start = {"cubeA": at(0.4, 0.1, 0.02), "cubeB": at(0.5, 0.0, 0.025), "cubeC": at(0.6, 0.1, 0.02)}
    steps = [
        (start, AWAY, 0.08),
        (start | {"cubeA": at(0.4, 0.1, 0.05)}, at(0.4, 0.1, 0.05), 0.04),
        (start | {"cubeA": TOWER["cubeA"]}, TOWER["cubeA"], 0.08),
        (start | {"cubeA": TOWER["cubeA"], "cubeC": at(0.6, 0.1, 0.06)}, at(0.6, 0.1, 0.06), 0.04),
    ]
    seen = [{k for k, v in TASK.subtask_term_signals(view(*step)).items() if v.all()} for step in steps]
    assert seen == [set(), {"grasp_1"}, {"stack_1"}, {"stack_1", "grasp_2"}]


@pytest.mark.parametrize(("variant", "half"), [("D0", 0.10), ("D1", 0.20)])
def test_cubes_start_apart_in_mimicgens_square(variant: str, half: float) -> None:
    poses = StackThreeTask(variant).sample_object_poses(attempt_seeds(4, np.arange(1500)))
    cubes = {name: pose[:, :2, 3] - torch.tensor(TABLE_CENTRE, dtype=torch.float64) for name, pose in poses.items()}
    for xy in cubes.values():
        assert 0.97 * half < xy.abs().max() <= half
        np.testing.assert_allclose(xy.mean(dim=0), 0.0, atol=0.1 * half)
    for a, b, gap in (("cubeA", "cubeB", 0.045), ("cubeA", "cubeC", 0.04), ("cubeB", "cubeC", 0.045)):
        assert torch.linalg.vector_norm(cubes[a] - cubes[b], dim=1).min() > gap * math.sqrt(2)
