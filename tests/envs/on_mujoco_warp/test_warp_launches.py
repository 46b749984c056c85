"""Launches of a control step do not depend on num_envs, and nothing waits for the device.

On the CPU, PyTorch's operations and Warp's launches are counted where they are made; on a GPU the profiler counts what
reaches the driver, and PyTorch itself forbids synchronizations.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from steady_loop import Kept, play, steady_loop
from torch.utils._python_dispatch import TorchDispatchMode

from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.rng import attempt_seeds

pytest.importorskip("mujoco_warp")

import warp as wp

from experiments.harness import Parts, built
from mimicpipe.envs.mujoco_warp.env import MujocoWarpEnv
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState

pytestmark = [pytest.mark.warp, pytest.mark.timeout(600)]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

STEPS = 10


class _Operations(TorchDispatchMode):
    """Counts PyTorch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[str(func)] += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def counted_launches(monkeypatch: pytest.MonkeyPatch) -> Generator[Counter[str]]:
    """Warp's launches, of kernels and of graphs."""
    count: Counter[str] = Counter()
    launch, replay = wp.launch, wp.capture_launch

    def counting_launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        count[kernel.key] += 1
        return launch(kernel, *args, **kwargs)

    def counting_replay(*args: Any, **kwargs: Any) -> Any:
        count["graph"] += 1
        return replay(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(wp, "launch", counting_launch)
        patch.setattr(wp, "capture_launch", counting_replay)
        yield count


def made(num_envs: int, device: str) -> MujocoWarpEnv:
    env = MujocoWarpEnv(PickTask(), num_envs, device)
    env.reset(env.all_ids(), attempt_seeds(0, range(num_envs)))
    return env


def test_operations_and_launches_of_a_step_do_not_depend_on_num_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for num_envs in (1, 4):
        loop = steady_loop(made(num_envs, "cpu"), 3 * STEPS)
        play(loop, STEPS)  # buffers are made
        with counted_launches(monkeypatch) as launches, _Operations() as operations:
            play(loop, STEPS)
        seen.append((launches, operations.count))
    assert seen[0] == seen[1]
    launches, operations = seen[0]
    expected = ("servo_targets", "encode", "load", "store", "look_at_arm", "look_at_bodies", "graph")
    assert dict(launches) == dict.fromkeys(expected, STEPS)
    assert sum(operations.values()) < 200 * STEPS


# -- on a GPU


@pytest.fixture
def strict_device() -> Iterator[None]:
    """PyTorch raises where it would wait for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@needs_gpu
def test_the_steady_state_waits_for_nothing() -> None:
    loop = steady_loop(made(256, "cuda:0"), 3 * STEPS)
    play(loop, STEPS)
    torch.cuda.set_sync_debug_mode("error")
    try:
        play(loop, STEPS)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(scope="module")
def parts() -> Iterator[Parts]:
    with built("env=mujoco_warp", "env.num_envs=64", "task=pick", "recorder=none", "num_demos=100") as made:
        yield made


@pytest.mark.gpu
@needs_gpu
@pytest.mark.usefixtures("strict_device")
def test_a_whole_run_waits_for_its_own_copies_only(parts: Parts) -> None:
    """Resets, planning, steps, ends, episodes: PyTorch raises at the first synchronization."""
    import asyncio

    sink = Kept()
    run = RunState(parts.env, BudgetLimits(num_demos=100), RunOptions(strict=True), sink=sink)
    with torch.inference_mode():
        asyncio.run(generate(run, parts.generator, info_pool=parts.pool))
    assert len(sink.episodes) == 100
    for episode in sink.episodes:
        assert all(column.device.type == "cpu" and not column.is_pinned() for column in episode.columns.values())
        assert np.isfinite(episode.columns["observation.state"].numpy()).all()


@pytest.mark.gpu
@needs_gpu
def test_what_reaches_the_driver_does_not_depend_on_num_envs() -> None:
    counts = []
    for num_envs in (64, 1024):
        loop = steady_loop(made(num_envs, "cuda:0"), 3 * STEPS)
        play(loop, STEPS)
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            play(loop, STEPS)
            torch.cuda.synchronize()
        counts.append({e.key: e.count for e in profiler.key_averages() if "launch" in e.key.lower()})
    assert sum(counts[0].values()) >= 7 * STEPS
    assert counts[0] == counts[1]


@pytest.mark.gpu
@needs_gpu
def test_the_gpu_computes_what_the_cpu_computes() -> None:
    from experiments.gpu.agreement import measure

    (row,) = measure("cuda:0", 16)
    assert row["eef_mm"] < 2.0
    assert row["cube_mm"] < 2.0
