"""Builds the parts of a run from its checked config: each once, and shared by passing it on."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate

from mimicpipe import __version__
from mimicpipe.config import RECORDER_RUN_KEYS, TASK_RUN_KEYS, RunConfig, is_allowed
from mimicpipe.datagen.constraints import parse_constraints
from mimicpipe.datagen.pool import DataGenInfoPool, PoolLock
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.envs.base import MimicEnv, TaskSettings
from mimicpipe.errors import ConfigError
from mimicpipe.generator_config import GENERATOR_RUN_KEYS, POLICY_GENERATOR, SKILL_GENERATOR
from mimicpipe.pipeline.budget import ALL_ATTEMPTS, BudgetLimits, Share
from mimicpipe.pipeline.generation import Generator
from mimicpipe.pipeline.ledger import ERRORS_IN_A_ROW, OnOutcome
from mimicpipe.pipeline.perturbation import PerturbationConfig
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.pipeline.telemetry import IdleTimingSelector
from mimicpipe.pools.growing import GrowingPool
from mimicpipe.preflight import FAILED_SUFFIX, NULL_RECORDER, check_dataset_root, source_demo_paths
from mimicpipe.recorders.base import Recorder
from mimicpipe.recorders.shard import Shard
from mimicpipe.resume import Settled
from mimicpipe.schema import first_line, suggest
from mimicpipe.trackers.base import Tracker
from mimicpipe.trackers.composite import CompositeTracker
from mimicpipe.trackers.jsonl import JsonlTracker

Subtasks = dict[str, list[SubTaskConfig]]


def build_component(config: RunConfig, group: str, without: tuple[str, ...] = (), /, **shared: Any) -> Any:
    """Build the object that a group's `_target_` names.

    Args:
        config: the run's config.
        group: whose node; its other keys are the constructor's keyword arguments.
        without: keys of the node that are not the constructor's.
        shared: objects built before; the constructor gets those of them that it has a parameter for.

    Raises:
        ConfigError: no such class, a class that is not allowed, or arguments that its constructor does not take.
    """
    node = {key: value for key, value in getattr(config, group).items() if key not in without}
    target = node["_target_"]
    _require_importable(group, target)
    try:
        maker: partial[Any] = instantiate({**node, "_partial_": True})
    except InstantiationException as error:
        raise ConfigError(f"{group}._target_={target}: {str(error).splitlines()[0]}") from error
    module = str(getattr(maker.func, "__module__", ""))
    if not is_allowed(module, config.allowed_targets):
        raise ConfigError(f"{group}._target_={target}: is from {module}, which is not in allowed_targets")
    parameters, takes_all = parameters_of(maker.func)
    shared = {name: value for name, value in shared.items() if name not in maker.keywords}  # the node's own come first
    wanted = {name: value for name, value in shared.items() if takes_all or name in parameters}
    unknown = [] if takes_all else [key for key in maker.keywords if key not in parameters]
    if unknown:
        own = [name for name in parameters if name not in shared]
        raise ConfigError(f"{group}.{unknown[0]}: {target} takes no such argument; {suggest(unknown[0], own)}")
    missing = [name for name, p in parameters.items() if _is_needed(p) and name not in {**wanted, **maker.keywords}]
    if missing:
        raise ConfigError(f"{group}.{missing[0]}: {target} needs a value")
    return maker(**wanted)


def parameters_of(function: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """Parameters that can be given by name, and whether any other name is taken, too.

    Where a class hands `**others` to its base class, the base class's parameters are among them.
    """
    bases = [c for c in inspect.getmro(function) if "__init__" in vars(c)] if inspect.isclass(function) else [function]
    found: dict[str, inspect.Parameter] = {}
    for base in bases:
        parameters = inspect.signature(base).parameters.values()
        found |= {
            p.name: p for p in parameters if p.name not in found and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        }
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return found, False
    return found, True


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def _require_importable(group: str, target: str) -> None:
    """Import a target's module, so that an error within it is seen as it is."""
    module, _, name = target.rpartition(".")
    try:
        found = hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        found = False
    if not found:
        raise ConfigError(f"{group}._target_={target}: no such class")


def build_env(config: RunConfig) -> MimicEnv:
    """The simulator, with the task in it."""
    return build_component(config, "env", task=build_component(config, "task", TASK_RUN_KEYS))


