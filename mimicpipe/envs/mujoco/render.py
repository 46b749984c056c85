"""Off-screen camera frames of any slot, from its state at the time of the call."""

import importlib
import os
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from mimicpipe.errors import ConfigError

_NO_GL = (
    "env.cameras={cameras}: no OpenGL context ({backend}: {error}); on Debian or Ubuntu `apt-get install libegl1 "
    "libegl-mesa0 libgl1-mesa-dri` gives software rendering, or run with env.cameras=[]"
)


class CameraRenderer:
    """Renders named cameras of one model.

    MuJoCo's own `Renderer` picks its GL library when `mujoco` is first imported; this one picks it when it is made, so
    that a run without cameras needs no GL at all. `MUJOCO_GL` (egl, osmesa, glfw) chooses it; egl if unset.

    Raises:
        ConfigError: no GL context can be had; says which packages give one.
    """

    def __init__(self, model: mujoco.MjModel, cameras: Sequence[str], image_size: tuple[int, int]) -> None:
        self._model = model
        self._cameras = tuple(cameras)
        self._height, self._width = image_size
        self._data = mujoco.MjData(model)
        self._scene = mujoco.MjvScene(model, maxgeom=200)
        # Shadows and reflections take most of a software renderer's time.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._option = mujoco.MjvOption()
        self._rect = mujoco.MjrRect(0, 0, self._width, self._height)
        self._gl: Any
        self._context: mujoco.MjrContext | None
        self._gl, self._context = self._open()

    def render(
        self, qpos: npt.NDArray[np.float64], fixtures: npt.NDArray[np.float64]
    ) -> dict[str, npt.NDArray[np.uint8]]:
        """Frames {camera: (K, H, W, 3)} uint8 of K states' positions (K, nq) and fixtures (K, 7 F)."""
        if self._context is None:
            raise RuntimeError("render after close")
        self._gl.make_current()
        frames: dict[str, npt.NDArray[np.uint8]] = {
            name: np.empty((len(qpos), self._height, self._width, 3), np.uint8) for name in self._cameras
        }
        buffer = np.empty((self._height, self._width, 3), np.uint8)
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        split = 3 * self._model.nmocap
        for row, positions in enumerate(qpos):
            self._data.qpos[:] = positions
            self._data.mocap_pos[:] = fixtures[row, :split].reshape(-1, 3)
            self._data.mocap_quat[:] = fixtures[row, split:].reshape(-1, 4)
            mujoco.mj_kinematics(self._model, self._data)
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_camlight(self._model, self._data)
            for name in self._cameras:
                camera.fixedcamid = self._model.camera(name).id
                mujoco.mjv_updateScene(self._model, self._data, self._option, None, camera,
                                       mujoco.mjtCatBit.mjCAT_ALL.value, self._scene)  # fmt: skip
                mujoco.mjr_render(self._rect, self._scene, self._context)
                mujoco.mjr_readPixels(buffer, None, self._rect, self._context)
                frames[name][row] = buffer[::-1]  # OpenGL's first row is the lowest
        return frames

    def _open(self) -> tuple[Any, mujoco.MjrContext]:
        """GL context and MuJoCo's rendering context, current in the calling thread."""
        backend = os.environ.get("MUJOCO_GL") or "egl"
        try:
            kind = importlib.import_module(f"mujoco.{backend}").GLContext
            gl = kind.__new__(kind)
            gl._context = None  # a GLContext that fails half way trips over the missing attribute when it is collected
            gl.__init__(self._width, self._height)
            gl.make_current()
            context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        # Each library fails in its own way: ImportError, AttributeError of a missing symbol, EGLError, FatalError.
        except Exception as error:
            line = " ".join(f"{type(error).__name__} {error}".split())
            message = _NO_GL.format(cameras=list(self._cameras), backend=backend, error=line)
            raise ConfigError(message) from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        return gl, context

    def close(self) -> None:
        """Free the GL context; safe to call twice."""
        if self._context is None:
            return
        self._gl.make_current()
        self._context.free()
        self._gl.free()
        self._gl, self._context = None, None


class StateRenderer:
    """Renders one camera from complete states, for people to look at.

    Args:
        model: its off-screen buffer is made as large as the frames.
        camera: name.
        image_size: (height, width), pixels.

    Raises:
        ConfigError: no GL context can be had.
    """

    def __init__(self, model: mujoco.MjModel, camera: str, image_size: tuple[int, int]) -> None:
        buffer = model.vis.global_
        buffer.offheight, buffer.offwidth = max(buffer.offheight, image_size[0]), max(buffer.offwidth, image_size[1])
        self._camera = camera
        self._positions, self._fixtures = slice(1, 1 + model.nq), slice(1 + model.nq + model.nv, None)
        self._renderer = CameraRenderer(model, (camera,), image_size)

    def render(self, states: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
        """Frames (K, H, W, 3) uint8 of states (K, S + 7 F): time, qpos, qvel, fixtures."""
        return self._renderer.render(states[:, self._positions], states[:, self._fixtures])[self._camera]

    def close(self) -> None:
        """Free the GL context; safe to call twice."""
        self._renderer.close()
