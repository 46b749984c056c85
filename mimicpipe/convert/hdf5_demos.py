"""Demos of an HDF5 file as episodes: the columns of a scan, and what is noted of each beside them."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from mimicpipe.convert.hdf5_scan import ACTIONS, OWN_STATE, Key
from mimicpipe.convert.names import feature_of
from mimicpipe.convert.quaternions import Quaternions
from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pipeline.episode import Episode, Outcome, first_nonfinite
from mimicpipe.pools.hdf5_access import child, read_array, read_number, read_text
from mimicpipe.pools.names import listing
from mimicpipe.recorders.hdf5_notes import LARGEST, NOTE, array_to_json, attributes_to_json
from mimicpipe.recorders.payload import UNKNOWN_SEED

STATE = "observation.state"
"""What LeRobot's policies look at."""
ROW = ("attempt", "reason", "source_demos", "metadata")
"""Attributes by which a demo is known to be one of mimicpipe's."""
_DERIVED = frozenset({"num_samples", "success", "seed", "task", *ROW})
_WIDER = {"float16": "float32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
"""LeRobot's tensors have none of these; the wider type holds the same numbers."""


@dataclass(frozen=True)
class Plan:
    """How demos become episodes.

    Attributes:
        keys: {feature: key in the demo}.
        features: {feature: as LeRobot has it}.
        whole: keys kept whole with each episode.
        quaternions: their order.
        task: instruction of every episode; None: each demo's own.
        default_task: of demos that have none.
        state: features that stand side by side in `observation.state`, too; none: there is no such column.
        left_out: {key or attribute: why}, filled in while demos are read.
    """

    keys: Mapping[str, Key]
    features: Mapping[str, Feature]
    whole: Sequence[str]
    quaternions: Quaternions
    task: str | None
    default_task: str | None
    state: Sequence[str] = ()
    left_out: dict[str, str] = field(default_factory=dict)


def feature_for(key: Key, known: Mapping[str, Any] | None) -> tuple[str, Feature]:
    """(name, feature) of a column; `known` is what the file says of it, if it was made from a dataset."""
    names = tuple(known["names"]) if known and known.get("names") else None
    if key.is_camera:
        kind = "image" if key.dtype == "uint8" else "depth"
        return _name(key, known), Feature(kind, key.shape)
    shape = key.shape or (1,)
    said = known.get("shape") if known else None
    if isinstance(said, list) and all(type(size) is int for size in said) and math.prod(said) == math.prod(shape):
        shape = tuple(said)  # else the file was changed after it was made
    if names is not None and len(names) != (shape[0] if shape else 1):
        names = None
    return _name(key, known), Feature(_WIDER.get(key.dtype, key.dtype), shape, names)


def _name(key: Key, known: Mapping[str, Any] | None) -> str:
    name = known["name"] if known else feature_of(key.path, key.is_camera)
    assert name is not None  # the scan has left out what has none
    return name


def state_feature(keys: Mapping[str, Key], patterns: Sequence[str]) -> tuple[list[str], Feature | None]:
    """(features that match, `observation.state` made of them); nothing without patterns.

    Raises:
        ConfigError: none matches, or there is such a feature already.
    """
    if not patterns:
        return [], None
    chosen = [
        name
        for name, key in keys.items()
        if key.path != ACTIONS and len(key.shape) < 2 and any(fnmatchcase(key.path, p) for p in patterns)
    ]
    if not chosen or STATE in keys:
        why = f"there is a feature {STATE} already" if STATE in keys else f"no vector is called like {patterns[0]}"
        raise ConfigError(f"--state: {why}; the file has {listing([key.path for key in keys.values()])}")
    names: list[str] = []
    for name in chosen:
        tail, width = name.removeprefix("observation."), keys[name].shape
        names += [f"{tail}_{element}" for element in range(width[0])] if width else [tail]
    return chosen, Feature("float32", (len(names),), tuple(names))


def read_episode(data: h5py.Group, name: str, where: str, plan: Plan, place: int, index: int) -> Episode:
    """Read and check one demo.

    Args:
        data: the group it is in.
        name: its name.
        where: file and demo, for messages.
        plan: what to read.
        place: its place among the demos of the file.
        index: the episode that it becomes.

    Raises:
        SourceDemoError: it is damaged, or its numbers are not finite.
    """
    demo = child(data, name, where)
    if not isinstance(demo, h5py.Group):
        raise SourceDemoError(f"{where}: is no group")
    columns = {feature: _column(demo, key, where, plan.quaternions) for feature, key in plan.keys.items()}
    if plan.state:
        flat = [columns[feature].reshape(len(columns[feature]), -1).to(torch.float32) for feature in plan.state]
        columns[STATE] = torch.cat(flat, dim=1)
    lengths = {feature: len(column) for feature, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise SourceDemoError(f"{where}: columns of different lengths: {lengths}")
    if (problem := first_nonfinite(columns)) is not None:
        raise SourceDemoError(f"{where}: {problem}")
    known, state = _own_row(demo, where), _state(demo, where, plan)
    success = read_number(demo, "success", where) != 0.0
    seed = read_number(demo, "seed", where)
    outcome = Outcome(
        attempt=known["attempt"] if known else place,
        slot=0,
        seed=_seed(demo, seed),
        success=success,
        reason=known["reason"] if known else "success" if success else "not_successful",
        length=next(iter(lengths.values())),
        source_demos=known["source_demos"] if known else [],
    )
    metadata = dict(known["metadata"]) if known else {}
    note = _note(demo, name, where, plan, known is not None, state is not None)
    if known is None or note.keys() - {"demo"} or name != f"demo_{index}":
        metadata[NOTE] = note
    task = plan.task or _task(demo, where) or plan.default_task
    if task is None:
        raise SourceDemoError(f"{where}: no task text in the file; give it with --task 'Pick up the cube.'")
    state = torch.from_numpy(state) if state is not None else torch.zeros(0, dtype=torch.float64)
    return Episode(outcome, columns, task, state, metadata, finite=True)


def _column(demo: h5py.Group, key: Key, where: str, quaternions: Quaternions) -> Tensor:
    dataset = child(demo, key.path, f"{where}: {key.path}")
    if not isinstance(dataset, h5py.Dataset):
        raise SourceDemoError(f"{where}: {key.path}: is gone; the file is being changed")
    values = quaternions.apply(key.path, read_array(dataset, f"{where}: {key.path}"))
    if values.dtype.name != key.dtype or values.shape[1:] != key.shape:
        raise SourceDemoError(
            f"{where}: {key.path}: has become {values.dtype} {values.shape}; the file is being changed"
        )
    if key.dtype == "uint64" and values.max() > np.uint64(np.iinfo(np.int64).max):
        raise SourceDemoError(f"{where}: {key.path}: {values.max()} does not fit in int64, LeRobot's largest")
    dtype = values.dtype if key.is_camera else _WIDER.get(key.dtype, key.dtype)
    return torch.from_numpy(np.ascontiguousarray(values.astype(dtype, copy=False)))


def _own_row(demo: h5py.Group, where: str) -> dict[str, Any] | None:
    """What mimicpipe's recorders keep of an episode; None of a demo that is not theirs."""
    texts = {name: read_text(demo, name, where) for name in ("reason", "source_demos", "metadata")}
    attempt = read_number(demo, "attempt", where) if all(texts.values()) else None
    if attempt is None:
        return None
    try:
        demos, metadata = json.loads(texts["source_demos"] or ""), json.loads(texts["metadata"] or "")
    except ValueError:
        return None
    if not isinstance(demos, list) or not isinstance(metadata, dict):
        return None
    return {"attempt": int(attempt), "reason": texts["reason"], "source_demos": demos, "metadata": metadata}


def _seed(demo: h5py.Group, seed: float | None) -> int:
    exact = UNKNOWN_SEED if seed is None else int(np.asarray(demo.attrs["seed"]).reshape(())[()])
    return exact if -(2**63) <= exact < 2**63 else UNKNOWN_SEED


def _state(demo: h5py.Group, where: str, plan: Plan) -> np.ndarray | None:
    """The simulator's state at the beginning, of a demo of mimicpipe's."""
    if OWN_STATE not in plan.whole:
        return None
    node = child(demo, OWN_STATE, f"{where}: {OWN_STATE}")
    values = read_array(node, f"{where}: {OWN_STATE}") if isinstance(node, h5py.Dataset) else None
    fits = values is not None and values.ndim == 1 and values.dtype == np.float64 and bool(np.isfinite(values).all())
    return values if fits else None


def _note(demo: h5py.Group, name: str, where: str, plan: Plan, is_own: bool, has_state: bool) -> dict[str, Any]:
    derived = _DERIVED if is_own else frozenset({"task"} if isinstance(read_text(demo, "task", where), str) else ())
    attributes, left_out = attributes_to_json(demo, where, derived)
    plan.left_out.update({f"attribute {attribute}": "is too large, or no number or text" for attribute in left_out})
    note: dict[str, Any] = {"demo": name} | ({} if is_own else {"foreign": True})
    note |= {"attributes": attributes} if attributes else {}
    arrays = {}
    for path in plan.whole:
        if path == OWN_STATE and has_state:
            continue
        node = child(demo, path, f"{where}: {path}")
        if not isinstance(node, h5py.Dataset):
            continue
        if node.size is not None and node.size * node.dtype.itemsize > LARGEST:
            plan.left_out[path] = "has no row for each action, and is too large to be kept beside them"
            continue
        arrays[path] = array_to_json(plan.quaternions.apply(path, read_array(node, f"{where}: {path}")))
    return note | ({"arrays": arrays} if arrays else {})


def _task(demo: h5py.Group, where: str) -> str | None:
    """A demo's own instruction: attribute `task`, or RoboCasa's `lang` in `ep_meta`."""
    if text := read_text(demo, "task", where):
        return text
    try:
        meta = json.loads(read_text(demo, "ep_meta", where) or "{}")
    except ValueError:
        return None
    text = meta.get("lang") if isinstance(meta, dict) else None
    return text if isinstance(text, str) and text else None
