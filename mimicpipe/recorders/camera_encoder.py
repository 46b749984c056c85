"""Camera frames to bytes: an mp4 file in memory for a video, a file for each image, and pixel counts for statistics.

Runs in a writer's thread or process. No torch here, and PyAV and Pillow only once there is a camera.
"""

import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mimicpipe.recorders.episode_stats import episode_stats
from mimicpipe.recorders.layout import Column
from mimicpipe.recorders.pixel_stats import pixel_stats

CODECS = ("libsvtav1", "h264", "hevc", "libaom-av1")
SMALLEST_HEVC = 32
"""Pixels of a side: x265 writes over the end of its memory for smaller pictures, and the process dies."""
_SVTAV1_PRESET = 12
_PNG_LEVEL = 6  # LeRobot's, for images that stay
_ZLIB_LEVEL = 2  # as Isaac Lab's HDF5DatasetFileHandler
_NO_COUNTS = np.zeros(0, np.int64)
_LARGE_SIDE, _SMALL_SIDE = 300, 150


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """How videos are encoded; the defaults are LeRobot 0.6's (`RGBEncoderConfig`)."""

    codec: str = "libsvtav1"
    gop: int | None = 2
    """Frames from one key frame to the next; None is the codec's own choice."""
    crf: float | None = 30
    """Quality, lower is better; None is the codec's own choice."""
    preset: str | None = None
    """Speed against size, in the codec's words; None is 12 for libsvtav1, and else the codec's own choice."""
    threads: int | None = None
    """Threads of the encoder; None is the codec's own choice."""

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> "VideoSettings":
        """From a video feature's `info` in info.json, which does not say the number of threads."""
        codec = {"av1": "libsvtav1"}.get(info["video.codec"], info["video.codec"])
        preset = info["video.preset"]
        return cls(codec, info["video.g"], info["video.crf"], None if preset is None else str(preset))

    def described(self) -> dict[str, Any]:
        """As info.json has them."""
        preset = self._preset()
        return {
            "video.g": self.gop,
            "video.crf": int(self.crf) if self.crf is not None and self.crf == int(self.crf) else self.crf,
            "video.preset": int(preset) if preset is not None and preset.isdigit() else preset,
            "video.fast_decode": 0,
            "video.video_backend": "pyav",
            "video.extra_options": {},
        }

    def options(self) -> dict[str, str]:
        """As the codec takes them."""
        options = {"g": self.gop, "crf": self.crf, "preset": self._preset()}
        if self.codec == "libsvtav1":
            threads = "" if self.threads is None else f":lp={self.threads}"
            options["svtav1-params"] = f"fast-decode=0{threads}"
        else:
            options["threads"] = self.threads
            if self.codec == "libaom-av1" and self.threads is not None:
                options["row-mt"] = 1
            if self.codec == "hevc":
                options["x265-params"] = "log-level=error"  # it says a line about each video
        return {
            key: f"{value:g}" if key == "crf" else str(value) for key, value in options.items() if value is not None
        }

    def _preset(self) -> str | None:
        return str(_SVTAV1_PRESET) if self.preset is None and self.codec == "libsvtav1" else self.preset


