"""The arm's own kinematics against MuJoCo's, and equal bits in every batch."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.envs.mujoco import kinematics
from mimicpipe.envs.mujoco.panda import JOINT_LOWER, JOINT_UPPER
from mimicpipe.envs.mujoco.scene import build_model
from mimicpipe.envs.tasks.pick import PickTask

SEEDS = st.integers(0, 2**32 - 1)


def random_joints(seed: int, count: int) -> kinematics.Array:
    share = np.random.default_rng(seed).random((7, count))
    return JOINT_LOWER[:, None] + (JOINT_UPPER - JOINT_LOWER)[:, None] * share


def random_vectors(seed: int, count: int, largest: float) -> kinematics.Array:
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=(3, count))
    return axis / np.linalg.norm(axis, axis=0) * rng.uniform(0.0, largest, count)


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return build_model(PickTask(), (64, 64))


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_forward_and_jacobian_are_mujocos(model: mujoco.MjModel, seed: int) -> None:
    q = random_joints(seed, 4)
    arm = kinematics.forward(q)
    jac = kinematics.jacobian(arm)
    data = mujoco.MjData(model)
    site = data.site("panda_grasp")
    linear, angular = np.empty((3, model.nv)), np.empty((3, model.nv))
    for slot in range(4):
        data.qpos[:7] = q[:, slot]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, linear, angular, site.id)
        np.testing.assert_allclose(arm.pos[:, slot], site.xpos, rtol=0, atol=1e-9)
        np.testing.assert_allclose(arm.rot[:, :, slot], site.xmat.reshape(3, 3), rtol=0, atol=1e-9)
        np.testing.assert_allclose(jac[:3, :, slot], linear[:, :7], rtol=0, atol=1e-9)
        np.testing.assert_allclose(jac[3:, :, slot], angular[:, :7], rtol=0, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, count=st.integers(1, 70), data=st.data())
def test_bits_do_not_depend_on_the_batch(seed: int, count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    q, vectors = random_joints(seed, count), random_vectors(seed, count, np.pi)
    part, part_vectors = np.ascontiguousarray(q[:, first:last]), np.ascontiguousarray(vectors[:, first:last])
    whole, alone = kinematics.forward(q), kinematics.forward(part)
    pairs = [
        (whole.pos, alone.pos),
        (whole.rot, alone.rot),
        (whole.select(np.arange(first, last)).rot, alone.rot),
        (kinematics.jacobian(whole), kinematics.jacobian(alone)),
        (kinematics.quat_from_rotation(whole.rot), kinematics.quat_from_rotation(alone.rot)),
        (kinematics.vector_from_rotation(whole.rot), kinematics.vector_from_rotation(alone.rot)),
        (kinematics.rotation_from_vector(vectors), kinematics.rotation_from_vector(part_vectors)),
    ]
    for index, (in_batch, by_itself) in enumerate(pairs):
        if in_batch.shape != by_itself.shape:
            in_batch = in_batch[..., first:last]
        np.testing.assert_array_equal(in_batch, by_itself, err_msg=str(index))


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, largest=st.sampled_from([1e-9, 1e-4, 1.0, 3.1, np.pi - 1e-9]))
def test_rotation_vectors_and_quaternions_round_trip(seed: int, largest: float) -> None:
    vectors = random_vectors(seed, 50, largest)
    rot = kinematics.rotation_from_vector(vectors)
    np.testing.assert_allclose(kinematics.vector_from_rotation(rot), vectors, rtol=1e-6, atol=1e-12)
    quat = kinematics.quat_from_rotation(rot)
    assert (quat[0] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(quat, axis=0), 1.0, atol=1e-14)
    np.testing.assert_allclose(kinematics.rotation_from_quat(-3.0 * quat), rot, atol=1e-14)


def test_half_turns_keep_their_axis() -> None:
    axes = np.eye(3)
    rot = kinematics.rotation_from_vector(np.pi * axes)
    np.testing.assert_allclose(np.abs(kinematics.vector_from_rotation(rot)), np.pi * axes, atol=1e-7)
