"""Inverse kinematics: the linear algebra, the joint limits, and targets that are reached in the simulator."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.envs.mujoco import ik, ik_kernels, kinematics
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco.panda import JOINT_LOWER, JOINT_UPPER
from mimicpipe.envs.tasks.pick import PickTask

SEEDS = st.integers(0, 2**32 - 1)
BATCH = 48


def near_rest(seed: int, count: int, spread: float) -> kinematics.Array:
    q = ik.REST_POSTURE[:, None] + np.random.default_rng(seed).uniform(-spread, spread, (7, count))
    return np.clip(q, JOINT_LOWER[:, None], JOINT_UPPER[:, None])


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_damped_system_is_solved(seed: int) -> None:
    jac = kinematics.jacobian(kinematics.forward(near_rest(seed, 5, 1.0)))
    error = np.random.default_rng(seed).normal(size=(6, 5))
    step, system, no_wish = np.empty(7), np.empty((6, 7)), np.zeros(7)
    for slot in range(5):
        part = np.ascontiguousarray(jac[:, :, slot])
        ik_kernels.damped_step(part, error[:, slot].copy(), no_wish, ik.DAMPING_SQ, np.inf, step, system)
        expected = part.T @ np.linalg.solve(part @ part.T + ik.DAMPING_SQ * np.eye(6), error[:, slot])
        np.testing.assert_allclose(step, expected, rtol=1e-8, atol=1e-9)


def joint_targets(q: kinematics.Array, motion: kinematics.Array) -> kinematics.Array:
    out = np.empty((q.shape[1], 8))
    ik.joint_targets(q, np.arange(q.shape[1]), kinematics.forward(q), motion, out)
    return out[:, :7].T.copy()


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, count=st.integers(1, 70), data=st.data())
def test_bits_do_not_depend_on_the_batch(seed: int, count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    rng = np.random.default_rng(seed)
    q = near_rest(seed, count, 3.0)  # many joints at their limits
    motion = rng.normal(size=(6, count)) * 0.2
    whole = joint_targets(q, motion)
    part = np.ascontiguousarray(q[:, first:last])
    alone = joint_targets(part, np.ascontiguousarray(motion[:, first:last]))
    np.testing.assert_array_equal(whole[:, first:last], alone)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS)
def test_targets_stay_within_the_joint_limits(seed: int) -> None:
    q = near_rest(seed, 40, 3.0)
    target = joint_targets(q, np.random.default_rng(seed).normal(size=(6, 40)))
    assert (target > JOINT_LOWER[:, None]).all()
    assert (target < JOINT_UPPER[:, None]).all()


def test_a_joint_at_its_limit_leaves_the_motion_to_the_others() -> None:
    """Turning on about the vertical with the wrist at its stop."""
    q = ik.REST_POSTURE[:, None].copy()
    q[6] = JOINT_UPPER[6] - 0.01
    start = kinematics.forward(q)
    turn = kinematics.rotation_from_vector(np.array([[0.0], [0.0], [-0.1]]))
    goal = kinematics.compose_rotations(turn, start.rot)
    for _ in range(10):
        arm = kinematics.forward(q)
        relative = kinematics.compose_rotations(goal, arm.rot.transpose(1, 0, 2))
        motion = np.concatenate([start.pos - arm.pos, kinematics.vector_from_rotation(relative)])
        q = joint_targets(q, motion)
        assert q[6, 0] < JOINT_UPPER[6]
    assert np.abs(motion).max() < 1e-3


@pytest.mark.parametrize("control", ["ik_rel", "ik_abs"])
@settings(deadline=None, max_examples=2)
@given(seed=SEEDS)
def test_at_rest_the_eef_is_at_any_reachable_target(control: str, seed: int) -> None:
    """From far away, within 100 control steps: 1 mm and 0.5 degrees."""
    goal = kinematics.forward(near_rest(seed, 4 * BATCH, 0.6))
    # Reachable by construction; those with the hand or the wrist in the table are left out.
    free = np.flatnonzero((goal.pos[2] > 0.15) & (goal.origins[4, 2] > 0.2))[:BATCH]
    pos, rot = goal.pos[:, free], goal.rot[:, :, free]
    env = MujocoEnv(PickTask(), len(free), control=control)
    state = env.get_state()
    state[:, 10] = -0.5  # the cube, out of the way
    env.set_state(state)
    target = torch.eye(4).repeat(len(free), 1, 1)
    target[:, :3, :3] = torch.from_numpy(rot.transpose(2, 0, 1))
    target[:, :3, 3] = torch.from_numpy(pos.T)
    gripper = torch.ones(len(free), 1)
    for _ in range(100):
        env.step(env.target_eef_pose_to_action({"panda": target}, {"panda": gripper}))
    reached = env.get_robot_eef_pose("panda").double().numpy()
    env.close()
    away = np.linalg.norm(reached[:, :3, 3] - pos.T, axis=1)
    relative = kinematics.compose_rotations(
        np.ascontiguousarray(reached[:, :3, :3].transpose(1, 2, 0)), rot.transpose(1, 0, 2)
    )
    angle = np.linalg.norm(kinematics.vector_from_rotation(relative), axis=0)
    assert away.max() < 1e-3
    assert np.degrees(angle.max()) < 0.5
