"""A trained policy on the disk: `policy.json`, and for `bc` its numbers in `weights.safetensors`.

Neither can run code when it is read. The folder appears in one rename, complete. It says what the policy needs: the
names of the columns it reads, their scales, the control rate, and the run whose simulator it was trained for.
"""

import itertools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mimicpipe.config import RunConfig
from mimicpipe.errors import ConfigError
from mimicpipe.recorders.staging_area import sync_tree
from mimicpipe.tools.saved_run import config_of
from mimicpipe.training.bc_policy import BcPolicy
from mimicpipe.training.columns import Demos
from mimicpipe.training.fit import BcSettings, Fitted
from mimicpipe.training.inputs import InputEncoder
from mimicpipe.training.kinds import NOTES

WEIGHTS = "weights.safetensors"
_FORMAT = 1
_DATASET_KEYS = ("episodes", "frames", "longest", "run_seeds", "attempt_seeds")


@dataclass(frozen=True)
class Notes:
    """What is known of a checkpoint beside its weights."""

    policy: str
    """bc, act or diffusion."""
    config: dict[str, Any]
    """Of the run that made the dataset, `RunConfig.to_dict`."""
    dataset: dict[str, Any]
    """episodes, frames, and the seeds of the runs and of the attempts of what was learned from."""
    fps: float
    names: dict[str, list[str]]
    """{feature: names}: the observations that it reads, and `action`."""
    training: dict[str, Any]
    """Settings, seed, last loss."""

    def run_config(self) -> RunConfig:
        """The config of the run that made the dataset."""
        return config_of(self.config)


def notes_of(policy: str, config: RunConfig, demos: Demos, training: Mapping[str, Any]) -> Notes:
    """What a checkpoint keeps of the data and of the run that made it."""
    dataset = {
        "episodes": len(demos.lengths),
        "frames": int(demos.lengths.sum()),
        "longest": int(demos.lengths.max()),
        "run_seeds": list(demos.run_seeds),
        "attempt_seeds": list(demos.seeds),
    }
    names = {name: list(own) for name, own in demos.names.items()}
    return Notes(policy, config.to_dict(), dataset, demos.fps, names, dict(training))


def write_notes(folder: Path, notes: Notes) -> None:
    """Write `policy.json` into a folder that is there, in one step."""
    text = json.dumps({"format": _FORMAT, **asdict(notes)}, indent=1)
    growing = folder / f".{NOTES}.new"
    growing.write_text(text + "\n", encoding="utf-8")
    os.replace(growing, folder / NOTES)


def read_notes(folder: Path) -> Notes:
    """What a checkpoint says of itself.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = folder / NOTES
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        found = plain.pop("format")
        if found != _FORMAT:
            raise ConfigError(f"{path}: format {found}, this version reads {_FORMAT}; train the policy again")
        notes = Notes(**plain)
        if missing := [key for key in _DATASET_KEYS if key not in notes.dataset]:
            raise ConfigError(f"{path}: dataset has no {missing[0]}; train the policy again")
        return notes
    except OSError:
        raise ConfigError(
            f"{folder}: no checkpoint (no {NOTES}); make one with python -m mimicpipe.tools.train"
        ) from None
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); train the policy again") from None


def save_bc(folder: Path, fitted: Fitted, member: int, notes: Notes) -> None:
    """Write one member of what was trained, in one step.

    Args:
        folder: where to; must not exist.
        fitted: what `fit` gave.
        member: which of its policies.
        notes: all else.

    Raises:
        ConfigError: the folder is there.
    """
    from safetensors.torch import save_file

    if folder.exists():
        raise ConfigError(f"{folder}: is there already; remove it, or name another folder")
    tensors = {f"layers.{i}.weight": weight[member].contiguous() for i, (weight, _) in enumerate(fitted.layers)}
    tensors |= {f"layers.{i}.bias": bias[member, 0].contiguous() for i, (_, bias) in enumerate(fitted.layers)}
    for name, scaling in (("inputs", fitted.inputs), ("actions", fitted.actions)):
        tensors |= {f"{name}.mean": scaling.mean, f"{name}.std": scaling.std}
    folder.parent.mkdir(parents=True, exist_ok=True)
    growing = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    growing.mkdir()
    try:
        save_file(tensors, growing / WEIGHTS)
        write_notes(growing, notes)
        sync_tree(growing)
        growing.rename(folder)
    finally:
        shutil.rmtree(growing, ignore_errors=True)


def load_bc(folder: Path, notes: Notes) -> BcPolicy:
    """The policy of a checkpoint of type bc.

    Raises:
        ConfigError: weights that are missing, damaged or of another shape than `policy.json` says.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / WEIGHTS
    encoder = InputEncoder({name: own for name, own in notes.names.items() if name.startswith("observation.")})
    try:
        settings = BcSettings(**notes.training["settings"])
        tensors = load_file(path)
        layers = [
            (_array(tensors[f"layers.{i}.weight"]), _array(tensors[f"layers.{i}.bias"]))
            for i in range(settings.depth + 1)
        ]
        scales = [(_array(tensors[f"{name}.mean"]), _array(tensors[f"{name}.std"])) for name in ("inputs", "actions")]
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); train the policy again") from None
    found = [layer[0].shape for layer in layers]
    wanted = settings.widths(encoder.width, len(notes.names["action"]))
    if found != list(itertools.pairwise(wanted)):
        raise ConfigError(f"{path}: layers {found}, {NOTES} says {wanted}; the two files belong to different policies")
    return BcPolicy(encoder, layers, scales[0], scales[1], settings)


def check_matches(notes: Notes, observation_names: Mapping[str, Sequence[str] | None], action: Sequence[str]) -> None:
    """Refuse an env that does not show what the policy reads, or that acts in another way.

    Raises:
        ConfigError: which column differs.
    """
    given = {**{name: list(own or ()) for name, own in observation_names.items()}, "action": list(action)}
    for name, own in notes.names.items():
        if given.get(name) != own:
            raise ConfigError(
                f"the policy was trained with {name} = {', '.join(own)}; the simulator has "
                f"{', '.join(given[name]) if given.get(name) else 'no such column'}; "
                "play it in the task, env and env.control that its dataset came from"
            )


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.numpy(), np.float32)
