import asyncio
import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cases import NOTHING, env

from mimicpipe import poses
from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.planners.linear import LinearPlanner
from mimicpipe.planners.pacing import turn_between

NUMBERS = st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6)


def pose(numbers):
    values = torch.tensor(numbers)
    return poses.make_pose(values[:3], poses.matrix_from_axis_angle(values[3:])).numpy().astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(start=NUMBERS, goal=NUMBERS)
def test_straight_to_the_goal_within_the_speed_limits(start, goal):
    asked = MotionRequest("arm", 0, 0, pose(start), pose(goal), np.ones(1, np.float32), np.zeros(1), NOTHING, None)
    way = asyncio.run(LinearPlanner(env(), max_speed=0.4, max_turn=1.0, settle_steps=3).plan(asked))
    assert way.dtype == np.float32
    assert all(np.array_equal(target, asked.goal) for target in way[-4:])
    along = np.concatenate((asked.start[None], way)).astype(np.float64)
    assert np.sqrt((np.diff(along[:, :3, 3], axis=0) ** 2).sum(axis=1)).max() <= 0.4 / 20 + 1e-5
    turns = [turn_between(a[:3, :3], b[:3, :3]) for a, b in itertools.pairwise(along)]
    assert max(turns) <= 1.0 / 20 + 2e-3
    # No detour: distance to the goal falls all the way.
    left = np.sqrt(((along[:, :3, 3] - along[-1, :3, 3]) ** 2).sum(axis=1))
    assert (np.diff(left) <= 1e-6).all()