def build_subtasks(config: RunConfig) -> Subtasks:
    """{eef: its subtasks}."""
    subtasks: Subtasks = {}
    for eef, nodes in config.task["subtasks"].items():
        subtasks[eef] = []
        for number, node in enumerate(nodes):
            values: dict[str, Any] = dict(node)
            if isinstance(node["selection_strategy"], dict):
                key = f"task.subtasks.{eef}[{number}].selection_strategy"
                strategy = _build_strategy(key, node["selection_strategy"], config.allowed_targets)
                values["selection_strategy"] = strategy
            subtasks[eef].append(SubTaskConfig(**values))
    return subtasks


def _build_strategy(key: str, node: Mapping[str, Any], allowed: Sequence[str]) -> Callable[..., Any]:
    """A function, with the node's other keys as keyword arguments, or an object of a class built from them."""
    target = node["_target_"]
    _require_importable(key, target)
    found = get_object(target)
    module = str(getattr(found, "__module__", ""))
    if not is_allowed(module, allowed):
        raise ConfigError(f"{key}._target_={target}: is from {module}, which is not in allowed_targets")
    if not callable(found):
        raise ConfigError(f"{key}._target_={target}: is no function or class")
    try:
        built = instantiate(node) if inspect.isclass(found) else instantiate({**node, "_partial_": True})
    except InstantiationException as error:
        raise ConfigError(f"{key}._target_={target}: {first_line(error)}") from error
    return built.func if isinstance(built, partial) and not built.keywords else built


def build_pool(config: RunConfig, env: MimicEnv, subtasks: Subtasks) -> DataGenInfoPool:
    """The source demos, read, checked and cut; `skipped` of the pool names those that were left out.

    The group `pool` names a source of demos, or a pool of one's own, which has filled itself. With `generator=policy`,
    which has no use for them, the pool is empty.

    Raises:
        SourceDemoError: a demo cannot be used (pool.on_error=raise), or none can.
    """
    subtasks = subtasks or (env.task_settings.subtasks if env.task_settings is not None else subtasks)
    if config.generator["_target_"] == POLICY_GENERATOR:
        return DataGenInfoPool(env, subtasks)
    paths = [str(path) for path in source_demo_paths(config)]
    where = {"path": paths[0] if len(paths) == 1 else paths} if paths else {}
    skills = config.generator["_target_"] == SKILL_GENERATOR
    source = build_component(
        config, "pool", tuple(where), env=env, subtask_configs=subtasks, check_skills=skills, **where
    )
    if isinstance(source, DataGenInfoPool):
        return source
    read = source.load(env, subtasks)
    pool = DataGenInfoPool(env, subtasks, check_skills=skills)
    pool.add_demos(read.demos, on_error=config.pool["on_error"])
    pool.skipped[:0] = [f"{demo}: {reason}" for demo, reason in read.skipped]
    pool.require_demos()
    return pool


def takes_planner(config: RunConfig) -> bool:
    """Whether the generator's class has a parameter for a planner; the group `planner` is not used otherwise."""
    target = config.generator["_target_"]
    _require_importable("generator", target)
    return "planner" in parameters_of(get_object(target))[0]


def build_generator(config: RunConfig, env: MimicEnv, pool: DataGenInfoPool) -> Generator:
    """The generator that all slots share, with a planner if it takes one.

    Raises:
        ConfigError: as `build_component`; or the planner cannot serve this env.
    """
    settings = env.task_settings if not config.task["subtasks"] else None
    # A generator of one's own need not take what is off: it stands in the config of the one it takes the place of.
    off = () if any(config.generator.get("pose_noise", {}).values()) else ("pose_noise",)
    return build_component(
        config,
        "generator",
        (*GENERATOR_RUN_KEYS, *off),
        env=env,
        **({"planner": build_component(config, "planner", env=env)} if takes_planner(config) else {}),
        src_demo_datagen_info_pool=pool,
        subtask_configs=pool.subtask_configs,
        datagen_cfg=_datagen_config(config, settings),
        task_constraint_configs=(
            parse_constraints(config.task["constraints"]) if settings is None else settings.constraints
        ),
    )


def _datagen_config(config: RunConfig, settings: TaskSettings | None) -> DataGenConfig:
    """How segments are joined; the env, where it says so, says nothing of the steps at the end."""
    given = DataGenConfig(**config.task["datagen"])
    return given if settings is None else replace(settings.datagen, settle_steps=given.settle_steps)


@dataclass(frozen=True)
class Recorders:
    """Where episodes go."""

    demos: Recorder | None
    failed: Recorder | None
    """A dataset of its own for failed attempts, with recorder.save_failed."""

    def all(self) -> list[Recorder]:
        """Those there are."""
        return list(self.named().values())

    def named(self) -> dict[str, Recorder]:
        """Those there are, by the names of the fields."""
        both = {"demos": self.demos, "failed": self.failed}
        return {name: recorder for name, recorder in both.items() if recorder is not None}


