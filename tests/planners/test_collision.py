"""Collisions on the planner's copy of a scene, against MuJoCo's distances in the env's own."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cases import above, env, put, scene, scenes_of

from mimicpipe.planners.arm import LOWER, UPPER
from mimicpipe.planners.collision import Collisions

KEEP = 0.005


def collisions(*, closing: bool = False) -> Collisions:
    return Collisions(scenes_of(env()), "panda", env().get_state()[0].numpy(), closing=closing, clearance=KEEP)


def reach(looked: Collisions, goal) -> np.ndarray:
    posture = looked.arm.reach(looked.start, goal)
    assert posture is not None
    return posture


def body_of(model, geom: int) -> str:
    return model.body(model.geom_bodyid[geom]).name


def links(pairs, model) -> set[frozenset[str]]:
    return {frozenset(body_of(model, geom) for geom in pair) for pair in pairs}


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 100), draws=st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7))
def test_what_is_near_is_what_mujoco_measures(seed, draws):
    scene(seed)
    model, found = env().model, None
    joints = LOWER + (UPPER - LOWER) * np.array(draws)
    looked = collisions()
    found = looked.near(joints)
    data = mujoco.MjData(model)
    data.qpos[:] = env().get_state()[0].numpy()[1 : 1 + model.nq]
    data.qpos[:7] = joints
    mujoco.mj_kinematics(model, data)
    hand = [g for g in range(model.ngeom) if body_of(model, g) in ("panda_hand", "panda_leftfinger", "panda_link5")]
    scenery = [g for g in range(model.ngeom) if body_of(model, g) in ("cubeA", "cubeB")]
    for a in hand:
        for b in scenery:
            distance = mujoco.mj_geomDistance(model, data, a, b, 1.0, None)
            seen = found.get((min(a, b), max(a, b)), found.get((max(a, b), min(a, b))))
            if abs(distance - KEEP) > 1e-3:
                assert (seen is not None) == (distance < KEEP), (body_of(model, a), body_of(model, b), distance)
            if seen is not None and distance > 0.0:
                assert seen == pytest.approx(distance, abs=5e-4)


def test_the_rest_posture_is_free_and_a_hand_in_the_table_is_not():
    scene(0)
    looked = collisions()
    assert looked.free(looked.start)
    down = above("cubeA", 0.3)
    down[2, 3] = -0.05
    inside = reach(looked, down)
    assert not looked.free(inside)
    assert "world" in (looked.overlap(inside, 0.01) or "")


def grasped(height: float = 0.2):
    """The hand in the air with cube A between its fingers, as a state of the env."""
    scene(0)
    state = env().get_state()
    state[0, 8:10] = 0.02  # the fingers touch a 4 cm cube
    env().set_state(state)
    pose = env().get_robot_eef_pose("panda")[0]
    put("cubeA", pose[:3, 3].tolist())
    state = env().get_state()
    column = 1 + int(env().model.joint("cubeA_joint").qposadr[0])
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, pose[:3, :3].double().numpy().flatten())
    state[0, column + 3 : column + 7] = state.new_tensor(quat)
    env().set_state(state)


def test_an_object_in_the_hand_moves_with_it_and_is_looked_at():
    grasped()
    looked, empty = collisions(closing=True), collisions(closing=False)
    assert looked.held == "cubeA"
    assert empty.held is None
    assert looked.free(looked.start)
    # Open fingers over the table, where the cube between them reaches into it.
    goal = above("cubeA", 0.0)
    goal[2, 3] = 0.013
    low = reach(looked, goal)
    assert frozenset(("cubeA", "world")) in links(looked.near(low), env().model)
    assert not looked.free(low)
    # The cube touches the fingers all the time, and that is no collision.
    assert not any("panda_leftfinger" in pair and "cubeA" in pair for pair in links(looked.near(low), env().model))


def test_what_is_near_at_the_start_may_be_so_around_it_only():
    scene(0)
    state = env().get_state()
    state[0, 8:10] = 0.0
    env().set_state(state)
    hand = env().get_robot_eef_pose("panda")[0, :3, 3].tolist()
    put("cubeA", [hand[0], hand[1], hand[2] - 0.0305])  # 1 mm under the closed fingers
    looked = collisions()
    assert not looked.free(looked.start)
    looked.allow(looked.start)
    assert looked.free(looked.start)
    goal = above("cubeB", 0.3)
    away = reach(looked, goal)
    put("cubeA", [*(goal[:2, 3]), goal[2, 3] - 0.0305])
    moved = collisions()
    moved.allow(looked.start)
    assert not moved.free(away)
