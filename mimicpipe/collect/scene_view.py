"""Pictures of an env of one slot, for the person who steers it."""

import math
from collections.abc import Sequence
from typing import Protocol

import mujoco
import numpy as np
import numpy.typing as npt

from mimicpipe.collect.controls import View
from mimicpipe.envs.base import FrameRenderer, MimicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.mujoco.render import CameraRenderer
from mimicpipe.envs.mujoco.scene import FRONT
from mimicpipe.errors import ConfigError

FRAME = (480, 640)
"""Height and width, pixels."""
_INSET = 150
"""Side of the square picture of a wrist camera, pixels."""
_EDGE = 2
_LOOK_HEIGHT = 0.12
"""The middle of the picture is this far above the table, metres."""
_PLUMB_ACTIVE, _PLUMB_OTHER = (0.05, 0.35, 0.85, 0.9), (0.45, 0.45, 0.45, 0.7)
_PLUMB_RADIUS = 0.0015
_FOOT_RADIUS = 0.008

Frame = npt.NDArray[np.uint8]


class Picture(Protocol):
    """Draws an env of one slot."""

    first_view: View

    def draw(self, env: MimicEnv, view: View, active: Sequence[str]) -> Frame:
        """The current state, (H, W, 3); `active` arms are marked."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


def picture_of(env: MimicEnv) -> Picture:
    """What draws an env: with a camera that can be moved for env=mujoco, else the env's own renderer.

    Raises:
        ConfigError: the env cannot be drawn, or not on this machine.
    """
    if isinstance(env, MujocoEnv):
        try:
            return SceneView(env)
        except ConfigError as error:
            raise ConfigError(f"collect shows the scene, which this machine cannot draw: {error}") from error
    renderer = env.frame_renderer(FRAME)
    if renderer is None:
        raise ConfigError(f"env: {type(env).__name__} cannot be drawn, so nobody could see what to do; use env=mujoco")
    return FixedView(renderer)


class FixedView:
    """The frames of an env's own renderer, which has one camera."""

    first_view = View(180.0, -34.0)

    def __init__(self, renderer: FrameRenderer) -> None:
        self._renderer = renderer

    def draw(self, env: MimicEnv, view: View, active: Sequence[str]) -> Frame:
        """The current state; the view stays as it is."""
        del view, active
        return self._renderer.render(env.get_state().cpu().numpy())[0]

    def close(self) -> None:
        """Free what the renderer holds."""
        self._renderer.close()


class SceneView(CameraRenderer):
    """A camera that moves around the table, the wrist cameras in the lower corners, and a plumb line below each hand.

    The plumb line ends where the hand would touch the table: a picture has no depth, and shadows take a software
    renderer most of its time.

    Args:
        env: whose model is drawn; its off-screen buffer is made as large as the frames.

    Raises:
        ConfigError: no GL context can be had.
    """

    def __init__(self, env: MujocoEnv) -> None:
        model = env.model
        buffer = model.vis.global_
        buffer.offheight, buffer.offwidth = max(buffer.offheight, FRAME[0]), max(buffer.offwidth, FRAME[1])
        front = model.camera(FRONT)
        buffer.fovy = float(front.fovy[0])
        super().__init__(model, (FRONT,), FRAME)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        self.first_view = self._look_as(front.pos, front.quat)
        self._wrists = [arm.prefix + "wrist" for arm in env.arms]

    def _look_as(self, pos: npt.NDArray[np.float64], quat: npt.NDArray[np.float64]) -> View:
        """Point the free camera as a fixed one, and remember the point on its axis as what it turns about."""
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, quat)
        forward = -matrix.reshape(3, 3)[:, 2]
        self._distance = (pos[2] - _LOOK_HEIGHT) / -forward[2]
        self._camera.lookat[:] = pos + self._distance * forward
        return View(math.degrees(math.atan2(forward[1], forward[0])), math.degrees(math.asin(forward[2])))

    def draw(self, env: MimicEnv, view: View, active: Sequence[str]) -> Frame:
        """The current state of the env that the view was made for; see `Picture`."""
        if self._context is None:
            raise RuntimeError("draw after close")
        self._gl.make_current()
        self._set_state(env.get_state()[0].cpu().numpy())
        self._camera.azimuth, self._camera.elevation = view.azimuth, view.elevation
        self._camera.distance = self._distance / view.zoom
        self._update(self._camera)
        for name in env.eef_names:
            pose = env.get_robot_eef_pose(name)[0].cpu().numpy().astype(np.float64)
            self._add_plumb_line(pose[:3, 3], _PLUMB_ACTIVE if name in active else _PLUMB_OTHER)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        fixed = mujoco.MjvCamera()
        fixed.type = mujoco.mjtCamera.mjCAMERA_FIXED
        for place, name in enumerate(self._wrists):
            fixed.fixedcamid = self._model.camera(name).id
            self._update(fixed)
            # The right arm stands at the right where one faces the table with it, at the left where one faces it.
            left = 0 if place % 2 else self._width - _INSET
            frame = mujoco.MjrRect(left, 0, _INSET, _INSET)
            mujoco.mjr_rectangle(frame, 1.0, 1.0, 1.0, 1.0)
            inner = mujoco.MjrRect(left + _EDGE, _EDGE, _INSET - 2 * _EDGE, _INSET - 2 * _EDGE)
            mujoco.mjr_render(inner, self._scene, self._context)
        pixels = np.empty((self._height, self._width, 3), np.uint8)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._context)
        return pixels[::-1]  # OpenGL's first row is the lowest

    def _set_state(self, state: npt.NDArray[np.float64]) -> None:
        model, data = self._model, self._data
        fixtures = state[1 + model.nq + model.nv :]
        split = 3 * model.nmocap
        data.qpos[:] = state[1 : 1 + model.nq]
        data.mocap_pos[:] = fixtures[:split].reshape(-1, 3)
        data.mocap_quat[:] = fixtures[split:].reshape(-1, 4)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)

    def _update(self, camera: mujoco.MjvCamera) -> None:
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, self._data, self._option, None, camera, everything, self._scene)

    def _add_plumb_line(self, top: npt.NDArray[np.float64], rgba: tuple[float, float, float, float]) -> None:
        foot = np.array([top[0], top[1], 0.0])
        if not np.isfinite(top).all() or top[2] <= _FOOT_RADIUS:
            return
        for kind, radius, end in (
            (mujoco.mjtGeom.mjGEOM_CAPSULE, _PLUMB_RADIUS, top),
            (mujoco.mjtGeom.mjGEOM_CYLINDER, _FOOT_RADIUS, foot + np.array([0.0, 0.0, 0.001])),
        ):
            geom = self._scene.geoms[self._scene.ngeom]
            mujoco.mjv_initGeom(
                geom, kind.value, np.zeros(3), np.zeros(3), np.eye(3).flatten(), np.array(rgba, np.float32)
            )
            mujoco.mjv_connector(geom, kind.value, radius, foot, end)
            self._scene.ngeom += 1