def check_can_share(config: RunConfig) -> None:
    """Raise ConfigError unless the recorder can stage episodes for a dataset that another process assembles."""
    target = config.recorder["_target_"]
    _require_importable("recorder", target)
    if target != NULL_RECORDER and "shard" not in parameters_of(get_object(target))[0]:
        raise ConfigError(f"recorder._target_={target}: takes no shard, so workers cannot share it; use cluster=none")


def build_shard_recorders(config: RunConfig, env: MimicEnv, shards: Mapping[str, Shard]) -> Recorders:
    """The recorders of a worker: of a shard of the dataset ("demos"), and of one of that of failed attempts."""
    made = {
        name: _build_recorder(config, env, FAILED_SUFFIX if name == "failed" else "", None, shard)
        for name, shard in shards.items()
    }
    return Recorders(made.get("demos"), made.get("failed"))


def build_recorders(config: RunConfig, env: MimicEnv, settled: Settled | None = None) -> Recorders:
    """The recorder of the dataset, and with save_failed a second one at `<root>_failed`; none for recorder=none.

    Args:
        config: the run's config.
        env: what is recorded.
        settled: what the run that is resumed has left; None for a new run.
    """
    if config.recorder["_target_"] == NULL_RECORDER:
        return Recorders(None, None)
    demos = _build_recorder(config, env, "", None if settled is None else settled.demos)
    if not config.recorder["save_failed"]:
        return Recorders(demos, None)
    return Recorders(demos, _build_recorder(config, env, FAILED_SUFFIX, None if settled is None else settled.failed))


def _build_recorder(
    config: RunConfig, env: MimicEnv, suffix: str, resume: int | None, shard: Shard | None = None
) -> Recorder:
    return build_component(
        config,
        "recorder",
        RECORDER_RUN_KEYS,
        # A shard's is another process's business.
        root=config.dataset.root if shard is not None else check_dataset_root(config, suffix),
        repo_id=config.dataset.repo_id + suffix,
        fps=env.fps,
        features={**env.observation_features, "action": env.action_feature},
        use_videos=config.dataset.use_videos,
        overwrite=config.dataset.overwrite,
        resume=resume,
        shard=shard,
        robot_type="_".join(env.eef_names),
        # Only what is the same for every num_envs and recorder: the dataset is, too.
        run_info={"mimicpipe": __version__, **{k: config.task[k] for k in ("name", "variant")}, "seed": config.seed},
    )


def build_run_state(
    config: RunConfig,
    env: MimicEnv,
    pool: DataGenInfoPool,
    recorders: Recorders,
    on_outcome: OnOutcome,
    selector: IdleTimingSelector,
    share: Share | None = None,
) -> RunState:
    """The run's queues, budget and counters; its clock starts now.

    With a `share`, only its attempts are made, and another process sees to the limits that all shares have together.
    """
    limits = BudgetLimits(config.num_demos, config.max_attempts, config.max_failures)
    return RunState(
        env,
        limits if share is None else BudgetLimits(config.num_demos),
        RunOptions(
            seed=config.seed,
            hold_steps=config.task["hold_steps"],
            max_episode_steps=config.task["max_episode_steps"],
            strict=config.strict,
            stall_timeout_s=config.stall_timeout_s,
            errors_in_a_row=ERRORS_IN_A_ROW if share is None else None,
        ),
        sink=recorders.demos,
        failed_sink=recorders.failed,
        on_outcome=on_outcome,
        lock=pool.asyncio_lock if isinstance(pool.asyncio_lock, PoolLock) else None,
        selector=selector,
        watcher=pool if isinstance(pool, GrowingPool) else None,
        perturbation=PerturbationConfig(**config.generator["perturbation"]),
        frame_columns=next((r.frame_columns for r in recorders.all() if r.frame_columns is not None), None),
        share=share or ALL_ATTEMPTS,
    )


def build_trackers(config: RunConfig, output_dir: Path) -> CompositeTracker:
    """metrics.jsonl, and the tracker of the config unless it cannot be had."""
    plain: Mapping[str, Any] = config.to_dict()

    def optional() -> Tracker:
        return build_component(config, "tracker", directory=output_dir, config=plain)

    jsonl = JsonlTracker(output_dir / "metrics.jsonl")
    return CompositeTracker([jsonl], [optional] if config.tracker["_target_"] is not None else [])
