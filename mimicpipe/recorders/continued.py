"""All that is durable of a run: the dataset that it has published before it was resumed, if it has, and its logs.

A run that a signal has ended has published its dataset, and its logs are gone. Resumed, it writes logs of what follows;
in the end, one dataset is assembled of both, which takes the place of the first.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mimicpipe.errors import RecorderError
from mimicpipe.recorders.camera_encoder import VideoSettings
from mimicpipe.recorders.finished import Pixels, encoding_of
from mimicpipe.recorders.open_finished import Finished, open_finished
from mimicpipe.recorders.staged import StagedEpisode, StagedRun
from mimicpipe.recorders.staging_area import has_base, staged_logs, staging_path


class ContinuedRun:
    """The episodes of a run in the order of the dataset.

    Args:
        root: root of its dataset.
        limit: how many of them count, by their indices; None is all.

    Raises:
        ConfigError: the dataset that is to be gone on with is none of a mimicpipe recorder.
        RecorderError: logs of different runs, or of another one than the dataset.
        OSError: one cannot be read.
    """

    def __init__(self, root: Path, limit: int | None = None) -> None:
        self.staged = StagedRun(staged_logs(staging_path(root)), limit)
        self._base = open_finished(root) if has_base(root) else None
        self.header: Mapping[str, Any] | None = self.staged.header
        if self._base is not None and self.header is not None:
            self._check(self._base, self.header)

    def _check(self, base: Finished, header: Mapping[str, Any]) -> None:
        differ = [key for key in ("fps", "robot_type", "use_videos") if base.header[key] != header[key]]
        if _plain(base.header["features"]) != _plain(header["features"]):
            differ.append("features")
        if base.encoding not in (None, encoding_of(VideoSettings(**header["video"]))):
            differ.append("video")
        if differ:
            raise RecorderError(f"{base.root}: {differ[0]} is not that of the logs in {staging_path(base.root).name}")

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.staged) + (0 if self._base is None else len(self._base))

    def __iter__(self) -> Iterator[StagedEpisode]:
        """The episodes, one in memory at a time."""
        if self._base is not None:
            yield from self._base
        yield from self.staged

    @property
    def metas(self) -> list[Mapping[str, Any]]:
        """`index`, `length`, `attempt` and so on of each episode; those of the dataset have no `slot`."""
        return [*([] if self._base is None else self._base.metas), *self.staged.metas]

    @property
    def pixels(self) -> dict[str, Pixels] | None:
        """Of the dataset's cameras."""
        return None if self._base is None else self._base.pixels


def _plain(features: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Without what is known only when there is a dataset."""
    later = ("info", "width")
    return {name: {k: item for k, item in feature.items() if k not in later} for name, feature in features.items()}
