"""Makes a registered Isaac Lab Mimic environment for data generation, and tells what there is where a name is wrong."""

import contextlib
import difflib
import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from torch import Tensor

from mimicpipe.errors import ConfigError

_log = logging.getLogger("mimicpipe")

_CFG_KEY = "env_cfg_entry_point"
_OWN = "mimicpipe.envs.isaaclab.registry"
_REGISTRIES = ("isaaclab_tasks", "isaaclab_mimic.envs")
"""Packages whose import registers Isaac Lab's own environments; it takes seconds."""


def load_cfg(task: str, presets: list[str]) -> Any:
    """The configuration of a registered environment, its presets resolved.

    Args:
        task: a gym id, perhaps `package:id`.
        presets: names to choose where the configuration offers alternatives (`newton_mjwarp`).

    Raises:
        ConfigError: no such id, or not an Isaac Lab Mimic environment.
    """
    from isaaclab.envs.mimic_env_cfg import MimicEnvCfg

    module, _, name = task.rpartition(":")
    importlib.import_module(_OWN)
    if module:
        importlib.import_module(module)
    if name not in gymnasium.registry:
        for package in _REGISTRIES:
            importlib.import_module(package)
    if name not in gymnasium.registry:
        known = sorted(key for key in gymnasium.registry if "Mimic" in key)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ConfigError(f"env.task={task}: no such gym id; {hint}valid: {', '.join(known)}, or package:id")
    from isaaclab_tasks.utils.hydra import resolve_presets
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    if _CFG_KEY not in gymnasium.spec(name).kwargs:
        raise ConfigError(f"env.task={task}: is registered without {_CFG_KEY}, so it is no Isaac Lab environment")
    cfg = resolve_presets(load_cfg_from_registry(name, _CFG_KEY), set(presets))
    if not isinstance(cfg, MimicEnvCfg):
        raise ConfigError(f"env.task={task}: its configuration, {type(cfg).__name__}, is no MimicEnvCfg")
    return cfg


def override(cfg: Any, values: Mapping[str, Any]) -> None:
    """Set fields of a configuration by dotted names.

    Raises:
        ConfigError: no such field.
    """
    for path, value in values.items():
        *parents, last = path.split(".")
        node = cfg
        for name in parents:
            node = _fields(node, name, path)[name]
        _fields(node, last, path)
        if isinstance(node, dict):
            node[last] = value
        else:
            setattr(node, last, value)


def _fields(node: Any, name: str, path: str) -> Mapping[str, Any]:
    fields = node if isinstance(node, Mapping) else vars(node) if hasattr(node, "__dict__") else {}
    if name not in fields:
        valid = ", ".join(sorted(map(str, fields))) or "none"
        raise ConfigError(f"env.overrides.{path}: no field {name}; valid: {valid}")
    return fields


def for_generation(cfg: Any, num_envs: int, device: str, env_spacing: float | None) -> Any:
    """Change a configuration as data generation needs it, and return its success term.

    Episodes end when the pipeline says so, so there are no terminations; mimicpipe records, so there are no recorders.
    Noise of observations is left out: it is drawn for all slots together, and poses may be read from observations.

    Raises:
        ConfigError: the env has no success term.
    """
    from isaaclab.managers.recorder_manager import RecorderManagerBaseCfg

    cfg.sim.device = device
    cfg.scene.num_envs = num_envs
    if env_spacing is not None:
        cfg.scene.env_spacing = env_spacing
    success = getattr(cfg.terminations, "success", None)
    if success is None:
        raise ConfigError("env.task: the environment has no termination term called success, which says what a demo is")
    cfg.terminations = None
    cfg.recorders = RecorderManagerBaseCfg()
    if hasattr(cfg.observations, "policy"):
        cfg.observations.policy.concatenate_terms = False
    _leave_out_noise(cfg.observations)
    _warn_of_events(getattr(cfg, "events", None))
    return success


def _leave_out_noise(observations: Any) -> None:
    noisy = {name: group for name, group in vars(observations).items() if getattr(group, "enable_corruption", False)}
    for group in noisy.values():
        group.enable_corruption = False
    if noisy:
        _log.warning(
            "env=isaaclab: observations are recorded without noise (enable_corruption of %s): it would be drawn for "
            "all slots together, so that no attempt would be a function of its seed",
            ", ".join(noisy),
        )


def _warn_of_events(events: Any) -> None:
    terms = vars(events) if events else {}
    outside = [name for name, term in terms.items() if getattr(term, "mode", None) in ("startup", "interval")]
    if outside:
        _log.warning(
            "env=isaaclab: events outside of resets (%s) draw as they come, so an attempt is no function of its seed",
            ", ".join(outside),
        )


def make(task: str, cfg: Any, stack: contextlib.ExitStack) -> Any:
    """The environment; Isaac Sim is started first where the configuration needs it, and all ends with `stack`."""
    from isaaclab.app import launch_simulation
    from isaaclab.envs import ManagerBasedRLMimicEnv

    stack.enter_context(launch_simulation(cfg, {"headless": True, "device": cfg.sim.device}))
    env = gymnasium.make(task, cfg=cfg).unwrapped
    stack.callback(env.close)
    if not isinstance(env, ManagerBasedRLMimicEnv):
        raise ConfigError(f"env.task={task}: {type(env).__name__} is no ManagerBasedRLMimicEnv")
    return env


def success_of(env: Any, term: Any) -> Callable[[], Tensor]:
    """A function that evaluates a success term: (N,) bool."""
    from isaaclab.managers import ManagerTermBase, SceneEntityCfg

    for value in term.params.values():
        if isinstance(value, SceneEntityCfg):
            value.resolve(env.scene)
    function = term.func
    if isinstance(function, type) and issubclass(function, ManagerTermBase):
        function = function(cfg=term, env=env)
    return lambda: function(env, **term.params).bool()
