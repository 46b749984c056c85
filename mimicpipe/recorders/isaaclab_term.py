"""The recorder inside somebody's own Isaac Lab environment: a term of its `RecorderManager` that writes LeRobot.

    cfg.recorders = LeRobotRecorderManagerCfg()
    cfg.recorders.lerobot.root = "datasets/lift"
    cfg.recorders.lerobot.task = "Lift the cube."

Observations before each step and its action are kept on the env's device. When the manager exports slots' episodes (as
it does before a reset, or as its `export_episodes` is called), they are copied to the host, and a thread makes them
durable while the simulator goes on. Closing the environment makes the dataset of them. What a killed process leaves
becomes a dataset with `python -m mimicpipe.tools.recover ROOT`.

Needs the extra `isaaclab`; nothing else of mimicpipe imports this module.
"""

import logging
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from isaaclab.managers import (
    DatasetExportMode,
    RecorderManager,
    RecorderManagerBaseCfg,
    RecorderTerm,
    RecorderTermCfg,
)
from isaaclab.utils import configclass
from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.envs.isaaclab.features import ObservationMap
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.hdf5_notes import NOTE, array_to_json
from mimicpipe.recorders.staging import check_repo_id, check_root

_log = logging.getLogger("mimicpipe")

_FIRST_CAPACITY = 64
"""Steps for which buffers have room at first; they double when an episode is longer."""
_NOTHING = (None, None)
_SUCCEEDED = DatasetExportMode.EXPORT_SUCCEEDED_ONLY


class RolloutBuffers:
    """The episodes in progress of all slots, as `recorders.payload` takes them.

    Args:
        num_envs: number of slots.
        device: of the buffers.
    """

    def __init__(self, num_envs: int, device: torch.device | str) -> None:
        self.num_envs = num_envs
        self.lengths = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.metadata: dict[int, dict[str, Any]] = {}
        self._slots = torch.arange(num_envs, device=device)
        self._longest = 0
        self._columns: dict[str, Tensor] = {}

    @property
    def rollout_buffer(self) -> dict[str, Any]:
        """`obs` {feature: (N, T, ...)} and `actions` (N, T, A)."""
        columns = dict(self._columns)
        return {"actions": columns.pop("action"), "obs": columns}

    def episode_length(self, env_id: int) -> int:
        """Frames of a slot's episode so far."""
        return int(self.lengths[env_id])

    def get_demo_episode_metadata(self, env_id: int) -> dict[str, Any]:
        """What is kept with a slot's episode."""
        return self.metadata.get(env_id, {})

    def add(self, columns: Mapping[str, Tensor]) -> None:
        """Append a frame to every slot's episode: {feature: (N, ...)}."""
        if not self._columns:
            self._columns = {
                name: value.new_empty((self.num_envs, 0, *value.shape[1:])) for name, value in columns.items()
            }
        capacity = next(iter(self._columns.values())).shape[1]
        if self._longest >= capacity:  # an upper bound that needs no value from the device
            self._longest = int(self.lengths.max())
        if self._longest >= capacity:
            self._grow(max(_FIRST_CAPACITY, 2 * capacity))
        for name, value in columns.items():
            self._columns[name][self._slots, self.lengths] = value
        self.lengths += 1
        self._longest += 1

    def clear(self, env_ids: Sequence[int]) -> None:
        """Forget the episodes of slots."""
        self.lengths[list(env_ids)] = 0

    def _grow(self, capacity: int) -> None:
        for name, old in self._columns.items():
            new = old.new_empty((self.num_envs, capacity, *old.shape[2:]))
            new[:, : old.shape[1]] = old
            self._columns[name] = new


