"""(d) The pipeline against Isaac Lab Mimic's own loop, over the same env, demos and scenes, in the same process.

Both run `env=kinematic` without a recorder on the source demos that come with the task; the peer reads the file itself.
An attempt has the same scene in both. The pipeline runs before and after each run of the peer, so that a busy machine
slows both alike.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from experiments.harness import Generated, Parts, built, run_pipeline, torch_threads
from experiments.throughput.peer_compare import Difference, Setting, by_mimicpipe, by_peer, compare
from experiments.throughput.peer_loop import PeerRun, adapter_for, peer_module, run_peer
from mimicpipe import build
from mimicpipe.config import TASK_RUN_KEYS, RunConfig
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.pools.hdf5 import read_demos
from mimicpipe.pools.hdf5_writer import write_demos
from mimicpipe.preflight import source_demo_paths

GOALS = {1024: 1_000.0}
"""{num_envs: how many times the peer's rate the pipeline must reach}."""


@dataclass(frozen=True)
class Case:
    """So many attempts at so many envs, by each of the two, `repeats` times."""

    num_envs: int
    attempts: int
    repeats: int
    task: str = "pick"
    compare: bool = False
    """Also compare what both execute: `num_envs` attempts without noise and without random choices."""


CASES = (Case(1, 10, 3, compare=True), Case(16, 64, 3, compare=True), Case(256, 256, 3), Case(1024, 1024, 1))
"""The peer takes a millisecond a step whatever num_envs is, so one attempt for each of 1024 envs is minutes of work."""


def measure(cases: Sequence[Case] = CASES) -> list[dict[str, Any]]:
    """One row per case; torch uses one thread.

    Raises:
        PeerMissingError: the extra `isaaclab` is not installed.
    """
    peer_module("isaaclab_mimic.datagen.generation")  # seconds of imports, before anything is timed
    with torch_threads(1):
        return [_measure_case(case) for case in cases]


def _measure_case(case: Case) -> dict[str, Any]:
    counts = (f"env.num_envs={case.num_envs}", f"num_demos={case.attempts}", f"max_attempts={case.attempts}")
    with built("env=kinematic", f"task={case.task}", "pool=hdf5", "recorder=none", *counts) as parts:
        run_pipeline(parts)  # warm up
        turns = [_turn(parts, case) for _ in range(case.repeats)]
        difference = _difference(case, parts.config) if case.compare else None
    return _row(case, turns, difference)


Turn = tuple[list[Generated], PeerRun]


def _turn(parts: Parts, case: Case) -> Turn:
    """The pipeline, the peer, the pipeline."""
    before = run_pipeline(parts)
    config, subtasks = parts.config, parts.pool.subtask_configs
    adapter = adapter_for(parts.env, subtasks, _datagen(config), case.attempts, config.seed)
    peer = run_peer(adapter, _bundled(config))
    return [before, run_pipeline(parts)], peer


def _row(case: Case, turns: Sequence[Turn], difference: Difference | None) -> dict[str, Any]:
    own = [mean(run.until_generated.rate for run in runs) for runs, _ in turns]
    own_demos = [
        mean(3600 * run.state.budget.successes / run.until_generated.wall_s for run in runs) for runs, _ in turns
    ]
    peers = [peer.sample.rate for _, peer in turns]
    peer_demos = [3600 * peer.successes / peer.sample.wall_s for _, peer in turns]
    ratio, goal = median(a / b for a, b in zip(own, peers, strict=True)), GOALS.get(case.num_envs)
    return {
        "num_envs": case.num_envs,
        "task": case.task,
        "peer": f"isaaclab {version('isaaclab')}",
        "attempts": case.attempts,
        "repeats": case.repeats,
        "pipeline_steps_per_s": median(own),
        "peer_steps_per_s": median(peers),
        "ratio": ratio,
        "goal_ratio": goal,
        "goal_met": None if goal is None else ratio >= goal,
        "pipeline_demos_per_hour": median(own_demos),
        "peer_demos_per_hour": median(peer_demos),
        "demos_ratio": median(a / b for a, b in zip(own_demos, peer_demos, strict=True)),
        "peer_env_share": median(peer.env_s / peer.sample.wall_s for _, peer in turns),
        "difference": None if difference is None else asdict(difference),
        "repeats_pipeline_steps_per_s": [round(run.until_generated.rate) for runs, _ in turns for run in runs],
        "repeats_peer_steps_per_s": [round(rate) for rate in peers],
    }


def _difference(case: Case, config: RunConfig) -> Difference:
    """How far apart the executions of `num_envs` attempts are, with no noise and nothing left to chance."""
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            task=build.build_component(config, "task", TASK_RUN_KEYS),
            subtasks=_without_chance(build.build_subtasks(config)),
            datagen=_datagen(config),
            demos=_as_absolute(_bundled(config), Path(folder) / "demos.hdf5"),
            attempts=case.num_envs,
        )
        return compare(by_mimicpipe(setting), by_peer(setting))


def _without_chance(subtasks: Mapping[str, Sequence[SubTaskConfig]]) -> dict[str, list[SubTaskConfig]]:
    """The subtasks without noise, with the lowest offsets, and the nearest demo chosen."""
    fixed = {}
    for eef, configs in subtasks.items():
        fixed[eef] = [
            replace(
                config,
                action_noise=0.0,
                subtask_term_offset_range=(config.subtask_term_offset_range[0],) * 2,
                selection_strategy_kwargs={**config.selection_strategy_kwargs, "nn_k": 1},
            )
            for config in configs
        ]
    return fixed


def _as_absolute(source: Path, target: Path) -> Path:
    """A copy of the demos for an env with ik_abs: both generators read an action's last number, the gripper's, only."""
    demos = read_demos(source, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None).demos
    for demo in demos:
        gripper = demo.actions[:, -1:]
        demo.actions = torch.cat((torch.zeros(len(gripper), 7), gripper), dim=1)
        demo.initial_state = None
    write_demos(target, demos, {})
    return target


def _bundled(config: RunConfig) -> Path:
    (path,) = source_demo_paths(config)
    return path


def _datagen(config: RunConfig) -> DataGenConfig:
    return DataGenConfig(**config.task["datagen"])
