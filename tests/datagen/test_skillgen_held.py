"""What a hand holds is led along what was shown, also where it lies otherwise in the hand."""

import asyncio

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_poses

from mimicpipe import poses
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.skillgen import SkillGenerator
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.planners.linear import LinearPlanner

GRASP, CARRY, LENGTH = 12, 20, 30
"""Steps at which the cube is held, at which it is near the cup, and of the demo."""


def demo(*, is_carried: bool = True) -> SourceDemo:
    """The hand goes to the cube, takes it and carries it to the cup; or it goes to the cup without it."""
    generator = np.random.default_rng(3)
    cube, cup, start = (random_poses(generator, 1) for _ in range(3))
    ends = (start, cube, poses.compose(cup, random_poses(generator, 1, spread=0.1)))
    hand = [poses.interpolate(ends[0], ends[1], torch.tensor([t / GRASP])) for t in range(GRASP + 1)]
    more = LENGTH - GRASP
    hand += [poses.interpolate(ends[1], ends[2], torch.tensor([t / more])) for t in range(1, more)]
    path, steps = torch.cat(hand), torch.arange(LENGTH)
    info = DatagenInfo(
        eef_pose={"arm": path},
        object_poses={
            "cube": torch.cat((cube.expand(GRASP, 4, 4), path[GRASP:])) if is_carried else cube.expand(LENGTH, 4, 4),
            "cup": cup.expand(LENGTH, 4, 4),
        },
        subtask_term_signals={"grasp": steps >= GRASP},
        target_eef_pose={"arm": torch.cat((path[1:], path[-1:]))},
        gripper_action={"arm": torch.where(steps >= GRASP - 1, -1.0, 1.0)[:, None]},
        subtask_start_signals={"near": steps >= 6, "late": steps >= CARRY},
    )
    return SourceDemo("demo", info, torch.zeros(LENGTH, 7))


def cube_from_cup(*, lead_held: bool, is_carried: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the cube ends in the cup's frame, and where the hand does, with a grasp that is off by noise."""
    env = ArmEnv(1, ("arm",), ("cube", "cup"))
    subtasks = [
        SubTaskConfig("cube", "grasp", subtask_start_signal="near", action_noise=0.004),
        SubTaskConfig("cup", subtask_start_signal="late", action_noise=0.0),
    ]
    pool = DataGenInfoPool(env, {"arm": subtasks})
    pool.add_demos([demo(is_carried=is_carried)])
    outcomes: list[Outcome] = []
    state = RunState(env, BudgetLimits(1, max_attempts=1), RunOptions(stall_timeout_s=20), on_outcome=outcomes.append)
    asyncio.run(generate(state, SkillGenerator(env, pool, LinearPlanner(env, 2.0, 9.0), lead_held=lead_held)))
    assert outcomes[0].reason in ("success", "not_successful")
    into_cup = poses.invert(env.get_object_poses()["cup"])
    return poses.compose(into_cup, env.get_object_poses()["cube"]), poses.compose(into_cup, env.eefs[0])


def shown(name: str) -> torch.Tensor:
    info = demo().info
    body = info.target_eef_pose["arm"] if name == "hand" else info.object_poses[name]
    return poses.compose(poses.invert(info.object_poses["cup"][-1:]), body[-1:])


def test_the_object_in_the_hand_ends_where_it_was_shown() -> None:
    cube, hand = cube_from_cup(lead_held=True)
    torch.testing.assert_close(cube, shown("cube"), rtol=0, atol=1e-4)
    assert float((hand - shown("hand")).abs().max()) > 2e-3


def test_without_it_the_hand_does() -> None:
    cube, hand = cube_from_cup(lead_held=False)
    torch.testing.assert_close(hand, shown("hand"), rtol=0, atol=1e-4)
    assert float((cube - shown("cube")).abs().max()) > 2e-3


@pytest.mark.parametrize("lead_held", [True, False])
def test_a_hand_that_did_not_carry_it_in_the_demo_is_led_itself(lead_held: bool) -> None:
    _, hand = cube_from_cup(lead_held=lead_held, is_carried=False)
    torch.testing.assert_close(hand, shown("hand"), rtol=0, atol=1e-4)
