"""An append-only file of records that survives a kill: what was appended before the last sync can be read again.

    record = prefix | JSON | payload          prefix = magic, length of the JSON, length of the payload, CRC-32 of both

The first record's JSON is the file's header. A write that was cut off ends the file with a record whose length or
checksum is wrong; readers stop there, and opening the file for more records cuts it off. Only the standard library is
imported, because processes that do nothing but write use this, too.
"""

import errno
import json
import os
import struct
import zlib
from collections.abc import Buffer, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mimicpipe.errors import RecorderError

_PREFIX = struct.Struct("<4sIQI")
_MAGIC = b"mpr1"
_MOST_PARTS = 512  # of one system call; POSIX promises 16, Linux takes 1024
_CHUNK = 1 << 22

Meta = dict[str, Any]
NewRecord = tuple[Meta, Sequence[Buffer]]
"""(JSON, parts of the payload), written one behind the other."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was found whole."""

    path: Path
    meta: Meta
    offset: int
    """Of the payload in the file, bytes."""
    nbytes: int
    """Length of the payload."""


class SegmentLog:
    """Appends records to a file, which is made if it does not exist.

    Args:
        path: the file; its folder exists.
        header: JSON of a new file.

    Raises:
        RecorderError: the file is there, with another header.
        OSError: it cannot be made or read.
    """

    def __init__(self, path: Path, header: Meta) -> None:
        self.path = path
        found, _, end = scan(path) if path.exists() else (None, [], 0)
        if found is not None and found != header:
            raise RecorderError(f"{path}: was written with other features or settings; recover or remove it")
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._end = end
        try:
            os.ftruncate(self._handle, end)
            os.lseek(self._handle, end, os.SEEK_SET)
            if found is None:
                self.append([(header, ())])
                sync_path(path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records and wait until they are on the disk: all of them, or, where that fails, none.

        Raises:
            OSError: the disk is full, or fails; names the file.
        """
        parts: list[Buffer] = []
        for meta, payload in records:
            parts += _encoded(meta, payload)
        try:
            written = _write_all(self._handle, parts)
            os.fdatasync(self._handle)
            if os.fstat(self._handle).st_nlink == 0:  # nobody would find it again
                raise FileNotFoundError(errno.ENOENT, "has been removed")
        except OSError as error:
            os.ftruncate(self._handle, self._end)
            os.lseek(self._handle, self._end, os.SEEK_SET)
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self._end += written

    def close(self) -> None:
        """Let go of the file; idempotent."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def scan(path: Path) -> tuple[Meta | None, list[Record], int]:
    """Everything whole in a file.

    Returns:
        (header, or None if not even that is whole; records behind it; length of what is whole, bytes).
    """
    header: Meta | None = None
    records: list[Record] = []
    end = 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while (record := _read(path, file, end, size)) is not None:
            end = record.offset + record.nbytes
            if header is None:
                header = record.meta
            else:
                records.append(record)
    return header, records, end


def sync_path(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _encoded(meta: Meta, payload: Sequence[Buffer]) -> list[Buffer]:
    text = json.dumps(meta, ensure_ascii=False, separators=(",", ":")).encode()
    views = [view.cast("B") for part in payload if (view := memoryview(part)).nbytes]
    checksum = zlib.crc32(text)
    for view in views:
        checksum = zlib.crc32(view, checksum)
    return [_PREFIX.pack(_MAGIC, len(text), sum(view.nbytes for view in views), checksum), text, *views]


def _write_all(handle: int, parts: Sequence[Buffer]) -> int:
    """Write parts one behind the other; returns their length, bytes."""
    views = [memoryview(part) for part in parts]
    total = sum(view.nbytes for view in views)
    at = 0
    while at < len(views):
        written = os.writev(handle, views[at : at + _MOST_PARTS])
        while at < len(views) and written >= views[at].nbytes:
            written -= views[at].nbytes
            at += 1
        if written:
            views[at] = views[at][written:]
    return total


def _read(path: Path, file: Any, at: int, size: int) -> Record | None:
    """The record at an offset of an open file; None if it is not whole."""
    file.seek(at)
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        return None
    magic, text_length, length, expected = _PREFIX.unpack(prefix)
    offset = at + _PREFIX.size + text_length
    if magic != _MAGIC or offset + length > size:
        return None
    text = file.read(text_length)
    checksum = zlib.crc32(text)
    for chunk in _chunks(file, length):
        checksum = zlib.crc32(chunk, checksum)
    if checksum != expected:
        return None
    return Record(path, json.loads(text), offset, length)


def _chunks(file: Any, length: int) -> Iterator[bytes]:
    while length > 0:
        chunk = file.read(min(length, _CHUNK))
        if not chunk:
            return
        length -= len(chunk)
        yield chunk
