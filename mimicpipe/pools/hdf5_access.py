"""Guarded access to HDF5 objects: whatever is wrong with a file or in the library is one SourceDemoError line.

A source file may come from anywhere, so nothing here opens a second file (external links, external and virtual
storage), unpickles anything, or allocates far more memory than the stored bytes can account for.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5l  # ty: ignore[missing-module-member]  # compiled, without stubs

from mimicpipe.errors import SourceDemoError

Node = h5py.Group | h5py.Dataset
"""An object in a file."""

# What h5py raises on damaged files. The guarded blocks hold library calls only, so no fault of ours is hidden.
_LIBRARY_ERRORS = (
    OSError,
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)
_MAX_SOFT_LINKS = 16
# DEFLATE cannot expand more than 1032:1 (zlib technical details, "Maximum Compression Factor").
_MAX_EXPANSION = 1100
_UNCHECKED_BYTES = 64 * 2**20
_MAX_CHUNK_BYTES = 2**30


@contextmanager
def guarded(where: str) -> Generator[None]:
    """Turn any failure of the HDF5 library into one SourceDemoError that starts with `where`."""
    try:
        yield
    except _LIBRARY_ERRORS as error:
        raise SourceDemoError(f"{where}: damaged ({_reason(error)}); copy the file again or remove the demo") from error


@contextmanager
def open_hdf5(path: Path) -> Generator[h5py.File]:
    """Open an HDF5 file for reading.

    Raises:
        SourceDemoError: no such file, a directory, no permission, another format, a truncated or damaged file.
    """
    _require_regular_file(path)
    try:
        file = h5py.File(path, "r")
    except _LIBRARY_ERRORS as error:
        raise SourceDemoError(f"{path}: {_why_not_opened(path, error)}") from error
    try:
        yield file
    finally:
        with guarded(str(path)):
            file.close()


def child(group: h5py.Group, name: str, where: str) -> Node | None:
    """The object called `name` in `group`, or None where there is none; follows soft links inside the file only.

    Raises:
        SourceDemoError: the link leaves the file, leads nowhere, or goes in a circle.
    """
    node: Node = group
    pending = name.split("/")[::-1]
    followed = 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        with guarded(where):
            kind, target = _link(node, part) if isinstance(node, h5py.Group) else (None, "")
        if kind is None:
            if followed:
                raise SourceDemoError(f"{where}: a soft link that leads nowhere; store the data itself under this name")
            return None
        if kind == h5l.TYPE_SOFT:
            followed += 1
            if followed > _MAX_SOFT_LINKS:
                raise SourceDemoError(f"{where}: soft links in a circle; store the data itself under this name")
            pending.extend(target.split("/")[::-1])
            part = "/" if target.startswith("/") else "."
        elif kind != h5l.TYPE_HARD:
            raise SourceDemoError(f"{where}: a link out of the file, which is never followed; copy the data into it")
        with guarded(where):
            node = node[_encode(part)] if part != "." else node
    return node


def child_names(group: h5py.Group, where: str) -> list[str]:
    """Names of everything in a group, without opening any of it."""
    with guarded(where):
        return [n if isinstance(n, str) else n.decode("utf-8", "surrogateescape") for n in group]


def read_array(dataset: h5py.Dataset, where: str) -> npt.NDArray[np.generic]:
    """The whole content of a numeric dataset, in the machine's byte order.

    Raises:
        SourceDemoError: stored in other files, not numbers, damaged, or declared far larger than what is stored.
    """
    with guarded(where):
        external, virtual, dtype = dataset.external, dataset.is_virtual, dataset.dtype
        shape, chunks, stored = dataset.shape, dataset.chunks, dataset.id.get_storage_size()
    if external or virtual:
        raise SourceDemoError(f"{where}: stored in another file, which is never opened; copy the data into this one")
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or shape is None:
        held = dtype if shape is not None else "nothing"
        raise SourceDemoError(f"{where}: holds {held}, expected numbers of up to 64 bits")
    size = math.prod(shape) * dtype.itemsize
    if size > _UNCHECKED_BYTES and size > stored * _MAX_EXPANSION:
        raise SourceDemoError(f"{where}: claims {size} bytes but {stored} are stored; damaged, copy the file again")
    if math.prod(chunks or ()) * dtype.itemsize > _MAX_CHUNK_BYTES:
        raise SourceDemoError(f"{where}: chunks {chunks} are larger than 1 GiB; damaged, or repack the file (h5repack)")
    with guarded(where):
        return np.asarray(dataset[()]).astype(dtype.newbyteorder("="), copy=False)


def read_number(node: Node, name: str, where: str) -> float | None:
    """Attribute `name` as one number (booleans are 0 and 1), or None where there is no such attribute."""
    with guarded(f"{where}: attribute {name}"):
        value = np.asarray(node.attrs[name]) if name in node.attrs else None
    if value is None:
        return None
    if value.dtype.kind not in "biuf" or value.size != 1:
        raise SourceDemoError(f"{where}: attribute {name}: {value.dtype} of shape {value.shape}, expected one number")
    return float(value.reshape(())[()])


def read_text(node: Node, name: str, where: str) -> str | None:
    """Attribute `name` where it is a text; None where there is none, or where it is something else."""
    with guarded(f"{where}: attribute {name}"):
        value = node.attrs.get(name)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def _link(group: h5py.Group, name: str) -> tuple[int | None, str]:
    """Kind of a link and, of a soft one, its target; asks about the link only, never what it leads to."""
    key, links = _encode(name), group.id.links
    if not links.exists(key):
        return None, ""
    kind = links.get_info(key).type
    return kind, links.get_val(key).decode("utf-8", "surrogateescape") if kind == h5l.TYPE_SOFT else ""


def _encode(name: str) -> bytes:
    # A damaged file may hold names that are no text; they come and go as bytes.
    return name.encode("utf-8", "surrogateescape")


def _require_regular_file(path: Path) -> None:
    if path.is_dir():
        raise SourceDemoError(f"{path}: is a folder, not an HDF5 file; name one of the files in it")
    if not path.exists():
        raise SourceDemoError(f"{path}: no such file; check the path, or record source demos into it first")
    if not path.is_file():
        raise SourceDemoError(f"{path}: is no regular file; source demos are read from HDF5 files")


def _why_not_opened(path: Path, error: Exception) -> str:
    reason = _reason(error)
    if isinstance(error, PermissionError):
        return "may not be read; change its permissions"
    if path.stat().st_size == 0:
        return "is empty; copy the file again"
    if "truncated" in reason:
        return f"is truncated ({reason}); copy the file again, it is shorter than its header says"
    if "signature not found" in reason:
        return "is not an HDF5 file, or its first bytes are damaged; give a file in Isaac Lab's or robomimic's layout"
    return f"cannot be opened as an HDF5 file ({reason}); copy the file again"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
