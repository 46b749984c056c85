"""What a run with `recorder=npz` has left."""

import json
from pathlib import Path

import numpy as np


def attempts(folder: Path) -> list[dict]:
    """Rows of attempts.jsonl."""
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


def episodes(folder: Path) -> list[dict[str, np.ndarray]]:
    """What `recorder=npz` has written, episode by episode."""
    return [dict(np.load(path)) for path in sorted((folder / "dataset").glob("episode_*.npz"))]


def assert_same_episodes(ours: Path, theirs: Path) -> None:
    """Two runs have recorded the same bits."""
    pairs = list(zip(episodes(ours), episodes(theirs), strict=True))
    assert pairs
    for a, b in pairs:
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)
