"""The last step of a dataset's making: the complete episodes and no more, their rows, exact statistics, and a check.

LeRobot's writer keeps no promise when a write fails half-way: data rows, a metadata row or the totals of the failed
episode may be there or not. Sealing cuts all of them back to the episodes that were saved whole.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.errors import RecorderError
from mimicpipe.recorders.episode_rows import PREFIX, Row, arrow_schema
from mimicpipe.recorders.frame_stats import numeric_stats

INFO_FILE = "meta/mimicpipe.json"


def seal(
    root: Path,
    meta: Any,
    rows: Sequence[Row],
    camera_stats: Mapping[str, Mapping[str, np.ndarray]],
    run_info: Mapping[str, Any] | None,
) -> None:
    """Complete a dataset whose writers are closed.

    Args:
        root: its folder.
        meta: its `LeRobotDatasetMetadata`.
        rows: one row for each episode that was saved whole, in order; there is at least one.
        camera_stats: LeRobot's statistics of the cameras over those episodes.
        run_info: anything JSON knows, kept in `meta/mimicpipe.json`.

    Raises:
        RecorderError: rows or video frames are missing.
    """
    from lerobot.datasets.io_utils import write_info, write_stats, write_tasks

    for entry in root.iterdir():
        if entry.name not in ("meta", "data", "videos"):
            shutil.rmtree(entry)  # folders of frames on their way into a video
    episodes = _complete_episodes(root, rows)
    frames = sum(episode["length"] for episode in episodes)
    _cut_data(root, frames)
    _check_videos(root, meta, episodes)

    tasks = meta.tasks[meta.tasks.index.isin({task for episode in episodes for task in episode["tasks"]})]
    write_tasks(tasks, root)
    info = meta.info
    info.total_episodes, info.total_frames, info.total_tasks = len(episodes), frames, len(tasks)
    info.splits = {"train": f"0:{len(episodes)}"}
    write_info(info, root)
    cameras = {*meta.image_keys, *meta.video_keys}
    counted = [name for name, feature in meta.features.items() if feature["dtype"] != "string"]
    stats = numeric_stats(_data_files(root), [name for name in counted if name not in cameras])
    # In the order of the features: LeRobot's own order changes from process to process.
    write_stats({name: stats.get(name) or camera_stats[name] for name in counted}, root)
    text = json.dumps({"format": 1, "run": run_info}, indent=2, ensure_ascii=False, sort_keys=True)
    (root / INFO_FILE).write_text(text + "\n", encoding="utf-8")


def _data_files(root: Path) -> list[Path]:
    return sorted((root / "data").glob("*/*.parquet"))


def _complete_episodes(root: Path, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Give each episode's metadata its own columns and drop what follows; returns LeRobot's columns of the episodes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema()
    kept: list[dict[str, Any]] = []
    for file in sorted((root / "meta" / "episodes").glob("*/*.parquet")):
        table = pq.read_table(file)
        table = table.slice(0, len(rows) - len(kept))
        own = rows[len(kept) : len(kept) + len(table)]
        if not own:
            file.unlink()
            continue
        for field in schema:
            values = [row[field.name.removeprefix(PREFIX)] for row in own]
            table = table.append_column(field, pa.array(values, field.type))
        _replace(file, lambda path, table=table: pq.write_table(table, path, compression="snappy"))
        wanted = [name for name in table.column_names if not name.startswith(("stats/", PREFIX))]
        kept += table.select(wanted).to_pylist()
    if [episode["episode_index"] for episode in kept] != list(range(len(rows))):
        raise RecorderError(f"{len(rows)} episodes were saved, but the metadata of {len(kept)} is there")
    return kept


def _cut_data(root: Path, frames: int) -> None:
    """Drop data rows behind the first `frames`."""
    import pyarrow.parquet as pq
    from lerobot.datasets.io_utils import write_table_one_row_group_per_episode

    left = frames
    for file in _data_files(root):
        found = pq.read_metadata(file).num_rows
        if left == 0:
            file.unlink()
        elif found > left:
            table = pq.read_table(file).slice(0, left)
            _replace(file, lambda path, table=table: write_table_one_row_group_per_episode(table, path))
        left -= min(found, left)
    if left:
        raise RecorderError(f"{frames} frames were saved, but {left} of them are not in the data files")


def _check_videos(root: Path, meta: Any, episodes: Sequence[Mapping[str, Any]]) -> None:
    """Every video file has a frame for each data row; more are harmless, as they stand behind the last episode."""
    if not meta.video_keys:
        return
    import av

    for key in meta.video_keys:

        def place(episode: Mapping[str, Any], key: str = key) -> tuple[int, int]:
            return episode[f"videos/{key}/chunk_index"], episode[f"videos/{key}/file_index"]

        for (chunk, index), group in groupby(episodes, place):
            file = root / meta.video_path.format(video_key=key, chunk_index=chunk, file_index=index)
            needed = sum(episode["length"] for episode in group)
            with av.open(str(file)) as video:
                found = video.streams.video[0].frames
            if found < needed:
                raise RecorderError(f"{file.relative_to(root)}: {found} video frames for {needed} data rows")


def _replace(file: Path, write: Any) -> None:
    """Write a file anew beside itself, then put it in its place."""
    new = file.with_suffix(".new")
    write(new)
    os.replace(new, file)
