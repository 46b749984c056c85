"""Whether everything that a run reports as recorded is in its dataset, read as anybody would read it."""

import json
import logging
from pathlib import Path
from typing import Any

from experiments.harness import read_json


def check_nothing_lost(folder: Path) -> dict[str, Any]:
    """Compare a run's attempts.jsonl and run.json with its dataset.

    Args:
        folder: the run's output folder.

    Returns:
        `episodes` and `frames` that were compared, and the dataset's `digest`.

    Raises:
        AssertionError: an attempt or an episode is missing, twice there, or not what attempts.jsonl says of it.
    """
    logging.disable(logging.WARNING)  # LeRobot logs a hundred lines where FFmpeg is missing
    try:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    finally:
        logging.disable(logging.NOTSET)

    from mimicpipe.recorders.digest import digest
    from mimicpipe.recorders.episode_rows import read_episode_metadata

    run, root = read_json(folder / "run.json"), folder / "dataset"
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    _require([row["attempt"] for row in rows] == list(range(run["counts"]["attempts"])), "attempts are missing")
    recorded = [row for row in rows if row["success"]]
    _require([row["episode_index"] for row in recorded] == list(range(len(recorded))), "successes were not recorded")
    _require(len(recorded) == run["counts"]["successes"] == run["counts"]["episodes"], "run.json has other counts")

    kept = ("attempt", "seed", "length", "source_demos")
    said = [tuple(row[name] for name in kept) for row in recorded]
    there = [tuple(episode[name] for name in kept) for episode in read_episode_metadata(root)]
    _require(there == said, "the dataset has other episodes than attempts.jsonl")

    dataset = LeRobotDataset(run["dataset"]["repo_id"], root=root)
    frames = dataset.hf_dataset.with_format("numpy")
    expected = [(index, frame) for index, row in enumerate(recorded) for frame in range(row["length"])]
    found = list(zip(frames["episode_index"][:].tolist(), frames["frame_index"][:].tolist(), strict=True))
    _require(found == expected, "frames are missing")
    return {"episodes": len(recorded), "frames": len(expected), "digest": digest(root)}


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
