"""The config of a run that has been, from its output folder: for tools that build its simulator again."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from mimicpipe.config import DatasetConfig, RunConfig, check
from mimicpipe.errors import ConfigError
from mimicpipe.preflight import FAILED_SUFFIX


def saved_config(folder: Path) -> RunConfig:
    """The config of a run, as run.json has it, or else Hydra's files, which are there from the start.

    Args:
        folder: the run's output folder.

    Raises:
        ConfigError: neither is there, or it cannot be read.
    """
    try:
        plain: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return composed_config(folder)
    return config_of(plain)


def config_of(plain: dict[str, Any]) -> RunConfig:
    """The config that `RunConfig.to_dict` has made plain."""
    known = {field.name for field in fields(RunConfig)}
    config = RunConfig(**{name: value for name, value in plain.items() if name in known})
    config.dataset = DatasetConfig(**plain["dataset"])
    return config


def composed_config(folder: Path) -> RunConfig:
    """The config from `.hydra/`, checked.

    Raises:
        ConfigError: it is not there, or not valid.
    """
    from hydra.core.utils import setup_globals
    from omegaconf import DictConfig, OmegaConf

    try:
        saved, own = (OmegaConf.load(folder / ".hydra" / name) for name in ("config.yaml", "hydra.yaml"))
    except OSError:
        raise ConfigError(f"{folder}: no output folder of a run (no run.json with a config, no .hydra/)") from None
    assert isinstance(saved, DictConfig)
    saved.setdefault("cluster", {})  # of a run from before there was this group
    # Hydra's own resolver knows the job of this process only.
    OmegaConf.register_new_resolver("hydra", lambda key: OmegaConf.select(own, f"hydra.{key}"), replace=True)
    try:
        return check(saved)
    finally:
        setup_globals()


def dataset_roots(folder: Path, config: RunConfig) -> list[Path]:
    """Where a run's datasets are, or would be: that of demos, and that of failed attempts."""
    root = Path(config.dataset.root)
    beside = folder / root.name
    if not root.exists() and beside.exists():
        root = beside  # the output folder has been moved, with the dataset in it
    return [root, root.with_name(root.name + FAILED_SUFFIX)]
