"""What a run may be configured with: a dataclass for every group, and the check that turns a composed config into one.

Nothing heavy is imported here, so that a wrong value is refused at once. A group's node is checked against the schema
of its `_target_`. A class of your own (see `allowed_targets`) is checked against its group's base schema; other keys in
its YAML are passed to its constructor.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, cast

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from mimicpipe.cluster_config import CLUSTER_SCHEMAS, ClusterConfig, check_cluster
from mimicpipe.errors import ConfigError
from mimicpipe.generator_config import GENERATOR_SCHEMAS, ConstraintConfig, GeneratorConfig, check_generator
from mimicpipe.isaaclab_config import ISAACLAB_ENV, ISAACLAB_TASK, check_isaaclab, check_isaaclab_task
from mimicpipe.planner_config import PLANNER_SCHEMAS, PlannerConfig, check_planner
from mimicpipe.pool_config import POOL_SCHEMAS, PoolConfig, check_pool
from mimicpipe.schema import at_least, conform, first_line, show, suggest, timeout, value_at, within

# OmegaConf reads an Enum by its members' names.
Control = StrEnum("Control", ["ik_rel", "ik_abs"])
Camera = StrEnum("Camera", ["front", "wrist", "left_wrist", "right_wrist"])
WandbMode = StrEnum("WandbMode", ["offline", "online", "disabled"])
VideoCodec = StrEnum("VideoCodec", ["libsvtav1", "h264", "hevc", "libaom-av1"])
Selection = StrEnum("Selection", ["random", "nearest_neighbor_object", "nearest_neighbor_robot_distance", "balanced"])


@dataclass
class Component:
    """A node that an object is built from."""

    _target_: str = MISSING
    _convert_: str = "all"


@dataclass
class SubtaskConfig:
    """One subtask of one end effector; the fields are those of `mimicpipe.datagen.subtask.SubTaskConfig`."""

    object_ref: str | None = None
    subtask_term_signal: str | None = None
    selection_strategy: Any = field(
        default="random", metadata={"words": f"one of {', '.join(Selection.__members__)}, or a mapping with _target_"}
    )
    selection_strategy_kwargs: dict[str, Any] = field(default_factory=dict)
    first_subtask_start_offset_range: list[int] = field(default_factory=lambda: [0, 0], metadata={"interval": True})
    subtask_term_offset_range: list[int] = field(default_factory=lambda: [0, 0], metadata={"interval": True})
    action_noise: float = within(0, 1, 0.03)
    num_interpolation_steps: int = at_least(0, 5)
    num_fixed_steps: int = at_least(0, 0)
    apply_noise_during_interpolation: bool = False
    description: str = ""
    next_subtask_description: str = ""
    subtask_start_signal: str | None = None
    subtask_start_offset_range: list[int] = field(default_factory=lambda: [0, 0], metadata={"interval": True})
    object_turns: int = at_least(1, 1)
    num_settle_steps: int = at_least(0, 0)


@dataclass
class DatagenConfig:
    """How segments are chosen and joined; the fields are those of `mimicpipe.datagen.subtask.DataGenConfig`."""

    generation_select_src_per_subtask: bool = False
    generation_select_src_per_arm: bool = False
    generation_transform_first_robot_pose: bool = False
    generation_interpolate_from_last_target_pose: bool = True
    settle_steps: int = at_least(0, 0)


@dataclass
class TaskConfig(Component):
    """`task`: the keys from `name` on belong to the run, the others go to the task's constructor."""

    variant: str = MISSING
    name: str = MISSING
    variants: list[str] = field(default_factory=list)
    hold_steps: int = at_least(1, 10)
    max_episode_steps: int = at_least(1, 600)
    needs_contact: bool = False
    subtasks: dict[str, list[SubtaskConfig]] = field(default_factory=dict)
    constraints: list[ConstraintConfig] = field(default_factory=list)
    datagen: DatagenConfig = field(default_factory=DatagenConfig)


@dataclass
class EnvConfig(Component):
    """`env`: what every env has."""

    num_envs: int = within(1, 65536)
    device: str = "cpu"


