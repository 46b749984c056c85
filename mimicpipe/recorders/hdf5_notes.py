"""What an HDF5 demo has beside its frames, as JSON that gives the same back: attributes, and arrays kept whole."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from mimicpipe.pools.hdf5_access import guarded
from mimicpipe.pools.hdf5_writer import set_text

NOTE = "hdf5"
"""Of an episode's metadata: what only the HDF5 layout has (`tools.convert`).

`demo` (its name), `attributes`, `arrays`, and `foreign`, if it was none of mimicpipe's.
"""
LARGEST = 2**20
"""Most bytes of one attribute or array that is kept with an episode."""
_READABLE = 16
_LONG_TEXT = 4096
_ATTRIBUTE_BYTES = 60_000  # HDF5 keeps 64 KiB in an object's header


def array_to_json(values: np.ndarray) -> dict[str, Any]:
    """An array of numbers, exactly."""
    values = np.asarray(values)
    plain = {"dtype": values.dtype.newbyteorder("<").str, "shape": list(values.shape)}
    if values.size <= _READABLE and values.dtype.kind in "biuf" and bool(np.isfinite(values).all()):
        return plain | {"values": values.reshape(-1).tolist()}
    packed = zlib.compress(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes(), 6)
    return plain | {"zlib": base64.b64encode(packed).decode()}


def array_from_json(note: Mapping[str, Any]) -> np.ndarray:
    """Undoes `array_to_json`."""
    dtype = np.dtype(note["dtype"])
    if "values" in note:
        return np.array(note["values"], dtype).reshape(note["shape"])
    return np.frombuffer(zlib.decompress(base64.b64decode(note["zlib"])), dtype).reshape(note["shape"]).copy()


def attributes_to_json(node: h5py.HLObject, where: str, without: frozenset[str]) -> tuple[dict[str, Any], list[str]]:
    """(attributes of a group but those in `without`, names of those that cannot be kept).

    Raises:
        SourceDemoError: they are damaged.
    """
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    with guarded(f"{where}: attributes"):
        found = {name: node.attrs[name] for name in sorted(node.attrs) if name not in without}
    for name, value in found.items():
        note = _to_json(value)
        if note is None:
            left_out.append(name)
        else:
            kept[name] = note
    return kept, left_out


def attributes_from_json(node: h5py.Group, notes: Mapping[str, Any]) -> None:
    """Undoes `attributes_to_json`."""
    for name, note in notes.items():
        if isinstance(note, str):
            node.attrs[name] = note
        elif "text" in note:
            text = zlib.decompress(base64.b64decode(note["text"])).decode()
            node.attrs[name] = text
        elif "bytes" in note:
            set_text(node, name, note["bytes"])
        else:
            node.attrs[name] = array_from_json(note)[()]


def _to_json(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) <= _LONG_TEXT:
            return value
        encoded = value.encode("utf-8", "replace")
        if len(encoded) > LARGEST:
            return None
        return {"text": base64.b64encode(zlib.compress(encoded, 6)).decode()}
    if isinstance(value, bytes):
        return {"bytes": value.decode("utf-8", "replace")} if len(value) <= _ATTRIBUTE_BYTES else None
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8 or array.nbytes > _ATTRIBUTE_BYTES:
        return None
    return array_to_json(array)
