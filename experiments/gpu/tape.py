"""The physics of a run again, without the run: states and servo targets of its control steps, kept on the device."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import torch
import warp as wp
from torch import Tensor

from experiments.harness import Parts, run_pipeline
from mimicpipe.envs.mujoco_warp.env import MujocoWarpEnv
from mimicpipe.envs.mujoco_warp.physics import WarpPhysics


@dataclass(frozen=True)
class Call:
    """One control step of N slots."""

    state: Tensor
    active: Tensor
    diverged: Tensor
    ctrl: Tensor


class Tape:
    """Remembers every `every`-th control step that an env's physics takes, and plays these with the physics alone."""

    def __init__(self, physics: WarpPhysics, every: int) -> None:
        self._physics = physics
        self._start = physics.start
        self._every = every
        self._seen = 0
        self.calls: list[Call] = []

    def start(self, state: Any, active: Any, diverged: Any, status: Any) -> Callable[[], None]:
        """As `WarpPhysics.start`."""
        if self._seen % self._every == 0:
            kept = (wp.to_torch(array).clone() for array in (state, active, diverged))
            self.calls.append(Call(*kept, self._physics.ctrl.clone()))
        self._seen += 1
        return self._start(state, active, diverged, status)

    def play(self) -> float:
        """Seconds that the physics of the control steps takes; the states before them are loaded, as in a run."""
        physics, device = self._physics, self._physics.ctrl.device
        synchronize(device)
        began = time.perf_counter()
        for call in self.calls:
            physics.ctrl.copy_(call.ctrl)
            physics.load(*(wp.from_torch(tensor) for tensor in (call.state, call.active, call.diverged)))
            physics.run()
            physics.wait()
        synchronize(device)
        return time.perf_counter() - began

    @property
    def env_steps(self) -> int:
        """Control steps of the slots that were stepped."""
        return sum(int(call.active.sum()) for call in self.calls)

    @property
    def batch_steps(self) -> int:
        """Control steps of the batch."""
        return len(self.calls)


@contextmanager
def taped(parts: Parts, every: int) -> Generator[Tape]:
    """Run the pipeline once, and tape its physics."""
    physics = cast(MujocoWarpEnv, parts.env).physics
    tape = Tape(physics, every)
    with patch.object(physics, "start", tape.start):
        run_pipeline(parts)
    yield tape


def synchronize(device: torch.device) -> None:
    """Wait for a device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
