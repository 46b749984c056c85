"""What an HDF5 file of demos says of itself: rate, robot, masks, and the dataset it may have been made from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mimicpipe.convert.options import Options
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5_access import child, child_names, guarded, read_number, read_text
from mimicpipe.recorders.finished_hdf5 import HEADER
from mimicpipe.recorders.hdf5_columns import path_of
from mimicpipe.recorders.hdf5_notes import attributes_to_json

LEROBOT = "lerobot"
"""Attribute of the group `data`: the LeRobot dataset that a conversion has made the file from, as JSON."""
_MASKS_BYTES = 1 << 26


@dataclass
class Head:
    """Beside the demos.

    Attributes:
        fps: control rate, Hz; None where nothing tells it.
        fps_source: what tells it.
        env_args: robomimic's, parsed; empty without any.
        known: {key: {"name", "shape", "names"}} of a file that was made from a dataset.
        robot_type, run_info: of that dataset.
        masks: {name: demos}, robomimic's.
        version: Isaac Lab's `format_version`.
        file_attributes, data_attributes: as JSON.
        left_out: attributes that cannot be kept.
    """

    fps: float | None = None
    fps_source: str = ""
    env_args: dict[str, Any] = field(default_factory=dict)
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    robot_type: str | None = None
    run_info: dict[str, Any] = field(default_factory=dict)
    quaternions: str | None = None
    masks: dict[str, list[str]] = field(default_factory=dict)
    version: float | None = None
    file_attributes: dict[str, Any] = field(default_factory=dict)
    data_attributes: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def read_head(file: h5py.File, data: h5py.Group, path: Path) -> Head:
    """Read it.

    Raises:
        SourceDemoError: it is damaged.
    """
    head = Head(version=read_number(file, "format_version", str(path)), masks=_masks(file, path))
    head.file_attributes, lost = attributes_to_json(file, str(path), frozenset())
    without = frozenset({HEADER, LEROBOT, "total"})
    head.data_attributes, also_lost = attributes_to_json(data, f"{path}: data", without)
    head.left_out = [f"attribute {name}" for name in (*lost, *also_lost)]
    head.env_args = _json(data, "env_args", f"{path}: data")
    _read_known(head, data, path)
    if head.fps is None:
        head.fps, head.fps_source = _rate(head.env_args)
    return head


def frame_rate(head: Head, options: Options) -> tuple[int, str]:
    """(frames per second, who says so).

    Raises:
        ConfigError: nobody does, or it is not whole.
    """
    rate, source = (options.fps, "--fps") if options.fps is not None else (head.fps, head.fps_source)
    if rate is None:
        raise ConfigError("fps: the file does not tell its control rate; give it with --fps")
    if rate < 0.5 or abs(rate - round(rate)) > 1e-3:
        raise ConfigError(f"fps: {rate:g} Hz ({source}); LeRobot takes whole numbers from 1 up, give one with --fps")
    return round(rate), source


def _read_known(head: Head, data: h5py.Group, path: Path) -> None:
    """Take over what recorder=hdf5, or a conversion from LeRobot, has noted."""
    for attribute in (LEROBOT, HEADER):
        noted = _json(data, attribute, f"{path}: data")
        features = noted.get("features")
        if not isinstance(features, Mapping):
            continue
        try:
            head.known = {
                feature.get("path") or path_of(name): {"name": name, **feature} for name, feature in features.items()
            }
            head.fps, head.fps_source = float(noted["fps"]), f"attribute {attribute}"
            head.robot_type, head.run_info = noted["robot_type"], dict(noted["run_info"] or {})
            head.quaternions = noted.get("quaternions")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SourceDemoError(f"{path}: data: attribute {attribute}: damaged ({error!r})") from None
        return


def _rate(env_args: Mapping[str, Any]) -> tuple[float | None, str]:
    """Control rate as robosuite (`control_freq`), Isaac Lab (`sim_args`) or recorder=hdf5 (`fps`) write it."""
    kwargs, sim = env_args.get("env_kwargs"), env_args.get("sim_args")
    for key in ("fps", "control_freq"):
        if isinstance(kwargs, Mapping) and isinstance(kwargs.get(key), int | float):
            return float(kwargs[key]), f"env_args.env_kwargs.{key}"
    if isinstance(sim, Mapping):
        dt, decimation = sim.get("dt"), sim.get("decimation")
        if isinstance(dt, int | float) and isinstance(decimation, int | float) and dt * decimation > 0:
            return 1.0 / (dt * decimation), "env_args.sim_args (dt, decimation)"
    return None, ""


def _json(node: h5py.HLObject, name: str, where: str) -> dict[str, Any]:
    """A JSON attribute that is an object; empty where it is missing or something else."""
    try:
        found = json.loads(read_text(node, name, where) or "{}")  # ty: ignore[invalid-argument-type]
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _masks(file: h5py.File, path: Path) -> dict[str, list[str]]:
    group = child(file, "mask", f"{path}: mask")
    if not isinstance(group, h5py.Group):
        return {}
    masks = {}
    for name in child_names(group, f"{path}: mask"):
        where = f"{path}: mask/{name}"
        node = child(group, name, where)
        if not isinstance(node, h5py.Dataset):
            continue
        with guarded(where):
            inside = not (node.external or node.is_virtual) and node.dtype.kind in "SO" and node.ndim == 1
            if inside and node.size * max(1, node.dtype.itemsize) <= _MASKS_BYTES:
                masks[name] = [_text(item) for item in np.asarray(node[()]).tolist()]
    return masks


def _text(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
