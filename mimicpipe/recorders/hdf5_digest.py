"""A hash of what an HDF5 file of demos says, whatever its bytes look like; `recorders.digest` does it for LeRobot.

Two files have the same digest if they have the same demos in the same order: the same attributes, and at the same
places arrays of the same dtype, shape and bits. Chunks, compression and checksums don't count.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5_access import child, child_names, guarded, open_hdf5, read_array
from mimicpipe.pools.names import natural_key
from mimicpipe.recorders.layout import HDF5_NAME

_DEEPEST = 16


def hdf5_file(root: Path) -> Path | None:
    """The HDF5 file that `root` is or holds; None if it is something else."""
    if root.suffix in (".hdf5", ".h5") and root.is_file():
        return root
    return root / HDF5_NAME if (root / HDF5_NAME).is_file() else None


def hdf5_digest_parts(path: Path) -> dict[str, str]:
    """{part of the file: its SHA-256}: `attributes`, and each array's place in a demo, over all demos in order.

    Raises:
        ConfigError: no such file, or one that is damaged or that leads out of itself.
    """
    hashes: dict[str, Any] = {"attributes": hashlib.sha256()}
    try:
        with open_hdf5(path) as file:
            data = child(file, "data", f"{path}: data")
            if not isinstance(data, h5py.Group):
                raise ConfigError(f"{path}: no group 'data'; not in Isaac Lab's or robomimic's layout")
            _add_attributes(hashes["attributes"], data, str(path))
            for name in sorted(child_names(data, str(path)), key=natural_key):
                demo = child(data, name, f"{path}: {name}")
                hashes["attributes"].update(name.encode("utf-8", "surrogateescape"))
                if isinstance(demo, h5py.Group):
                    _add_attributes(hashes["attributes"], demo, f"{path}: {name}")
                    _add_arrays(hashes, demo, f"{path}: {name}", name)
    except SourceDemoError as error:
        raise ConfigError(str(error)) from error
    return {name: hashed.hexdigest() for name, hashed in sorted(hashes.items())}


def _add_arrays(hashes: dict[str, Any], demo: h5py.Group, where: str, name: str) -> None:
    for place, dataset in _arrays(demo, "", where):
        values = read_array(dataset, f"{where}: {place}")
        hashed = hashes.setdefault(place, hashlib.sha256())
        hashed.update(f"{name} {values.dtype.str} {values.shape} ".encode())
        hashed.update(np.ascontiguousarray(values).data)


def _arrays(group: h5py.Group, prefix: str, where: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """(place, array) of everything below a group, in the order of the names."""
    if prefix.count("/") > _DEEPEST:
        raise ConfigError(f"{where}: groups within groups without an end; the demo holds a link to itself")
    for name in sorted(child_names(group, where)):
        node = child(group, name, f"{where}: {prefix}{name}")
        if isinstance(node, h5py.Group):
            yield from _arrays(node, f"{prefix}{name}/", where)
        elif node is not None:
            yield f"{prefix}{name}", node


def _add_attributes(hashed: Any, group: h5py.Group, where: str) -> None:
    with guarded(f"{where}: attributes"):
        for name in sorted(group.attrs):
            value = np.asarray(group.attrs[name])
            hashed.update(json.dumps([name, value.tolist()], default=str).encode())