@dataclass
class MujocoEnvConfig(EnvConfig):
    """`env=mujoco`."""

    cameras: list[Camera] = field(default_factory=list)
    image_size: list[int] = field(default_factory=lambda: [128, 128], metadata={"length": 2, "min": 1})
    control: Control = Control["ik_rel"]
    threads: int | None = at_least(1, None)


@dataclass
class MujocoWarpEnvConfig(EnvConfig):
    """`env=mujoco_warp`."""

    cameras: list[Camera] = field(default_factory=list)
    image_size: list[int] = field(default_factory=lambda: [128, 128], metadata={"length": 2, "min": 1})
    control: Control = Control["ik_rel"]
    max_contacts: int = at_least(1, 64)


@dataclass
class IsaacLabEnvConfig(EnvConfig):
    """`env=isaaclab`."""

    task: str = MISSING
    presets: list[str] = field(default_factory=list)
    overrides: dict[str, Any] = field(default_factory=dict)
    configure: Any = field(default=None, metadata={"words": "null, or a mapping with _target_ and _partial_"})
    env_spacing: float | None = at_least(0, None)
    cpu_graph: bool = True
    description: str | None = None


@dataclass
class KinematicEnvConfig(EnvConfig):
    """`env=kinematic`."""

    lag: float = field(default=0.0, metadata={"min": 0, "below": 1})
    control: Control = Control["ik_rel"]
    cameras: list[str] = field(default_factory=list)


@dataclass
class RecorderConfig(Component):
    """`recorder`: what every recorder has."""

    save_failed: bool = False


@dataclass
class LeRobotRecorderConfig(RecorderConfig):
    """`recorder=sync`."""

    image_writer_threads: int = at_least(0, 0)


@dataclass
class AsyncRecorderConfig(LeRobotRecorderConfig):
    """`recorder=async`."""

    async_queue_maxsize: int = at_least(0, 0)
    max_queue_bytes: int | None = at_least(0, None)


@dataclass
class Hdf5RecorderConfig(AsyncRecorderConfig):
    """`recorder=hdf5`."""

    workers: int = at_least(0, 0)
    worker_timeout_s: float = timeout(60.0)


@dataclass
class ShardedRecorderConfig(AsyncRecorderConfig):
    """`recorder=sharded`."""

    workers: int = at_least(0, 1)
    worker_timeout_s: float = timeout(60.0)
    video_codec: VideoCodec = VideoCodec["libsvtav1"]
    video_gop: int | None = at_least(1, 2)
    video_crf: float | None = within(0, 63, 30.0)
    video_preset: str | None = None
    encoder_threads: int | None = at_least(1, None)
    data_files_size_in_mb: int = at_least(1, 100)
    video_files_size_in_mb: int = at_least(1, 200)


@dataclass
class TrackerConfig:
    """`tracker`; without a `_target_` metrics.jsonl is the only sink."""

    _target_: str | None = None
    _convert_: str = "all"


@dataclass
class WandbTrackerConfig(TrackerConfig):
    """`tracker=wandb`."""

    mode: WandbMode = WandbMode["offline"]
    project: str = "mimicpipe"
    entity: str | None = None
    group: str | None = None
    job_type: str | None = None
    name: str | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class DatasetConfig:
    """`dataset`: where the dataset goes."""

    root: str = MISSING
    repo_id: str = MISSING
    use_videos: bool = True
    overwrite: bool = False


