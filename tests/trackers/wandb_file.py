"""Reads what W&B wrote offline: records in LevelDB's log format behind a seven-byte header."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK = 32 * 1024
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Any]:
    """Every record of a run-*.wandb file."""
    from wandb.proto import wandb_internal_pb2

    record_type: Any = vars(wandb_internal_pb2)["Record"]

    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (_FULL, _LAST):
            record = record_type()
            record.ParseFromString(parts)
            yield record
            parts = b""


def items(message: Any) -> dict[str, Any]:
    """A record's key / JSON pairs."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in message}