class CameraEncoder:
    """Encodes the frames of an episode's cameras.

    Args:
        fps: frame rate, Hz.
        settings: of videos.
        threads: cameras that are encoded at once; 0 is one after the other, in the caller's thread.
        on_progress: called after every frame, from the thread that encodes.
    """

    def __init__(
        self, fps: int, settings: VideoSettings, threads: int = 0, on_progress: Callable[[], None] | None = None
    ) -> None:
        self._fps = fps
        self._on_progress = on_progress or (lambda: None)
        self._settings = settings
        self._pool = ThreadPoolExecutor(threads, "mimicpipe-camera") if threads else None

    def encode(self, cameras: Mapping[Column, np.ndarray]) -> tuple[dict[str, Any], list[bytes]]:
        """Encode the frames of each camera: (T, H, W, 3) uint8, or (T, H, W, 1) uint16 of depth.

        Returns:
            ({camera: {"sizes", "sampled", "stats"}}, parts): its pixel counts, if it has any, then its file or files.

        Raises:
            Exception: whatever PyAV or Pillow raises.
        """
        run = map if self._pool is None else self._pool.map
        described: dict[str, Any] = {}
        parts: list[bytes] = []
        for column, (pixels, found, files) in zip(cameras, run(self._encode, cameras, cameras.values()), strict=True):
            described[column.name] = {"sizes": [len(file) for file in files], **found}
            parts += [pixels.tobytes(), *files]
        return described, parts

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _encode(self, column: Column, frames: np.ndarray) -> tuple[np.ndarray, dict[str, Any], list[bytes]]:
        counted = self._counted(frames)
        if column.dtype == "zlib":
            files = [zlib.compress(frame, _ZLIB_LEVEL) for frame in counted]
            return _NO_COUNTS, {"sampled": 0, "stats": []}, files
        sample = sample_of(frames)
        if column.dtype == "video":
            files = [encode_video(counted, frames.shape[1:3], self._fps, self._settings)]
        else:
            encode = encode_tiff if column.is_depth else encode_png
            files = [encode(frame) for frame in counted]
        if column.is_depth:
            stats = episode_stats({"": sample.reshape(-1, 1)})[""]
            return _NO_COUNTS, {"sampled": len(sample), "stats": stats.tolist()}, files
        # Compiled by numba, which a process without cameras need not import.
        from mimicpipe.recorders.pixel_sums import mean_and_std

        pixels = count_pixels(sample)
        stats = pixel_stats(pixels, mean_and_std(sample))
        return pixels, {"sampled": len(sample), "stats": stats.tolist()}, files

    def _counted(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        for frame in frames:
            yield frame
            self._on_progress()


def encode_video(frames: Iterable[np.ndarray], size: tuple[int, int], fps: int, settings: VideoSettings) -> bytes:
    """An mp4 file of RGB frames (H, W, 3) uint8 of size (H, W), frame t at t / fps seconds."""
    av = _import_av()
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(settings.codec, fps, options=settings.options())
        stream.pix_fmt = "yuv420p"
        stream.height, stream.width = size
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def encode_png(frame: np.ndarray) -> bytes:
    """A PNG file of an RGB frame (H, W, 3) uint8."""
    import PIL.Image

    file = io.BytesIO()
    PIL.Image.fromarray(frame).save(file, format="PNG", compress_level=_PNG_LEVEL)
    return file.getvalue()


def encode_tiff(frame: np.ndarray) -> bytes:
    """A TIFF file of a frame of depth (H, W, 1) uint16, without compression, as LeRobot keeps them."""
    import PIL.Image

    file = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(frame[..., 0])).save(file, format="TIFF", compression="raw")
    return file.getvalue()


def sample_of(frames: np.ndarray) -> np.ndarray:
    """The frames (and of large ones, the pixels) that LeRobot takes its statistics of: (T, H, W, C) -> (S, h, w, C)."""
    length = len(frames)
    wanted = max(min(100, length), min(int(length**0.75), 10_000))
    sample = frames[np.round(np.linspace(0, length - 1, wanted)).astype(int)] if wanted < length else frames
    height, width = frames.shape[1:3]
    if max(height, width) < _LARGE_SIDE:
        return sample
    step = int(max(height, width) / _SMALL_SIDE)
    return sample[:, ::step, ::step]


def count_pixels(frames: np.ndarray) -> np.ndarray:
    """(3, 256) int64: how often each value occurs in each channel of frames (S, H, W, 3) uint8."""
    import PIL.Image

    count, height, width = frames.shape[:3]
    pixels = np.ascontiguousarray(frames).reshape(count * height, width, 3)
    return np.array(PIL.Image.fromarray(pixels).histogram(), dtype=np.int64).reshape(3, 256)


def described(settings: VideoSettings) -> dict[str, Any]:
    """Settings as JSON; `VideoSettings(**json)` gives them back."""
    return asdict(settings)


def _import_av() -> Any:
    """PyAV, after telling the libraries under it to be quiet."""
    # SVT-AV1 writes its banner to stderr for every video, and takes its log level from here alone; 1 is errors.
    os.environ.setdefault("SVT_LOG", "1")
    import av
    import av.logging

    av.logging.set_libav_level(av.logging.ERROR)
    return av
