"""The scene that MuJoCo-Warp gets: cylinders with flat sides, and all else as env=mujoco has it."""

import mujoco
import numpy as np

from mimicpipe.envs.mujoco.scene import build_model
from mimicpipe.envs.tasks.coffee import POD_HALF_HEIGHT, POD_RADIUS, CoffeeTask

SIZE = (64, 64)


def test_prisms_replace_the_cylinders_that_collide_and_nothing_else() -> None:
    round_, flat = build_model(CoffeeTask(), SIZE), build_model(CoffeeTask(), SIZE, prisms=True)
    changed = np.flatnonzero(round_.geom_type != flat.geom_type)
    assert [round_.geom(index).name for index in changed] == ["coffee_pod"]
    assert flat.geom_type[changed].tolist() == [mujoco.mjtGeom.mjGEOM_MESH.value]
    np.testing.assert_allclose(flat.body_mass, round_.body_mass)
    np.testing.assert_allclose(flat.body_inertia, round_.body_inertia, rtol=0.01)
    np.testing.assert_allclose(flat.qpos0, round_.qpos0, atol=1e-12)


def test_a_prism_fills_its_cylinder() -> None:
    model = build_model(CoffeeTask(), SIZE, prisms=True)
    points = model.mesh_vert
    height = np.abs(points[:, 2])
    np.testing.assert_allclose(height, POD_HALF_HEIGHT, rtol=1e-6)
    np.testing.assert_allclose(np.hypot(points[:, 0], points[:, 1]), POD_RADIUS, rtol=1e-6)
    assert len(points) == 64
