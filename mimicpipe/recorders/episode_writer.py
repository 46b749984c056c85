"""Makes episodes durable: encodes their cameras and appends them to a segment log, many with one sync.

Used by a thread of the run or by a process of its own; no torch here.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mimicpipe.recorders.camera_encoder import CameraEncoder, VideoSettings
from mimicpipe.recorders.layout import PackedEpisode, columns_of
from mimicpipe.recorders.segment_log import NewRecord, SegmentLog


class EpisodeWriter:
    """Appends episodes to one log.

    Args:
        path: the log, which is continued if it exists.
        header: the dataset's description; see `assembly.assemble`.
        camera_threads: cameras that are encoded at once; 0 is one after the other.
        on_progress: called after every encoded frame, from the thread that encodes.

    Raises:
        RecorderError, OSError: as `SegmentLog`.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        camera_threads: int = 0,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        self._columns = columns_of(header["features"])
        self._log = SegmentLog(path, dict(header))
        self._encoder = CameraEncoder(header["fps"], VideoSettings(**header["video"]), camera_threads, on_progress)

    def write(self, episodes: list[PackedEpisode]) -> dict[int, Exception]:
        """Write episodes; they are durable on return, but for those that could not be encoded.

        Args:
            episodes: is empty on return.

        Returns:
            {place in `episodes`: why it was left out}.

        Raises:
            OSError: none of them could be written.
        """
        failed: dict[int, Exception] = {}
        records: list[NewRecord] = []
        for place in range(len(episodes)):
            try:
                records.append(self._record(episodes.pop(0)))
            except Exception as error:  # noqa: BLE001 - told to the caller, who names the episode
                failed[place] = error
        if records:
            self._log.append(records)
        return failed

    def close(self) -> None:
        """Let go of the log."""
        self._encoder.close()
        self._log.close()

    def _record(self, episode: PackedEpisode) -> NewRecord:
        pairs = list(zip(self._columns, episode.columns, strict=True))
        numeric = b"".join(column.data for kind, column in pairs if not kind.is_camera)
        cameras = {kind: column for kind, column in pairs if kind.is_camera}
        meta = {**episode.meta, "state": len(episode.state)}
        parts: list[bytes] = []
        if cameras:
            meta["cameras"], parts = self._encoder.encode(cameras)
        return meta, (episode.state.tobytes(), numeric, *parts)
