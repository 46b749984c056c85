"""Isaac Lab Mimic's own `setup_async_generation` and `env_loop`, imported from the package, on a mimicpipe env."""

import asyncio
import contextlib
import importlib
import io
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.harness import Sample, Stopwatch
from experiments.throughput.peer_env import PeerEnv
from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.envs.base import MimicEnv

INSTALL = (
    "isaaclab is not installed here: run `make isaaclab`, then "
    "`.venv-isaaclab/bin/python -m experiments.throughput peer`"
)


class PeerMissingError(RuntimeError):
    """The extra `isaaclab` is not installed."""


def is_installed() -> bool:
    """Whether the peer can be imported; imports nothing."""
    return find_spec("isaaclab") is not None and find_spec("isaaclab_mimic") is not None


def peer_module(name: str) -> Any:
    """A module of the peer.

    Raises:
        PeerMissingError: the extra is not installed; says how to install it.
    """
    if not is_installed():
        raise PeerMissingError(INSTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its imports use what torch has deprecated
        return importlib.import_module(name)


def peer_config(
    subtasks: Mapping[str, Sequence[SubTaskConfig]],
    datagen: DataGenConfig,
    attempts: int,
    constraints: Sequence[SubTaskConstraintConfig] = (),
) -> Any:  # a MimicEnvCfg
    """The peer's config of the same subtasks and options, that ends after so many attempts."""
    cfg = peer_module("isaaclab.envs.mimic_env_cfg")
    config = cfg.MimicEnvCfg()
    config.datagen_config.generation_guarantee = False
    config.datagen_config.generation_num_trials = attempts
    for field in fields(DataGenConfig):
        if field.name.startswith("generation_"):
            setattr(config.datagen_config, field.name, getattr(datagen, field.name))
    config.subtask_configs = {eef: [_peer_subtask(cfg, c) for c in configs] for eef, configs in subtasks.items()}
    config.task_constraint_configs = [_peer_constraint(cfg, constraint) for constraint in constraints]
    return config


def _peer_constraint(cfg: Any, constraint: SubTaskConstraintConfig) -> Any:
    values = {field.name: getattr(constraint, field.name) for field in fields(SubTaskConstraintConfig)}
    values["constraint_type"] = cfg.SubTaskConstraintType[constraint.constraint_type.name]
    values["coordination_scheme"] = cfg.SubTaskConstraintCoordinationScheme[constraint.coordination_scheme.name]
    return cfg.SubTaskConstraintConfig(**values)


def _peer_subtask(cfg: Any, config: SubTaskConfig) -> Any:
    known = {field.name for field in fields(cfg.SubTaskConfig)}
    values = {field.name: getattr(config, field.name) for field in fields(SubTaskConfig) if field.name in known}
    values["selection_strategy_kwargs"] = dict(config.selection_strategy_kwargs)
    values["action_noise"] = float(config.action_noise)
    return cfg.SubTaskConfig(**values)


@dataclass(frozen=True)
class PeerRun:
    """One run of the peer's loop."""

    sample: Sample
    """From the loop's start to its end, with the source demos loaded before; every slot is stepped in every step."""
    env_s: float
    """Seconds of it spent in the simulator's own calls."""
    attempts: int
    successes: int
    """By the peer's rule: the condition held after some step of the attempt."""


def run_peer(adapter: PeerEnv, demos: Path) -> PeerRun:
    """Run the peer's loop to the end that its config says.

    Args:
        adapter: the env, not used before.
        demos: source demos in Isaac Lab's HDF5 layout, which the peer reads itself.
    """
    generation = peer_module("isaaclab_mimic.datagen.generation")
    generation.num_success = generation.num_failures = generation.num_attempts = 0  # counters of the whole process
    _seed_everything(adapter.cfg.datagen_config.seed)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            setup = generation.setup_async_generation(adapter, adapter.num_envs, str(demos), adapter.success_term)
            tasks = asyncio.gather(*setup["tasks"])
            watch = Stopwatch()
            try:
                generation.env_loop(
                    adapter, setup["reset_queue"], setup["action_queue"], setup["info_pool"], loop, tasks
                )
                sample = watch.sample(adapter.steps * adapter.num_envs)
            finally:
                tasks.cancel()
                loop.run_until_complete(asyncio.gather(tasks, *setup["tasks"], return_exceptions=True))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    outcomes = adapter.recorder_manager
    return PeerRun(sample, adapter.clock.seconds, outcomes.attempts, outcomes.successes)


def _seed_everything(seed: int) -> None:
    """As Isaac Lab's generate_dataset.py does: the peer draws from the global generators."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def adapter_for(
    env: MimicEnv,
    subtasks: Mapping[str, Sequence[SubTaskConfig]],
    datagen: DataGenConfig,
    attempts: int,
    seed: int,
    max_steps: int | None = None,
    constraints: Sequence[SubTaskConstraintConfig] = (),
) -> PeerEnv:
    """An env that the peer can run for so many attempts, or at most `max_steps` control steps."""
    return PeerEnv(env, peer_config(subtasks, datagen, attempts, constraints), seed, max_steps)
