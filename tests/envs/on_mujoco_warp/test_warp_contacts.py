"""Contacts of boxes that tip over an edge are those that MuJoCo finds; MuJoCo-Warp alone adds some that cannot be."""

import mujoco
import numpy as np
import pytest

pytest.importorskip("mujoco_warp")

import mujoco_warp
import warp as wp

from mimicpipe.envs.mujoco_warp.contacts import leave_out_impossible
from mimicpipe.envs.mujoco_warp.physics import device_model

pytestmark = [pytest.mark.warp, pytest.mark.timeout(600)]

WORLDS = 64
DEPTH = 2e-4
PLACE = np.array([0.6, -0.1, 0.17])


def boxes(lower: tuple[float, ...], upper: tuple[float, ...]) -> mujoco.MjModel:
    """A box that is free, above one that is turned and stays where it is."""
    spec = mujoco.MjSpec()
    below = spec.worldbody.add_body(pos=PLACE, quat=[np.cos(0.26), 0.0, 0.0, -np.sin(0.26)])
    below.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=lower)
    above = spec.worldbody.add_body()
    above.add_freejoint()
    above.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=upper)
    return spec.compile()


def tipped(lower: tuple[float, ...], upper: tuple[float, ...], degrees: float) -> np.ndarray:
    """(W, 7) poses of the upper box, tilted about an edge of its own, which is `DEPTH` inside of the lower one."""
    rng = np.random.default_rng(0)
    poses = np.zeros((WORLDS, 7))
    for pose in poses:
        yaw, tilt = rng.uniform(-np.pi, np.pi), np.radians(degrees) * rng.uniform()
        turned, leaning = [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)], [np.cos(tilt / 2), np.sin(tilt / 2), 0.0, 0.0]
        mujoco.mju_mulQuat(pose[3:], np.array(turned), np.array(leaning))
        lowest = upper[1] * np.sin(tilt) + upper[2] * np.cos(tilt)
        pose[:3] = PLACE + np.array([*rng.uniform(-0.3, 0.3, 2) * lower[0], lower[2] + lowest - DEPTH])
    return poses


@pytest.mark.parametrize("degrees", [0.3, 5.0])
@pytest.mark.parametrize(("lower", "upper"), [((0.03, 0.03, 0.004), (0.02, 0.008, 0.02)), ((0.025,) * 3, (0.02,) * 3)])
def test_contacts_of_boxes_are_those_of_mujoco(lower, upper, degrees) -> None:
    model, poses = boxes(lower, upper), tipped(lower, upper, degrees)
    with wp.ScopedDevice("cpu"):
        on_device, state = device_model(model), mujoco_warp.make_data(model, nworld=WORLDS, nconmax=16, njmax=64)
        on_device.callback.contactfilter = leave_out_impossible
        state.qpos.assign(poses.astype(np.float32))
        mujoco_warp.kinematics(on_device, state)
        mujoco_warp.com_pos(on_device, state)
        mujoco_warp.collision(on_device, state)
    count = int(state.nacon.numpy()[0])
    contact = state.contact
    real = contact.type.numpy()[:count] != 0
    depths, worlds = contact.dist.numpy()[:count][real], contact.worldid.numpy()[:count][real]
    data = mujoco.MjData(model)
    for world, pose in enumerate(poses):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        expected = sorted(contact.dist for contact in data.contact[: data.ncon])
        np.testing.assert_allclose(sorted(depths[worlds == world]), expected, atol=1e-5)
    if degrees > 1.0 or lower[2] < upper[2] / 2:
        assert count > int(real.sum()), "none had to be left out, so nothing was tested"
