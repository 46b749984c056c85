"""drawer_cleanup: success and signals on hand-made views, where cabinet and hammer start, and the drawer's physics."""

import numpy as np
import pytest
import torch
from task_views import at, view
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.drawer_cleanup import DRAWER_FLOOR, DRAWER_ORIGIN, HAMMER_HANDLE, DrawerCleanupTask
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.rng import attempt_seeds

TASK = DrawerCleanupTask()
CABINET = at(0.76, 0.3, 0.0, yaw=0.3)
AWAY = at(0.5, 0.0, 0.4)
TABLE_SPOT = at(0.5, -0.2, 0.014)


def drawer(out: float) -> Tensor:
    return poses.compose(CABINET, at(DRAWER_ORIGIN[0], DRAWER_ORIGIN[1] - out, DRAWER_ORIGIN[2]))


def in_drawer(out: float, x: float, y: float, height: float) -> Tensor:
    """A pose by its offset from the middle of the drawer's floor."""
    floor = DRAWER_FLOOR
    return poses.compose(drawer(out), at(floor[0] + x, floor[1] + y, floor[2] + height, yaw=1.0))


def scene(hammer: Tensor, out: float) -> dict[str, Tensor]:
    return {"hammer": hammer, "cabinet": CABINET, "drawer": drawer(out)}


@pytest.mark.parametrize(
    ("hammer", "out", "moving", "success"),
    [
        (in_drawer(0.0, 0.0, 0.0, 0.014), 0.0, None, True),
        (in_drawer(0.009, 0.05, -0.06, 0.03), 0.009, None, True),
        (in_drawer(0.02, 0.0, 0.0, 0.014), 0.02, None, False),  # ajar
        (in_drawer(0.145, 0.0, 0.0, 0.014), 0.145, None, False),
        (in_drawer(0.0, 0.0, 0.0, 0.014), 0.0, {"hammer": 0.1}, False),
        (in_drawer(0.0, 0.07, 0.0, 0.014), 0.0, None, False),  # on a side wall
        (in_drawer(0.0, 0.0, -0.09, 0.02), 0.0, None, False),  # over the front
        (in_drawer(0.0, 0.0, 0.0, 0.10), 0.0, None, False),  # on the cabinet
        (TABLE_SPOT, 0.0, None, False),
    ],
)
def test_success_is_a_hammer_in_a_closed_drawer(hammer, out, moving, success) -> None:
    seen = view(scene(hammer, out), AWAY, 0.08, moving, {"drawer": out})
    assert TASK.success(seen).tolist() == [success]


@pytest.mark.parametrize(
    ("out", "height", "width", "names"),
    [
        (0.0, 0.014, 0.08, set()),
        (0.1, 0.014, 0.08, set()),
        (0.13, 0.014, 0.08, {"open"}),
        (0.13, 0.04, 0.022, {"open", "grasp"}),
        (0.13, 0.014, 0.022, {"open"}),
        (0.0, 0.04, 0.022, {"grasp"}),
        (0.0, 0.04, 0.05, set()),
    ],
)
def test_signals_are_an_open_drawer_and_a_held_hammer(out, height, width, names) -> None:
    hand = at(0.5 + HAMMER_HANDLE[0], -0.2, height + 0.005)
    seen = view(scene(at(0.5, -0.2, height), out), hand, width, joints={"drawer": out})
    assert {name for name, value in TASK.subtask_term_signals(seen).items() if value.all()} == names


REGIONS = {
    "D0": {"cabinet": ((0.2, 0.2), (0.3, 0.3), (0.0, 0.0)), "hammer": ((0.10, 0.18), (-0.20, -0.13), (-0.1, 0.1))},
    "D1": {
        "cabinet": ((0.0, 0.2), (0.2, 0.3), (-0.524, 0.524)),
        "hammer": ((-0.2, 0.2), (-0.25, -0.13), (-3.14, 3.14)),
    },
}


@pytest.mark.parametrize("variant", REGIONS)
def test_cabinet_and_hammer_start_in_mimicgens_regions(variant: str) -> None:
    found = DrawerCleanupTask(variant).sample_object_poses(attempt_seeds(4, np.arange(1000)))
    for name, region in REGIONS[variant].items():
        pose = found[name]
        yaw = torch.atan2(pose[:, 1, 0], pose[:, 0, 0]).clamp(-3.1, 3.1)
        columns = (pose[:, 0, 3] - TABLE_CENTRE[0], pose[:, 1, 3], yaw)
        for values, (low, high) in zip(columns, region, strict=True):
            slack = 0.02 * (high - low) + 2e-3
            assert low - 2e-3 <= values.min() <= low + slack
            assert high - slack <= values.max() <= high + 2e-3


def test_a_drawer_stays_where_it_is_and_takes_the_hammer_along() -> None:
    """Slot 0 is open and empty, slot 1 open with the hammer in it, which rests on its floor."""
    env = MujocoEnv(TASK, 2)
    env.reset(env.all_ids(), attempt_seeds(0, np.arange(2)))
    state = env.get_state()
    state[:, 1 + env.model.joint("drawer_joint").qposadr[0]] = 0.145
    env.set_state(state)
    column = 1 + env.model.joint("hammer_joint").qposadr[0]
    floor = env.get_object_poses()["drawer"][1, :3, 3].double() + torch.tensor(DRAWER_FLOOR, dtype=torch.float64)
    state[1, column : column + 3] = floor + torch.tensor([0.0, 0.0, 0.03])
    env.set_state(state)
    for _ in range(20):
        env.step(torch.tensor([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0]).expand(2, 7))
    seen = env._task_view()
    torch.testing.assert_close(seen.joint_positions["drawer"], torch.full((2,), 0.145), atol=2e-3, rtol=0)
    assert (seen.object_poses["hammer"][1, 2, 3] - floor[2]).item() == pytest.approx(0.014, abs=2e-3)
    assert not env.success().any()
    env.close()