class LeRobotRecorderTerm(RecorderTerm):
    """Hands finished episodes to `AsyncLeRobotRecorder`.

    Columns are those of `env=isaaclab`: `observation.state` (the group `policy`), `observation.<group>`,
    `observation.images.<term>`, and `action`, as it was given to `step`. Quaternions stay as Isaac Lab has them, xyzw
    since version 3. An episode ends where the manager exports it: before its slot's reset, or when somebody calls the
    manager's `export_episodes`; what its `reset` discards is not recorded. It is a success if the termination term or
    `set_success_to_episodes` says so; where neither says anything, nothing is known, and it counts as one. Its initial
    state goes with it, as Isaac Lab's recorders write it.

    Attributes:
        path: the dataset, once the manager has been closed; None without an episode.

    Raises:
        ConfigError: a setting cannot be, or (at the first step) an observation.
    """

    cfg: "LeRobotRecorderTermCfg"

    def __init__(self, cfg: "LeRobotRecorderTermCfg", env: Any) -> None:
        super().__init__(cfg, env)
        self.path: Path | None = None
        self._fps = cfg.fps if cfg.fps is not None else control_rate(env.step_dt)
        if not cfg.root:
            raise ConfigError("recorders.lerobot.root: name the folder of the dataset")
        if not cfg.task:
            raise ConfigError("recorders.lerobot.task: name the instruction, e.g. 'Lift the cube.'")
        check_root(cfg.root, cfg.overwrite)
        check_repo_id(cfg.repo_id)
        self._buffers = RolloutBuffers(env.num_envs, env.device)
        self._observations: ObservationMap | None = None
        self._recorder: AsyncLeRobotRecorder | None = None
        self._hears_exports = False
        self._ending: dict[int, bool | None] = {}
        """What the termination term says of slots that are about to be reset; None: nothing."""

    def reset(self, env_ids: Sequence[int] | None = None) -> dict[str, Any]:
        """Forget the episodes in progress of slots, as the manager does."""
        ids = self._ids(env_ids)
        self._buffers.clear(ids)
        for env_id in ids:
            self._ending.pop(env_id, None)
        return {}

    def record_pre_step(self) -> tuple[None, None]:
        """Keep what the slots show, and what they are about to do."""
        self._hear_exports()
        action = self._env.action_manager.action
        if self._observations is None:
            self._observations = ObservationMap(self._env.obs_buf)
            self._recorder = self._started(self._observations, action)
        frame = self._observations.observe(self._env.obs_buf, slice(None))
        self._buffers.add({**frame, "action": action.to(torch.float32)})
        return _NOTHING

    def record_pre_reset(self, env_ids: Sequence[int] | None) -> tuple[None, None]:
        """Look whether slots that are about to be reset have succeeded; the manager exports their episodes next."""
        self._hear_exports()
        ids = self._ids(env_ids)
        self._ending.update(zip(ids, self._success(ids), strict=True))
        return _NOTHING

    def export(self, manager: RecorderManager, env_ids: Sequence[int] | slice | None) -> None:
        """Commit the episodes of slots, which the manager is about to export."""
        ids = self._ids(env_ids)
        ended = [env_id for env_id in ids if self._buffers.episode_length(env_id) > 0]
        if ended and self._recorder is not None and self.path is None:
            success = {env_id: self._succeeded(manager, env_id) for env_id in ended}
            for env_id, succeeded in success.items():
                self._buffers.metadata.setdefault(env_id, {})["success"] = succeeded
            every = not (self.cfg.success_only or manager.cfg.dataset_export_mode == _SUCCEEDED)
            self._recorder(self._buffers, [env_id for env_id in ended if every or success[env_id]])
        self._buffers.clear(ids)
        for env_id in ids:
            self._ending.pop(env_id, None)

    def _succeeded(self, manager: RecorderManager, env_id: int) -> bool:
        """Whether an episode that ends is a success.

        Before a reset the manager says no of every slot of which it knows nothing; else what it says was told to it.
        """
        told = manager.get_episode(env_id).success
        if env_id in self._ending:
            return self._ending[env_id] in (True, None) or bool(told)
        if told is not None:
            return bool(told)
        return self._success([env_id])[0] is not False

    def _hear_exports(self) -> None:
        """Be told of the manager's exports from now on; it tells no term of them."""
        if self._hears_exports:
            return
        self._hears_exports = True
        manager = self._env.recorder_manager
        known = weakref.ref(manager)  # the manager is closed as its last reference goes

        def export_episodes(env_ids: Any = None, demo_ids: Sequence[int] | None = None) -> None:
            manager = known()
            assert manager is not None
            self.export(manager, env_ids)
            type(manager).export_episodes(manager, env_ids, demo_ids)

        manager.export_episodes = export_episodes

    def record_post_reset(self, env_ids: Sequence[int] | None) -> tuple[None, None]:
        """Keep the states in which episodes begin."""
        state = _flat("initial_state", self._env.scene.get_state(is_relative=True))
        host = {path: value.detach().cpu().numpy() for path, value in state.items()}
        for env_id in self._ids(env_ids):
            arrays = {path: array_to_json(values[env_id : env_id + 1]) for path, values in host.items()}
            self._buffers.metadata[env_id] = {NOTE: {"arrays": arrays}}
        return _NOTHING

    def close(self, file_path: str) -> None:
        """Complete the dataset; episodes in progress are dropped. Idempotent.

        Raises:
            RecorderError: episodes that could not be written, each by its slot.
        """
        del file_path
        if self._recorder is None:
            return
        unfinished = int((self._buffers.lengths > 0).sum())
        if unfinished and self.path is None:
            _log.info("%s: %d episodes in progress are not recorded", self.cfg.root, unfinished)
        self.path = self._recorder.finalize()

    def _started(self, observations: ObservationMap, action: Tensor) -> AsyncLeRobotRecorder:
        cfg = self.cfg
        if cfg.success_only and self._success_term() is None:
            raise ConfigError(
                f"recorders.lerobot.success_only: the environment has no termination term {cfg.success_term!r}; name "
                "it in recorders.lerobot.success_term"
            )
        return AsyncLeRobotRecorder(
            cfg.root,
            cfg.repo_id,
            self._fps,
            {**observations.features, "action": Feature("float32", tuple(action.shape[1:]))},
            robot_type=cfg.robot_type,
            use_videos=cfg.use_videos,
            overwrite=cfg.overwrite,
            run_info={"name": type(self._env).__name__, "seed": getattr(self._env.cfg, "seed", None)},
            instruction=cfg.task,
            async_queue_maxsize=cfg.async_queue_maxsize,
            max_queue_bytes=cfg.max_queue_bytes,
            workers=cfg.workers,
        )

    def _success_term(self) -> Tensor | None:
        manager = getattr(self._env, "termination_manager", None)
        if manager is None or self.cfg.success_term not in manager.active_terms:
            return None
        return manager.get_term(self.cfg.success_term)

    def _success(self, env_ids: Sequence[int]) -> list[bool | None]:
        term = self._success_term()
        return [None] * len(env_ids) if term is None else term[list(env_ids)].bool().tolist()

    def _ids(self, env_ids: Any) -> list[int]:
        if env_ids is None:
            return list(range(self._env.num_envs))
        if isinstance(env_ids, slice):
            return list(range(self._env.num_envs))[env_ids]
        return env_ids.tolist() if isinstance(env_ids, Tensor) else [int(env_id) for env_id in env_ids]


