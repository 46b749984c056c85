"""Ways of the arm on env=mujoco: where they end, what they keep clear of, their speed; and they are the same again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cases import SETTINGS, above, env, put, request, scene, scenes_of

from mimicpipe.planners.arm import LOWER, SPEED_LIMITS, UPPER
from mimicpipe.planners.collision import Collisions
from mimicpipe.planners.joint_motion import NoWayError, Search

TINY = 1e-6


def search(asked):
    return Search(scenes_of(env()), asked, SETTINGS).run()


def towards_cube(seed: int):
    scene(seed)
    return request(above("cubeA", 0.09 if seed % 2 else 0.0), seed=seed)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_a_way_ends_at_the_goal_within_limits_and_clear_of_everything(seed):
    asked = towards_cube(seed)
    try:
        motion = search(asked)
    except NoWayError:
        return  # a cube beyond the arm's reach, or beside the other one; test_most_scenes_have_a_way counts them
    assert np.array_equal(motion.targets[-1], asked.goal)
    assert len(motion.targets) == len(motion.joints) == len(motion.followed)
    looked = Collisions(scenes_of(env()), "panda", asked.state, closing=False, clearance=SETTINGS.clearance)
    looked.allow(looked.start)
    looked.allow(motion.joints[-1])
    before = looked.start
    for joints in motion.joints:
        assert (joints >= LOWER - TINY).all()
        assert (joints <= UPPER + TINY).all()
        assert (np.abs(joints - before) <= SETTINGS.joint_speed * SPEED_LIMITS / SETTINGS.fps + TINY).all()
        for k in range(20):
            assert looked.free(before + (joints - before) * k / 20, 0.0)
        before = joints
    hand = looked.arm.poses(np.concatenate((looked.start[None], motion.joints)))[:, :3, 3]
    assert np.sqrt((np.diff(hand, axis=0) ** 2).sum(axis=1)).max() <= SETTINGS.max_speed / SETTINGS.fps + TINY
    # The arm that is led along the targets gets there, too, and touches nothing on the way.
    reached = looked.arm.poses(motion.followed[-1:])[0]
    assert np.abs(reached[:3, 3] - asked.goal[:3, 3]).max() < 0.01
    assert all(looked.free(joints, 0.0) for joints in motion.followed)


def test_most_scenes_have_a_way_and_it_is_the_same_again_whatever_was_planned_before():
    first = []
    for seed in range(6):
        try:
            first.append(search(towards_cube(seed)))
        except NoWayError:
            first.append(None)
    assert sum(motion is not None for motion in first) >= 4
    for seed in reversed(range(6)):
        before = first[seed]
        if before is not None:
            again = search(towards_cube(seed))
            assert np.array_equal(again.targets, before.targets)
            assert np.array_equal(again.joints, before.joints)


def wall(height: float = 0.17):
    """Cube B becomes a wall between the hand and the goal: it stands in the air where the straight way leads."""
    scene(0)
    put("cubeA", [0.62, -0.22, 0.02])
    start = env().get_robot_eef_pose("panda")[0, :3, 3].numpy()
    goal = above("cubeA", 0.05)
    between = 0.5 * (start + goal[:3, 3])
    put("cubeB", between.tolist())
    return goal


def test_a_way_leads_around_what_stands_in_the_straight_one():
    goal = wall()
    around = search(request(goal))
    put("cubeB", [0.4, 0.3, 0.025])
    straight = search(request(goal))
    assert len(around.targets) > len(straight.targets)
    assert around.checks > straight.checks


def test_other_random_numbers_are_another_way_around():
    goal = wall()
    ways = [search(request(goal, **other)).targets for other in ({}, {"seed": 6}, {"number": 1})]
    assert not any(a.shape == b.shape and np.array_equal(a, b) for a, b in ((ways[0], ways[1]), (ways[0], ways[2])))


def test_a_goal_beyond_reach_has_no_way():
    scene(0)
    goal = above("cubeA", 0.1)
    goal[0, 3] = 1.5
    with pytest.raises(NoWayError, match="the goal is out of reach"):
        search(request(goal))


def test_a_goal_in_the_table_has_no_way():
    scene(0)
    goal = above("cubeA", 0.0)
    goal[2, 3] = -0.03
    with pytest.raises(NoWayError, match=r"the way ends in a collision: .*world.* overlap by \d"):
        search(request(goal))


def test_a_start_deep_in_something_has_no_way():
    scene(0)
    hand = env().get_robot_eef_pose("panda")[0, :3, 3].tolist()
    put("cubeB", [hand[0], hand[1], hand[2] + 0.07])
    with pytest.raises(NoWayError, match=r"the way starts in a collision: .*cubeB"):
        search(request(above("cubeA", 0.1)))


def test_a_skill_that_the_arm_cannot_do_is_not_led_to():
    scene(0)
    goal = above("cubeA", 0.1)
    skill = np.repeat(goal[None].astype(np.float32), 40, axis=0)
    skill[:, 0, 3] += np.linspace(0.0, 0.8, 40)
    with pytest.raises(NoWayError, match="cannot follow the skill"):
        search(request(goal, skill=skill))
    skill = np.repeat(goal[None].astype(np.float32), 40, axis=0)
    skill[:, 2, 3] -= np.linspace(0.0, 0.1, 40)
    put("cubeB", [goal[0, 3], goal[1, 3] + 0.05, 0.025])
    with pytest.raises(NoWayError, match=r"in the way of the skill: .*cubeB"):
        search(request(goal, skill=skill, acts_on="cubeA"))
    assert len(search(request(goal, skill=skill, acts_on="cubeB")).targets)


def test_a_demo_whose_later_skill_is_out_of_reach_is_not_begun():
    scene(0)
    goal = above("cubeA", 0.1)
    later = np.repeat(above("cubeB", 0.1)[None].astype(np.float32), 10, axis=0)
    assert len(search(request(goal, later=((later,),))).targets)
    beyond = later.copy()
    beyond[:, 0, 3] += np.linspace(0.0, 0.9, 10)
    with pytest.raises(NoWayError, match="could not do a later skill of the demo"):
        search(request(goal, later=((beyond,),)))
    # One of a skill's alternatives is enough, but each skill needs one.
    assert len(search(request(goal, later=((beyond, later),))).targets)
    with pytest.raises(NoWayError, match="could not do a later skill of the demo"):
        search(request(goal, later=((later,), (beyond, beyond))))
