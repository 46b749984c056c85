"""Isaac Lab Mimic's own `setup_env_config`, `setup_async_generation` and `env_loop`, on a registered environment."""

import asyncio
import contextlib
import importlib
import io
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from mimicpipe.envs.isaaclab.cpu_graph import CpuGraph, can_capture
from mimicpipe.envs.isaaclab.state import physics_manager


@dataclass(frozen=True)
class PeerRun:
    """One run of the peer's loop; every slot acts until its end. Rates are env-steps per second."""

    attempts: int
    successes: int
    rate: float
    """From the first reset for a second attempt on."""
    whole: float
    """From the first reset on."""
    wall_s: float
    """Of the whole run."""
    step_s: float
    """Of it, within `env.step`."""


def run_peer(
    task: str, source: Path, out: Path, num_envs: int, attempts: int, seed: int = 0, recorders: Any = None
) -> PeerRun:
    """Generate until so many attempts have ended, with the recorder that the environment's configuration names.

    Physics is replayed as a CPU graph, as in env=isaaclab.

    Args:
        task: gym id.
        source: source demos.
        out: file that the peer writes, `<name>.hdf5`; failed attempts go to `<name>_failed.hdf5`.
        num_envs: number of slots.
        attempts: attempts to end after.
        seed: of the global generators.
        recorders: configuration of a recorder manager instead.
    """
    importlib.import_module("mimicpipe.envs.isaaclab.registry")
    generation = importlib.import_module("isaaclab_mimic.datagen.generation")
    with contextlib.redirect_stdout(io.StringIO()):
        where = str(out.parent), out.stem
        cfg, success = generation.setup_env_config(task, *where, num_envs, "cpu", attempts, recorder_cfg=recorders)
        cfg.datagen_config.generation_guarantee = False
        env = gymnasium.make(task, cfg=cfg).unwrapped
        try:
            manager = physics_manager(env)
            graph = CpuGraph(manager) if can_capture(manager, torch.device("cpu")) else None
            try:
                return _timed_loop(generation, env, success, source, num_envs, seed)
            finally:
                if graph is not None:
                    graph.remove()
        finally:
            env.close()


def _timed_loop(generation: Any, env: Any, success: Any, source: Path, num_envs: int, seed: int) -> PeerRun:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    env.reset()
    hold = torch.zeros(env.action_space.shape)
    for _ in range(2):
        env.step(hold)  # kernels are loaded, and the graph is recorded
    watch = _Watch(env)
    generation.num_success = generation.num_failures = generation.num_attempts = 0
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        parts = generation.setup_async_generation(env, num_envs, str(source), success)
        tasks = asyncio.gather(*parts["tasks"])
        watch.began = time.perf_counter()
        try:
            generation.env_loop(env, parts["reset_queue"], parts["action_queue"], parts["info_pool"], loop, tasks)
        finally:
            ended = time.perf_counter()
            tasks.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(tasks)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    steps_before, since = watch.second_attempts
    return PeerRun(
        attempts=generation.num_attempts,
        successes=generation.num_success,
        rate=num_envs * (watch.steps - steps_before) / (ended - since),
        whole=num_envs * watch.steps / (ended - watch.began),
        wall_s=ended - watch.began,
        step_s=watch.step_s,
    )


class _Watch:
    """Counts and times an env's steps."""

    def __init__(self, env: Any) -> None:
        self.began = 0.0
        self.steps = 0
        self.step_s = 0.0
        self._second_attempts: tuple[int, float] | None = None
        self._step, env.step = env.step, self._timed_step
        self._reset, env.reset = env.reset, self._noted_reset

    @property
    def second_attempts(self) -> tuple[int, float]:
        """Steps until the first reset after a step, and when it was; the run's begin, where there was none."""
        return self._second_attempts or (0, self.began)

    def _timed_step(self, actions: torch.Tensor) -> Any:
        began = time.perf_counter()
        result = self._step(actions)
        self.step_s += time.perf_counter() - began
        self.steps += 1
        return result

    def _noted_reset(self, **selected: Any) -> Any:
        if self.steps > 0 and self._second_attempts is None:
            self._second_attempts = self.steps, time.perf_counter()
        return self._reset(**selected)