def finalize(env: Any) -> Path | None:
    """Complete the dataset of an environment that is recorded by the term, and name it; None without an episode.

    `env.close()` completes it, too, but as its recorder manager is deleted, where Python only prints what goes wrong.

    Raises:
        ConfigError: no such term is among the environment's recorders.
        RecorderError: episodes that could not be written, each by its slot.
    """
    terms = getattr(env.recorder_manager, "_terms", {}).values()  # the manager has no public way to them
    for term in terms:
        if isinstance(term, LeRobotRecorderTerm):
            term.close("")
            return term.path
    raise ConfigError("the environment's recorders have no LeRobotRecorderTerm; set cfg.recorders before it is made")


def control_rate(step_dt: float) -> int:
    """Control steps per second, which a dataset wants whole.

    Raises:
        ConfigError: it is not.
    """
    rate = 1.0 / step_dt
    if rate < 0.5 or abs(rate - round(rate)) > 1e-3:
        raise ConfigError(f"recorders.lerobot.fps: a step takes {step_dt:g} s, {rate:g} Hz; name a whole rate")
    return round(rate)


def _flat(prefix: str, value: Any) -> dict[str, Tensor]:
    """{path: tensor} of nested mappings."""
    if not isinstance(value, Mapping):
        return {prefix: value if isinstance(value, Tensor) else value.torch}
    return {path: item for key, nested in value.items() for path, item in _flat(f"{prefix}/{key}", nested).items()}


@configclass
class LeRobotRecorderTermCfg(RecorderTermCfg):
    """Settings of the term; those without a word here are as of `AsyncLeRobotRecorder`."""

    class_type: type = LeRobotRecorderTerm
    root: str = ""
    """Folder of the dataset, which must not exist, unless `overwrite`."""
    task: str = ""
    """Instruction of every episode."""
    repo_id: str = "local/isaaclab"
    fps: int | None = None
    """Control rate, Hz; None: what the environment's step takes."""
    robot_type: str | None = None
    success_only: bool = False
    """Leave out episodes that are no success, as EXPORT_SUCCEEDED_ONLY as `dataset_export_mode` does, too."""
    success_term: str = "success"
    """Termination term that tells successes."""
    use_videos: bool = True
    overwrite: bool = False
    async_queue_maxsize: int = 0
    max_queue_bytes: int | None = 1 << 30
    workers: int = 0


@configclass
class LeRobotRecorderManagerCfg(RecorderManagerBaseCfg):
    """`cfg.recorders` with this term alone; Isaac Lab itself writes no HDF5 file then."""

    dataset_export_mode: DatasetExportMode = DatasetExportMode.EXPORT_NONE
    lerobot: LeRobotRecorderTermCfg = LeRobotRecorderTermCfg()
