"""The scene that MuJoCo-Warp gets: cylinders with flat sides, and all else as env=mujoco has it."""

import mujoco
import numpy as np

from mimicpipe.envs.mujoco.scene import build_model
from mimicpipe.envs.tasks.coffee import POD_HALF_HEIGHT, POD_RADIUS, CoffeeTask

SIZE = (64, 64)


def test_prisms_replace_the_cylinders_that_collide_and_nothing_else() -> None:
    round_, flat = build_model(CoffeeTask(), SIZE), build_model(CoffeeTask(), SIZE, prisms=True)
    kinds = [{m.geom(index).name: int(m.geom_type[index]) for index in range(m.ngeom)} for m in (round_, flat)]
    assert {name for name, kind in kinds[0].items() if kinds[1][name] != kind} == {"coffee_pod"}
    assert kinds[1]["coffee_pod"] == mujoco.mjtGeom.mjGEOM_MESH.value
    assert set(kinds[1]) - set(kinds[0]) == {f"coffee_pod_foot_{index}" for index in range(8)}
    np.testing.assert_allclose(flat.body_mass, round_.body_mass)
    np.testing.assert_allclose(flat.body_inertia, round_.body_inertia, rtol=0.02)
    np.testing.assert_allclose(flat.qpos0, round_.qpos0, atol=1e-12)


def test_a_prism_with_its_feet_fills_its_cylinder() -> None:
    model = build_model(CoffeeTask(), SIZE, prisms=True)
    points = model.mesh_vert
    np.testing.assert_allclose(np.abs(points[:, 2]), POD_HALF_HEIGHT, atol=4e-4)
    np.testing.assert_allclose(np.hypot(points[:, 0], points[:, 1]), POD_RADIUS, rtol=1e-6)
    assert len(points) == 64
    feet = [model.geom(f"coffee_pod_foot_{index}") for index in range(8)]
    ends = [foot.pos[2] + np.sign(foot.pos[2]) * foot.size[0] for foot in feet]
    np.testing.assert_allclose(ends, [POD_HALF_HEIGHT] * 4 + [-POD_HALF_HEIGHT] * 4)
    assert all(np.hypot(*foot.pos[:2]) + foot.size[0] < POD_RADIUS for foot in feet)
    assert {(int(foot.contype[0]), int(foot.conaffinity[0])) for foot in feet} == {
        (int(model.geom("coffee_pod").contype[0]), int(model.geom("coffee_pod").conaffinity[0]))
    }
