"""Writes source demos in Isaac Lab Mimic's HDF5 layout (see `hdf5_layout`), for Isaac Lab and `pools.hdf5` to read.

The bytes are a function of the demos and of the HDF5 and zlib versions: no time stamps, no addresses, no file names.
HDF5 1.10's object format checksums the metadata, and Fletcher-32 the chunks, so damage is noticed by whoever reads.
"""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.datagen.checks import check_finite, check_info, check_rotations, check_shapes, require_finite
from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5_layout import STATE_KEY, STATES_KEY
from mimicpipe.pools.names import show

LIBVER = ("v110", "v110")
"""Of every file that is written here."""
_CHUNK_BYTES = 2**20
_COMPRESSION_LEVEL = 9


def write_demos(
    path: str | Path,
    demos: Sequence[SourceDemo],
    env_args: Mapping[str, Any],
    *,
    seeds: Sequence[int] | None = None,
) -> None:
    """Write demos as data/demo_0, demo_1, ... in one atomic step; an existing file is replaced.

    Poses, actions and gripper actions are stored as float32, signals as bool, the initial state as float64.

    Args:
        path: the file; missing folders are made.
        demos: in the order they are numbered; at least one.
        env_args: attribute `env_args`, JSON; robomimic expects env_name, type and env_kwargs.
        seeds: attribute `seed` of each demo.

    Raises:
        SourceDemoError: a demo that `read_demos` would refuse; nothing is written then.
        OSError: the file cannot be written; an existing one is left as it was.
    """
    path = Path(path)
    if not demos:
        raise SourceDemoError(f"{path}: no demos to write")
    if seeds is not None and len(seeds) != len(demos):
        raise ValueError(f"{len(seeds)} seeds for {len(demos)} demos")
    for demo in demos:
        _check(demo, f"{path}: {show(demo.name)}")
    image = _file_image(demos, env_args, seeds)
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, image)


def _file_image(demos: Sequence[SourceDemo], env_args: Mapping[str, Any], seeds: Sequence[int] | None) -> bytes:
    """The file's bytes, made in memory: HDF5 does not recover from a write that fails, e.g. on a full disk."""
    with h5py.File("in memory", "w", driver="core", backing_store=False, libver=LIBVER) as file:
        data = file.create_group("data")
        set_text(data, "env_args", json.dumps(dict(env_args), sort_keys=True))
        data.attrs["total"] = np.int64(sum(demo.actions.shape[0] for demo in demos))
        for i, demo in enumerate(demos):
            group = data.create_group(f"demo_{i}")
            if seeds is not None:
                group.attrs["seed"] = np.int64(seeds[i])
            _write_demo(group, demo)
        file.flush()
        return file.id.get_file_image()


def _write_demo(group: h5py.Group, demo: SourceDemo) -> None:
    group.attrs["num_samples"] = np.int64(demo.actions.shape[0])
    group.attrs["success"] = np.bool_(demo.success)
    _write(group, "actions", demo.actions, torch.float32)
    for name, values in demo.observations.items():
        _write(group, f"obs/{name}", values, values.dtype)
    info = demo.info
    for key, arrays in (
        ("eef_pose", info.eef_pose),
        ("object_pose", info.object_poses),
        ("target_eef_pose", info.target_eef_pose),
        ("gripper_action", info.gripper_action),
    ):
        for name, values in arrays.items():
            _write(group, f"obs/datagen_info/{key}/{name}", values, torch.float32)
    for key, arrays in (
        ("subtask_term_signals", info.subtask_term_signals),
        ("subtask_start_signals", info.subtask_start_signals),
    ):
        for name, values in arrays.items():
            _write(group, f"obs/datagen_info/{key}/{name}", values, torch.bool)
    if demo.initial_state is not None:
        _write(group, STATE_KEY, demo.initial_state, torch.float64)
    if demo.states is not None:
        _write(group, STATES_KEY, demo.states, torch.float64)


def _write(group: h5py.Group, key: str, values: Tensor, dtype: torch.dtype) -> None:
    write_array(group, key, np.ascontiguousarray(values.detach().to("cpu", dtype).numpy()), _COMPRESSION_LEVEL)


def write_array(group: h5py.Group, key: str, array: npt.NDArray[np.generic], level: int) -> None:
    """Make a compressed, checksummed dataset of an array (T, ...), T > 0, in the group; `level` of gzip, 0 to 9."""
    row_bytes = max(1, array.nbytes // array.shape[0])
    rows = min(array.shape[0], max(1, _CHUNK_BYTES // row_bytes))
    group.create_dataset(
        key,
        data=array,
        chunks=(rows, *array.shape[1:]),
        compression="gzip",
        compression_opts=level,
        shuffle=True,
        fletcher32=True,
        track_times=False,
    )


def set_text(group: h5py.Group, name: str, text: str) -> None:
    """Set an attribute to a text."""
    # Fixed length: the heap that holds strings of variable length has no checksum.
    encoded = text.encode()
    group.attrs.create(name, np.bytes_(encoded), dtype=h5py.string_dtype("utf-8", max(1, len(encoded))))


def _check(demo: SourceDemo, where: str) -> None:
    if demo.actions.ndim != 2 or 0 in demo.actions.shape:
        raise SourceDemoError(f"{where}: actions: shape {tuple(demo.actions.shape)}, expected (T, A), T and A > 0")
    length = demo.actions.shape[0]
    if demo.success:
        check_info(demo.info, where, length)
    else:  # a failed demo may well lack a signal
        check_shapes(demo.info, where, length)
        check_finite(demo.info, where)
        check_rotations(demo.info, where)
    require_finite(demo.actions, f"{where}: actions")
    for eefs, key in ((demo.info.target_eef_pose, "target_eef_pose"), (demo.info.gripper_action, "gripper_action")):
        if eefs.keys() != demo.info.eef_pose.keys():
            raise SourceDemoError(f"{where}: {key}: has {list(eefs)}, eef_pose has {list(demo.info.eef_pose)}")
    for name, values in demo.observations.items():
        if values.shape[:1] != (length,):
            raise SourceDemoError(f"{where}: obs/{name}: shape {tuple(values.shape)}, expected ({length}, ...)")
    state = demo.initial_state
    if state is not None and (state.ndim != 1 or state.shape[0] == 0 or not bool(torch.isfinite(state).all())):
        raise SourceDemoError(f"{where}: initial_state: expected (S,) finite numbers, got shape {tuple(state.shape)}")
    _check_names(demo, where)


def _check_names(demo: SourceDemo, where: str) -> None:
    info = demo.info
    names = [*info.eef_pose, *info.object_poses, *info.subtask_term_signals, *info.subtask_start_signals]
    for name in [*names, *demo.observations]:
        if not name or "/" in name or "\0" in name or name == ".":
            raise SourceDemoError(f"{where}: {show(name)!r} cannot be a key in HDF5; use a name without '/'")
    if "datagen_info" in demo.observations:
        raise SourceDemoError(f"{where}: obs/datagen_info: the layout's own key; give the observation another name")


def _replace(path: Path, content: bytes) -> None:
    """Put a file in the place of `path`, durable and in one step; nothing is left behind on failure."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