@dataclass
class RunConfig:
    """A checked, fully resolved config. Groups are plain dicts: `_target_` and the keyword arguments of the class."""

    task: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    generator: dict[str, Any] = field(default_factory=dict)
    planner: dict[str, Any] = field(default_factory=dict)
    pool: dict[str, Any] = field(default_factory=dict)
    recorder: dict[str, Any] = field(default_factory=dict)
    tracker: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=lambda: asdict(ClusterConfig()))
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    num_demos: int = within(1, 2**53 - 1, 100)
    max_attempts: int | None = at_least(1, None)
    max_failures: int | None = at_least(1, None)
    seed: int = field(default=0, metadata={"min": 0, "max": 2**63 - 1})
    strict: bool = False
    stall_timeout_s: float = timeout(60.0)
    preview: bool = True
    allowed_targets: list[str] = field(default_factory=list)
    resume: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain containers."""
        return asdict(self)

    def hash(self) -> str:
        """SHA-256 over everything but where the dataset lies, so equal commands have equal hashes."""
        plain = self.to_dict()
        del plain["dataset"]["root"], plain["resume"]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


GROUPS: dict[str, type] = {
    "task": TaskConfig,
    "env": EnvConfig,
    "generator": GeneratorConfig,
    "planner": PlannerConfig,
    "pool": PoolConfig,
    "recorder": RecorderConfig,
    "tracker": TrackerConfig,
    "cluster": ClusterConfig,
}
"""Base schema of each group."""

OmegaConf.register_new_resolver("given", lambda *values: next((v for v in values if v is not None), None), replace=True)
"""`${given:a,b}` in conf/: the first of the values that is not null."""

KINEMATIC_ENV = "mimicpipe.envs.kinematic.KinematicEnv"
MUJOCO_WARP_ENV = "mimicpipe.envs.mujoco_warp.env.MujocoWarpEnv"
SCHEMAS: dict[str, type] = {
    "mimicpipe.envs.mujoco.env.MujocoEnv": MujocoEnvConfig,
    MUJOCO_WARP_ENV: MujocoWarpEnvConfig,
    KINEMATIC_ENV: KinematicEnvConfig,
    ISAACLAB_ENV: IsaacLabEnvConfig,
    ISAACLAB_TASK: TaskConfig,
    **GENERATOR_SCHEMAS,
    **PLANNER_SCHEMAS,
    **POOL_SCHEMAS,
    **CLUSTER_SCHEMAS,
    "mimicpipe.recorders.lerobot.LeRobotRecorder": LeRobotRecorderConfig,
    "mimicpipe.recorders.async_lerobot.AsyncLeRobotRecorder": AsyncRecorderConfig,
    "mimicpipe.recorders.sharded.ShardedRecorder": ShardedRecorderConfig,
    "mimicpipe.recorders.hdf5.Hdf5Recorder": Hdf5RecorderConfig,
    "mimicpipe.recorders.none.NullRecorder": RecorderConfig,
    "mimicpipe.trackers.wandb.WandbTracker": WandbTrackerConfig,
    "mimicpipe.trackers.tensorboard.TensorboardTracker": TrackerConfig,
}
"""Complete schema of each class that comes with mimicpipe, apart from tasks; one of your own needs none."""
_TASKS = "mimicpipe.envs.tasks."


def schema_of(group: str, target: str | None) -> type | None:
    """Complete schema of a group's class that comes with mimicpipe, by its path, or of no class. None: not ours."""
    if target is None or target.startswith(_TASKS):
        return GROUPS[group]
    return SCHEMAS.get(target)


TASK_RUN_KEYS = tuple(f.name for f in fields(TaskConfig) if f.name not in ("_target_", "_convert_", "variant"))
"""Keys of `task` that are for the run, not for the task's constructor."""

RECORDER_RUN_KEYS = ("save_failed",)
"""Likewise of `recorder`."""


