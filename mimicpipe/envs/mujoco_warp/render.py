"""Camera frames of all slots in one call, by MuJoCo-Warp's ray caster, on the device.

It has data of its own, so that a step in progress is not disturbed. It draws all slots whatever is asked for, as its
arrays have one size. Light and colours are MuJoCo's, without shadows and reflections; edges are not smoothed.
"""

import copy
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco_warp
import numpy as np
import torch
import warp as wp
from torch import Tensor

from mimicpipe.envs.mujoco_warp import view_kernels
from mimicpipe.envs.mujoco_warp.physics import device_model

_HIDDEN_GROUP = 5
"""Group of geoms that are not drawn."""


class BatchRenderer:
    """Draws N slots.

    Args:
        model: the scene of every slot.
        cameras: names.
        image_size: (height, width), pixels.
        num_envs: N.
        device: of states and frames.
        spare: (1, S + 7 F) float32, a sane state, which is drawn in the place of one that has diverged.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        cameras: Sequence[str],
        image_size: tuple[int, int],
        num_envs: int,
        device: torch.device,
        spare: wp.array,
    ) -> None:
        self._device = wp.device_from_torch(device)
        self._spare = spare
        self._num_envs = num_envs
        drawn = copy.copy(model)
        # What cannot be seen is left out, as the ray caster knows no transparency.
        drawn.geom_group[np.flatnonzero(drawn.geom_rgba[:, 3] == 0.0)] = _HIDDEN_GROUP
        wanted = [drawn.camera(index).name in cameras for index in range(drawn.ncam)]
        self._order = [drawn.camera(index).name for index in range(drawn.ncam) if wanted[index]]
        height, width = image_size
        with wp.ScopedDevice(self._device):
            self._model = device_model(drawn)
            self._data = mujoco_warp.make_data(drawn, nworld=num_envs, nconmax=1, njmax=1)
            self._context = mujoco_warp.create_render_context(
                drawn, nworld=num_envs, cam_res=(width, height), render_rgb=True, render_depth=False,
                render_seg=False, render_skybox=True, use_shadows=False, cam_active=wanted,
            )  # fmt: skip
        self._colours = torch.zeros(num_envs, height, width, 3, device=device)
        self._rgb = wp.from_torch(self._colours, dtype=wp.vec3)
        self._all = wp.from_torch(torch.ones(num_envs, dtype=torch.int32, device=device))
        wp.synchronize_device(self._device)

    def render(self, state: wp.array, diverged: wp.array, stream: Any) -> dict[str, Tensor]:
        """Frames {camera: (N, H, W, 3)} uint8 of states (N, S + 7 F), drawn on a stream (None on the CPU)."""
        with wp.ScopedDevice(self._device), wp.ScopedStream(stream, sync_enter=False):
            return self._render(state, diverged)

    def _render(self, state: wp.array, diverged: wp.array) -> dict[str, Tensor]:
        model, data, context = self._model, self._data, self._context
        loading = [
            state, self._spare, self._all, diverged, data.time, data.qpos, data.qvel, data.mocap_pos, data.mocap_quat,
            data.qacc_warmstart,
        ]  # fmt: skip
        wp.launch(view_kernels.load, self._num_envs, loading, device=self._device)
        mujoco_warp.kinematics(model, data)
        mujoco_warp.com_pos(model, data)
        mujoco_warp.camlight(model, data)
        mujoco_warp.refit_bvh(model, data, context)
        mujoco_warp.render(model, data, context)
        frames = {}
        for index, name in enumerate(self._order):
            mujoco_warp.get_rgb(context, index, self._rgb)
            frames[name] = self._colours.mul(255.0).add_(0.5).to(torch.uint8)
        return frames
