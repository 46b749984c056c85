"""Isaac Lab Mimic's own `setup_env_config`, `setup_async_generation` and `env_loop`, on a registered environment."""

import asyncio
import contextlib
import importlib
import io
import random
import time
from collections.abc import Callable
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
    """One run of the peer's loop."""

    attempts: int
    successes: int
    env_steps: int
    """Steps of all slots."""
    wall_s: float
    step_s: float
    """Of it, within `env.step`."""

    @property
    def rate(self) -> float:
        """Env-steps per second."""
        return self.env_steps / self.wall_s


def run_peer(task: str, source: Path, out: Path, num_envs: int, attempts: int, seed: int = 0) -> PeerRun:
    """Generate until so many attempts have ended, with the peer's HDF5 recorder.

    Physics is replayed as a CPU graph, as in env=isaaclab.

    Args:
        task: gym id.
        source: source demos.
        out: file that the peer writes, `<name>.hdf5`; failed attempts go to `<name>_failed.hdf5`.
        num_envs: number of slots.
        attempts: attempts to end after.
        seed: of the global generators.
    """
    importlib.import_module("mimicpipe.envs.isaaclab.registry")
    generation = importlib.import_module("isaaclab_mimic.datagen.generation")
    with contextlib.redirect_stdout(io.StringIO()):
        cfg, success = generation.setup_env_config(task, str(out.parent), out.stem, num_envs, "cpu", attempts)
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
    step_s: list[float] = []
    env.step = _timing(env.step, step_s)
    generation.num_success = generation.num_failures = generation.num_attempts = 0
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        parts = generation.setup_async_generation(env, num_envs, str(source), success)
        tasks = asyncio.gather(*parts["tasks"])
        began = time.perf_counter()
        try:
            generation.env_loop(env, parts["reset_queue"], parts["action_queue"], parts["info_pool"], loop, tasks)
        finally:
            wall_s = time.perf_counter() - began
            tasks.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(tasks)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    return PeerRun(generation.num_attempts, generation.num_success, num_envs * len(step_s), wall_s, sum(step_s))


def _timing(step: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    def timed(actions: torch.Tensor) -> Any:
        began = time.perf_counter()
        result = step(actions)
        seconds.append(time.perf_counter() - began)
        return result

    return timed