def check(cfg: DictConfig) -> RunConfig:
    """Check a composed config.

    Args:
        cfg: the job's config, without Hydra's own node; `${hydra:...}` must be resolvable.

    Raises:
        ConfigError: one line with the key, the value given and what is valid.
    """
    for group in GROUPS:  # before values are resolved, which may come from a group that is missing
        if OmegaConf.is_missing(cfg, group) or cfg.get(group) is None:
            raise ConfigError(f"{group}=null: group {group} is required; choose it with {group}=<option>")
    check_isaaclab_task(cfg.task.get("_target_"), cfg.env.get("_target_"))  # too: the task's name is env.task
    plain = _resolved(cfg)
    allowed = plain.get("allowed_targets")
    for group, base in GROUPS.items():
        node = plain.get(group)
        if not isinstance(node, dict):
            raise ConfigError(f"{group}={show(node)}: a run needs one; choose it with {group}=<option>")
        _check_targets(group, node, allowed if isinstance(allowed, list) else [])
        schema = schema_of(group, node.get("_target_"))
        known = schema is not None and issubclass(schema, base)
        plain[group] = conform(schema if schema is not None and known else base, node, group, closed=known)
    run = conform(RunConfig, plain)
    _check_task(run["task"])
    check_generator(run["generator"])
    if run["env"]["_target_"] == KINEMATIC_ENV and run["env"]["cameras"]:
        raise ConfigError(f"env.cameras={show(run['env']['cameras'])}: env=kinematic cannot render; use env=mujoco")
    if run["env"]["_target_"] == KINEMATIC_ENV and run["task"]["needs_contact"]:
        raise ConfigError(f"env=kinematic: has no contact, which task={run['task']['name']} needs; use env=mujoco")
    check_isaaclab(run, is_allowed)
    check_planner(run)
    check_pool(run)
    check_cluster(run)
    run["dataset"] = DatasetConfig(**run["dataset"])
    return RunConfig(**run)


def is_allowed(path: str, allowed: Iterable[str]) -> bool:
    """Whether a class or module path lies in mimicpipe or in one of the allowed packages, modules or classes."""
    return any(path == a or path.startswith(f"{a}.") for a in ("mimicpipe", *allowed))


def _resolved(cfg: DictConfig) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(f"{error.full_key}=???: a value is required; give it with {error.full_key}=...") from None
    except OmegaConfBaseException as error:
        given = OmegaConf.to_container(cfg, resolve=False)
        raise ConfigError(f"{error.full_key}={show(value_at(given, error.full_key))}: {first_line(error)}") from None
    return cast(dict[str, Any], plain)


def _check_targets(path: str, node: Any, allowed: Sequence[str]) -> None:
    children: Iterable[tuple[str, Any]] = ()
    if isinstance(node, dict):
        target = node.get("_target_")
        if target is not None and not (isinstance(target, str) and is_allowed(target, allowed)):
            raise ConfigError(
                f"{path}._target_={show(target)}: only classes of {', '.join(('mimicpipe', *map(str, allowed)))} are "
                "built; add its package to allowed_targets if you trust it"
            )
        children = ((f"{path}.{k}", v) for k, v in node.items())
    elif isinstance(node, list):
        children = ((f"{path}[{i}]", v) for i, v in enumerate(node))
    for child_path, child in children:
        _check_targets(child_path, child, allowed)


def _check_task(task: dict[str, Any]) -> None:
    if task["variants"] and task["variant"] not in task["variants"]:
        raise ConfigError(f"task.variant={task['variant']}: {suggest(task['variant'], task['variants'])}")
    limit = task["max_episode_steps"]
    steps = {"task.hold_steps": task["hold_steps"], "task.datagen.settle_steps": task["datagen"]["settle_steps"]}
    for eef, nodes in task["subtasks"].items():
        for number, node in enumerate(nodes):
            _check_strategy(f"task.subtasks.{eef}[{number}].selection_strategy", node["selection_strategy"])
            for key in ("num_interpolation_steps", "num_fixed_steps", "num_settle_steps"):
                steps[f"task.subtasks.{eef}[{number}].{key}"] = node[key]
    for key, value in steps.items():
        if value > limit:
            raise ConfigError(f"{key}={value}: more than task.max_episode_steps={limit}, so no attempt could succeed")


def _check_strategy(key: str, strategy: Any) -> None:
    if isinstance(strategy, dict):
        if not isinstance(strategy.get("_target_"), str):
            raise ConfigError(f"{key}={show(strategy)}: a mapping needs a _target_, the function or class to use")
    elif strategy not in Selection.__members__:
        names = ", ".join(Selection.__members__)
        raise ConfigError(f"{key}={show(strategy)}: expected one of {names}, or a mapping with _target_")
