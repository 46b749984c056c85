"""Schemas of the group `pool`."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import MISSING

from mimicpipe.errors import ConfigError
from mimicpipe.schema import at_least, show

# The functional form because "raise" is a keyword; OmegaConf reads an Enum by its members' names.
OnError = StrEnum("OnError", ["raise", "skip"])
PoseSource = StrEnum("PoseSource", ["features", "fk", "replay"])
TargetSource = StrEnum("TargetSource", ["action", "next_pose"])
QuaternionOrder = StrEnum("QuaternionOrder", ["wxyz", "xyzw"])
GROWING_POOL = "mimicpipe.pools.growing.GrowingPool"
LEROBOT_POOL = "mimicpipe.pools.lerobot.LeRobotPool"
_KINEMATIC_ENV = "mimicpipe.envs.kinematic.KinematicEnv"
_PATH_WORDS = "a path, or a list of paths"
_FEATURE_WORDS = "a feature, or {name: its feature}"


@dataclass
class PoolConfig:
    """`pool`: what every pool has."""

    _target_: str = MISSING
    _convert_: str = "all"
    max_demos: int | None = at_least(1, None)
    on_error: OnError = OnError["raise"]


@dataclass
class FilePoolConfig(PoolConfig):
    """What pools that begin with files have."""

    path: Any = field(default=None, metadata={"words": f"{_PATH_WORDS}, or null"})
    demo_keys: list[str] | None = None


@dataclass
class Hdf5PoolConfig(FilePoolConfig):
    """`pool=hdf5`."""

    frame: list[float] | None = field(
        default=None, metadata={"words": "a list of 3 numbers, or of 7 (with a wxyz quaternion), or null"}
    )
    gripper_scale: float | None = None


@dataclass
class GrowingPoolConfig(FilePoolConfig):
    """`pool=growing`."""

    every: int = at_least(1, 10)
    min_distance: float = at_least(0, 0.02)
    limit: int = at_least(1, 100)
    delay: int = at_least(1, 128)


@dataclass
class LeRobotPoolConfig(PoolConfig):
    """`pool=lerobot`."""

    path: Any = field(default=MISSING, metadata={"words": _PATH_WORDS})
    demo_keys: list[str] | None = None
    poses: PoseSource = PoseSource["features"]
    targets: TargetSource = TargetSource["action"]
    quaternion: QuaternionOrder = QuaternionOrder["wxyz"]
    eef_pose: Any = field(default="observation.eef_pose", metadata={"words": _FEATURE_WORDS})
    object_pose: Any = field(default="observation.environment_state", metadata={"words": _FEATURE_WORDS})
    joints: str = "observation.state"
    gripper_width: str = "observation.state"
    action: str = "action"
    gripper: str = "action"
    gripper_threshold: float | None = None
    signals: dict[str, str] = field(default_factory=dict)


@dataclass
class ScriptedPoolConfig(PoolConfig):
    """`pool=scripted`."""

    num_demos: int = at_least(1, 10)
    seed: int = at_least(0, 0)


POOL_SCHEMAS: dict[str, type] = {
    "mimicpipe.pools.hdf5.Hdf5Pool": Hdf5PoolConfig,
    GROWING_POOL: GrowingPoolConfig,
    LEROBOT_POOL: LeRobotPoolConfig,
    "mimicpipe.pools.scripted.ScriptedPool": ScriptedPoolConfig,
}


def check_pool(run: dict[str, Any]) -> None:
    """Raise ConfigError where a pool's values are of a wrong kind, or cannot serve the run's env."""
    pool = run["pool"]
    if "path" in pool and not _is_paths(pool["path"], optional=pool["_target_"] != LEROBOT_POOL):
        raise ConfigError(f"pool.path={show(pool['path'])}: expected {_PATH_WORDS}")
    if (frame := pool.get("frame")) is not None and len(frame) not in (3, 7):
        raise ConfigError(f"pool.frame={show(frame)}: expected 3 numbers, or 7 with a wxyz quaternion")
    if pool.get("gripper_scale") == 0:
        raise ConfigError(
            "pool.gripper_scale=0: every gripper would stay open; expected 1, -1 or another factor, or null"
        )
    if pool["_target_"] != LEROBOT_POOL:
        return
    for key in ("eef_pose", "object_pose"):
        value = pool[key]
        texts = list(value.values()) if isinstance(value, dict) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise ConfigError(f"pool.{key}={show(value)}: expected {_FEATURE_WORDS}")
    if pool["poses"] == "fk" and run["env"]["_target_"] == _KINEMATIC_ENV:
        raise ConfigError("pool.poses=fk: env=kinematic has no joints; use pool.poses=features, or env=mujoco")


def _is_paths(value: Any, optional: bool) -> bool:
    if value is None:
        return optional
    paths = value if isinstance(value, list) else [value]
    return bool(paths) and all(isinstance(path, str) and path.strip() for path in paths)
