"""The videos of a LeRobot v3 dataset: episodes' mp4 files one behind the other, without encoding anything again."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

from mimicpipe.errors import RecorderError
from mimicpipe.recorders.camera_encoder import VideoSettings
from mimicpipe.recorders.data_files import next_file
from mimicpipe.recorders.dataset_meta import VIDEO_PATH

_MB = 1024**2


class VideoWriter:
    """Joins the videos of one camera into files of limited size.

    A time stamp is a frame's number in its file over fps, so that errors don't add up.

    Args:
        root: the dataset's folder.
        key: the camera's feature.
        fps: frame rate, Hz.
        limit_mb: a file that an episode would make larger than this is followed by another one.
    """

    def __init__(self, root: Path, key: str, fps: int, limit_mb: float) -> None:
        self._root = root
        self._key = key
        self._fps = fps
        self._limit = limit_mb * _MB
        self._place = (0, 0)
        self._output: Any = None
        self._stream: Any = None
        self._bytes = 0
        self._frames = 0
        self._last_dts = 0

    def write(self, video: bytes, length: int) -> dict[str, Any]:
        """Append an episode of `length` frames; returns its columns of meta/episodes.

        Raises:
            RecorderError: the video has another number of frames.
        """
        import av

        if self._output is not None and self._bytes + len(video) >= self._limit:
            self.close()
            self._place, self._frames, self._bytes = next_file(*self._place), 0, 0
        with av.open(io.BytesIO(video)) as source:
            template = source.streams.video[0]
            if self._output is None:
                self._open(template)
            found = self._copy(source, template)
        if found != length:
            raise RecorderError(f"{self._key}: {found} video frames for {length} data rows")
        first = self._frames
        self._frames += length
        self._bytes += len(video)
        return {
            f"videos/{self._key}/chunk_index": self._place[0],
            f"videos/{self._key}/file_index": self._place[1],
            f"videos/{self._key}/from_timestamp": first / self._fps,
            f"videos/{self._key}/to_timestamp": self._frames / self._fps,
        }

    def close(self) -> None:
        """Complete the last file; idempotent."""
        output, self._output = self._output, None
        if output is not None:
            output.close()

    def _open(self, template: Any) -> None:
        import av

        path = self._root / VIDEO_PATH.format(
            video_key=self._key, chunk_index=self._place[0], file_index=self._place[1]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        # The index at the front, so that a reader need not fetch the end first.
        self._output = av.open(str(path), "w", options={"movflags": "faststart"})
        self._stream = self._output.add_stream_from_template(template, opaque=True)
        self._stream.time_base = template.time_base
        self._last_dts = -(2**62)

    def _copy(self, source: Any, template: Any) -> int:
        """Copy the packets of one episode behind what is there; returns their number."""
        offset = Fraction(self._frames, self._fps) / template.time_base
        if offset.denominator != 1:
            raise RecorderError(f"{self._key}: a time base of {template.time_base} s for {self._fps} Hz")
        count = 0
        for packet in source.demux(template):
            if packet.dts is None:  # what flushes the demuxer
                continue
            packet.pts += int(offset)
            # With reordered frames, an episode's first packet may be due before the last one of a shorter delay.
            self._last_dts = max(packet.dts + int(offset), self._last_dts + 1)
            packet.dts = self._last_dts
            packet.stream = self._stream
            self._output.mux(packet)
            count += 1
        return count


def video_info(root: Path, key: str, settings: VideoSettings) -> dict[str, Any]:
    """`info` of a video feature as LeRobot has it in info.json, read from the camera's first file."""
    import av

    video = av.open(str(root / VIDEO_PATH.format(video_key=key, chunk_index=0, file_index=0)))
    with video:
        stream = video.streams.video[0]
        found: dict[str, Any] = {
            "video.height": stream.height,
            "video.width": stream.width,
            "video.codec": stream.codec.canonical_name,
            "video.pix_fmt": stream.pix_fmt,
            "video.fps": int(stream.base_rate or 0),
            "video.channels": len(av.VideoFormat(str(stream.pix_fmt)).components),
        }
    return {**found, "has_audio": False, **settings.described(), "is_depth_map": False}
