"""coffee: success and signals on hand-made views, where machine and pod start, and the lid's physics."""

import math

import numpy as np
import pytest
import torch
from task_views import at, view
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.coffee import HOLDER, LID_OPEN, CoffeeTask
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.rng import attempt_seeds

TASK = CoffeeTask()
MACHINE = at(0.56, -0.1, 0.0, yaw=-0.5)
AWAY = at(0.5, 0.0, 0.4)


def in_machine(x: float, y: float, height: float, tilt: float = 0.0) -> Tensor:
    """A pose by its offset from the middle of the holder's floor."""
    return poses.compose(MACHINE, at(HOLDER[0] + x, HOLDER[1] + y, HOLDER[2] + height, tilt=tilt))


@pytest.mark.parametrize(
    ("pod", "lid", "moving", "success"),
    [
        (in_machine(0.0, 0.0, 0.02), 0.05, None, True),
        (in_machine(0.003, 0.004, 0.0195), 0.25, None, True),
        (in_machine(0.0, 0.0, 0.02), 0.27, None, False),  # the lid is 15.5 degrees open
        (in_machine(0.0, 0.0, 0.02), LID_OPEN, None, False),
        (in_machine(0.0, 0.0, 0.02), 0.05, {"coffee_pod": 0.1}, False),
        (in_machine(0.0, 0.0, 0.035), 0.05, None, False),  # half in
        (in_machine(0.0, 0.007, 0.02), 0.05, None, False),  # beyond the walls
        (in_machine(0.0, 0.0, 0.02, tilt=0.5), 0.05, None, False),
        (at(0.5, 0.2, 0.02), 0.05, None, False),  # on the table
    ],
)
def test_success_is_a_pod_in_the_holder_and_a_closed_lid(pod, lid, moving, success) -> None:
    objects = {"coffee_pod": pod, "coffee_machine": MACHINE, "coffee_lid": MACHINE}
    seen = view(objects, AWAY, 0.08, moving, {"coffee_lid": lid})
    assert TASK.success(seen).tolist() == [success]


@pytest.mark.parametrize(
    ("height", "width", "hand", "grasp"),
    [(0.04, 0.04, 0.045, True), (0.025, 0.04, 0.03, False), (0.04, 0.06, 0.045, False), (0.04, 0.04, 0.10, False)],
)
def test_grasp_is_the_pod_held_off_the_table(height, width, hand, grasp) -> None:
    objects = {"coffee_pod": at(0.5, 0.2, height), "coffee_machine": MACHINE, "coffee_lid": MACHINE}
    seen = view(objects, at(0.5, 0.2, hand), width, joints={"coffee_lid": LID_OPEN})
    assert TASK.subtask_term_signals(seen)["grasp"].tolist() == [grasp]


TURNS = {"D0": (-30, -30), "D1": (-30, 60), "D2": (120, 210)}
REGIONS = {
    "D0": {"coffee_machine": ((0.0, 0.0), (-0.1, -0.1)), "coffee_pod": ((-0.13, -0.07), (0.17, 0.23))},
    "D1": {"coffee_machine": ((0.05, 0.15), (-0.2, -0.1)), "coffee_pod": ((-0.2, 0.05), (0.17, 0.3))},
    "D2": {"coffee_machine": ((-0.05, 0.05), (0.1, 0.2)), "coffee_pod": ((-0.2, 0.05), (-0.3, -0.17))},
}


def assert_uniform(values: Tensor, low: float, high: float) -> None:
    slack = 0.02 * (high - low) + 1e-5
    assert low - 1e-5 <= values.min() <= low + slack
    assert high - slack <= values.max() <= high + 1e-5


@pytest.mark.parametrize("variant", REGIONS)
def test_machine_and_pod_start_in_mimicgens_regions(variant: str) -> None:
    found = CoffeeTask(variant).sample_object_poses(attempt_seeds(4, np.arange(1000)))
    for name, region in REGIONS[variant].items():
        for axis, (low, high) in enumerate(region):
            assert_uniform(found[name][:, axis, 3] - TABLE_CENTRE[axis], low, high)
    machine = found["coffee_machine"]
    yaw = torch.rad2deg(torch.atan2(machine[:, 1, 0], machine[:, 0, 0]))
    assert_uniform(torch.where(yaw < -90, yaw + 360, yaw), *TURNS[variant])
    assert (found["coffee_pod"][:, 0, 0] == 1.0).all()


def test_a_lid_stays_open_until_it_is_pushed_and_falls_shut_past_the_middle() -> None:
    env = MujocoEnv(TASK, 2)
    env.reset(env.all_ids(), attempt_seeds(0, np.arange(2)))
    state = env.get_state()
    state[1, 1 + env.model.joint("coffee_lid_joint").qposadr[0]] = math.radians(60)
    env.set_state(state)
    for _ in range(40):
        env.step(torch.tensor([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0]).expand(2, 7))
    angle = env._task_view().joint_positions["coffee_lid"]
    assert angle[0].item() == pytest.approx(LID_OPEN, abs=0.05)
    assert angle[1].item() < math.radians(15)
    env.close()
