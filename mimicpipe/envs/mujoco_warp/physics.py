"""MuJoCo-Warp's physics of N slots, in one graph: load the states, ten physics steps, and nothing else.

    states (N, S + 7 F) ──load──► MuJoCo-Warp's arrays ── 10 steps ──► ──store──► states of the slots that were stepped

On a GPU the graph runs on a stream of its own, so that the caller's stream, and the host, go on meanwhile. On the CPU
Warp records the launches and replays them without Python (its "APIC" graphs), which is used where a trial gives the
same bits as the launches themselves.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import mujoco
import mujoco_warp
import torch
import warp as wp
from torch import Tensor

from mimicpipe.envs.mujoco_warp import view_kernels
from mimicpipe.envs.mujoco_warp.contacts import leave_out_impossible
from mimicpipe.envs.mujoco_warp.streams import CallerStream

_ROWS_PER_CONTACT = 3
"""Constraints of a contact with an elliptic cone and friction in two directions."""
_OTHER_ROWS = 32
"""Room for constraints that are not contacts: joint limits, coupled fingers, dry friction."""


class WarpPhysics:
    """Steps N copies of one model.

    Args:
        model: the scene of every slot.
        num_envs: N.
        device: of all arrays.
        substeps: physics steps in a control step.
        max_contacts: room for contacts, per slot on average.
        spare: (1, S + 7 F) float32, a sane state, which takes the place of slots that are not stepped.

    Attributes:
        ctrl: (N, nu) float32 servo targets, to be filled in before `start`.
        replayed: whether the steps are replayed from a graph.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        num_envs: int,
        device: torch.device,
        substeps: int,
        max_contacts: int,
        spare: wp.array,
    ) -> None:
        self._device = wp.device_from_torch(device)
        self._torch_device = device
        self._substeps = substeps
        self.num_envs = num_envs
        with wp.ScopedDevice(self._device):
            self._model = device_model(model)
            self._model.callback.contactfilter = leave_out_impossible
            self._model.opt.warn_overflow = False  # it is raised as an error, which a line on the terminal is not
            self._data = mujoco_warp.make_data(
                model, nworld=num_envs, nconmax=max_contacts, njmax=_ROWS_PER_CONTACT * max_contacts + _OTHER_ROWS
            )
        wp.synchronize_device(self._device)  # what Warp has made so far, it has made on a stream of its own
        self.ctrl = wp.to_torch(self._data.ctrl)
        self._spare = spare
        self._here = CallerStream(device)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._warp_stream = None if self._stream is None else wp.stream_from_torch(self._stream)
        self._graph: Any = None

    def start(self, state: wp.array, active: wp.array, diverged: wp.array, status: wp.array) -> Callable[[], None]:
        """Begin one control step.

        Args:
            state: (N, S + 7 F) float32; rows of slots that are stepped must not change until the step has ended.
            active: (N,) int32, 1 for slots that are stepped; must not change meanwhile, either.
            diverged: (N,) int32, 1 for slots whose state is not sane; they keep it.
            status: (2,) int32; the second becomes 1 + a slot that had no room for its contacts.

        Returns:
            A function to call once, which writes the new states; on a GPU it only queues that.
        """
        data = self._data
        self.load(state, active, diverged)
        self.run()

        def end() -> None:
            self.wait()
            storing = [active, diverged, data.time, data.qpos, data.qvel, data.overflow, state, status]
            wp.launch(view_kernels.store, self.num_envs, storing, device=self._device, stream=self._here())

        return end

    def load(self, state: wp.array, active: wp.array, diverged: wp.array) -> None:
        """Put states into the physics; arguments as of `start`."""
        data = self._data
        loading = [
            state, self._spare, active, diverged, data.time, data.qpos, data.qvel, data.mocap_pos, data.mocap_quat,
            data.qacc_warmstart,
        ]  # fmt: skip
        wp.launch(view_kernels.load, self.num_envs, loading, device=self._device, stream=self._here())

    def run(self) -> None:
        """The physics steps of one control step, from what has been loaded; on a GPU only queued."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._torch_device))
        if self._graph is not None:
            wp.capture_launch(self._graph, stream=self._warp_stream)
        elif self._stream is None:
            self._plain_steps()
        else:
            with wp.ScopedStream(self._warp_stream):
                self._plain_steps()

    def wait(self) -> None:
        """Let the caller's stream go on behind what `run` has queued."""
        if self._stream is not None:
            torch.cuda.current_stream(self._torch_device).wait_stream(self._stream)

    def prepare(self) -> None:
        """Record the graph, after a first step, which has compiled the kernels; leaves the arrays changed."""
        if self._stream is None:
            self._graph = self._trusted_cpu_graph()
            return
        wp.synchronize_device(self._device)
        with wp.ScopedStream(self._warp_stream), wp.ScopedCapture(stream=self._warp_stream) as capture:
            self._plain_steps()
        self._graph = capture.graph

    @property
    def replayed(self) -> bool:
        """Whether the steps are replayed from a graph."""
        return self._graph is not None

    def _plain_steps(self) -> None:
        with wp.ScopedDevice(self._device):  # MuJoCo-Warp launches on Warp's current device, wherever its data are
            for _ in range(self._substeps):
                mujoco_warp.step(self._model, self._data)

    def _trusted_cpu_graph(self) -> Any:
        """The steps as a graph of the CPU; None where it does not give the bits of the launches."""
        with wp.ScopedCapture(device=self._device) as capture:
            self._plain_steps()
        before = [tensor.clone() for tensor in self._tensors()]
        self._plain_steps()
        launched = [tensor.clone() for tensor in self._tensors()]
        for tensor, value in zip(self._tensors(), before, strict=True):
            tensor.copy_(value)
        wp.capture_launch(capture.graph)
        same = all(torch.equal(a, b) for a, b in zip(self._tensors(), launched, strict=True))
        return capture.graph if same else None

    def _tensors(self) -> list[Tensor]:
        data = self._data
        return [wp.to_torch(array) for array in (data.time, data.qpos, data.qvel, data.qacc_warmstart)]


def device_model(model: mujoco.MjModel) -> Any:
    """A model for MuJoCo-Warp, on Warp's current device."""
    # There are no automatic resets that could be switched off, so the flag is not known, either.
    known = copy.copy(model)
    known.opt.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    # To MuJoCo-Warp this flag means: boxes that meet are looked at as MuJoCo does it, not as any convex bodies are.
    known.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD.value
    with warnings.catch_warnings():
        # Said of the arm's capsules against what is not round, where one contact is enough.
        warnings.filterwarnings("ignore", message="MULTICCD is enabled")
        return mujoco_warp.put_model(known)
