"""Write episodes as a recording that Rerun shows: `python -m mimicpipe.tools.view DATASET|RUN`.

Made headless, into RUN/episodes.rrd, or NAME.rrd beside a dataset; opened at once where there is a display. It shows
every number of every frame over time, cameras, and poses in 3D: those columns whose elements are named `..x, ..y, ..z`
and `..qw, ..qx, ..qy, ..qz`. Needs the extra `view` (`pip install -e '.[view]'`), which brings rerun-sdk.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.errors import ConfigError
from mimicpipe.report.format import near
from mimicpipe.tools.dataset_checks import Dataset, open_dataset, structure
from mimicpipe.tools.exits import exit_code, tool_parser
from mimicpipe.tools.saved_run import dataset_roots, saved_config

_POSITION, _QUATERNION = ("x", "y", "z"), ("qx", "qy", "qz", "qw")
"""Rerun's order of a quaternion is xyzw; mimicpipe's columns have wxyz, so elements are found by name."""
_HALF_SIZE = 0.02
"""Of the box that stands for a pose, metres."""


def find_dataset(path: Path) -> tuple[Path, Path]:
    """(root of the dataset, where the recording goes) of a run's output folder or a dataset.

    Raises:
        ConfigError: it is neither, or the run has no dataset.
    """
    if (path / "meta" / "info.json").is_file():
        return path, path.with_name(f"{path.name}.rrd")
    if not (path / ".hydra").is_dir() and not (path / "run.json").is_file():
        raise ConfigError(f"{path}: neither a LeRobot v3 dataset (no meta/info.json) nor a run's output folder")
    root = dataset_roots(path, saved_config(path))[0]
    if not (root / "meta" / "info.json").is_file():
        raise ConfigError(f"{path}: the run has no LeRobot dataset at {root}")
    return root, path / "episodes.rrd"


def write_recording(root: Path, out: Path, episodes: Sequence[int]) -> int:
    """Write episodes of a dataset as a Rerun recording; returns the number of frames.

    Raises:
        ConfigError: no dataset, no such episode, or rerun-sdk is missing.
    """
    if importlib.util.find_spec("rerun") is None:
        raise ConfigError("view: rerun-sdk is not installed; `pip install -e '.[view]'` brings it")
    import rerun as rr

    data = open_dataset(root)
    structure(data)
    unknown = [number for number in episodes if not 0 <= number < len(data.episodes)]
    if unknown:
        raise ConfigError(f"--episodes {unknown[0]}: the dataset has episodes 0 to {len(data.episodes) - 1}")
    recording = rr.RecordingStream("mimicpipe", recording_id=root.name)
    partial = out.with_name(f".{out.name}.partial")
    recording.save(partial)
    recording.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    at = 0
    for number in episodes:
        at += _log_episode(recording, data, data.episodes[number], at)
    recording.flush()
    recording.disconnect()
    partial.replace(out)
    return at


def _log_episode(recording: Any, data: Dataset, episode: Mapping[str, Any], at: int) -> int:
    """Log one episode from frame `at` of the recording's time on; returns its length."""
    import rerun as rr

    from mimicpipe.tools.replaying import read_columns

    length, fps = episode["length"], data.info["fps"]
    frames = np.arange(at, at + length)
    times = [rr.TimeColumn("frame", sequence=frames), rr.TimeColumn("time", duration=frames / fps)]
    columns = read_columns(data.root, episode["dataset_from_index"], episode["dataset_to_index"])
    for name, values in columns.items():
        names = _names(data.features[name], values.shape[1])
        for element, label in enumerate(names):
            recording.send_columns(f"{name}/{label}", times, rr.Scalars.columns(scalars=values[:, element]))
        for pose, places in _poses(names):
            _log_pose(recording, f"world/{pose or name}", times, values[:, places].astype(np.float64))
    for camera in (name for name, feature in data.features.items() if feature["dtype"] == "video"):
        for frame, picture in zip(frames, _pictures(data, camera, episode), strict=True):
            recording.set_time("frame", sequence=int(frame))
            recording.set_time("time", duration=float(frame) / fps)
            recording.log(camera, rr.Image(picture).compress())
    recording.set_time("frame", sequence=at)
    recording.set_time("time", duration=at / fps)
    said = {key.removeprefix("mimicpipe/"): episode[key] for key in ("mimicpipe/attempt", "mimicpipe/reason")
            if key in episode}  # fmt: skip
    recording.log("episode", rr.TextLog(f"episode {episode['episode_index']}: {said}"))
    return length


def _names(feature: Mapping[str, Any], width: int) -> list[str]:
    names = feature.get("names")
    return names if isinstance(names, list) and len(names) == width else [str(i) for i in range(width)]


def _poses(names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """(what it is of, the columns of x, y, z, qx, qy, qz, qw) of each pose among elements' names."""
    for name in names:
        if not name.endswith("qw"):
            continue
        prefix = name.removesuffix("qw")
        wanted = [f"{prefix}{part}" for part in (*_POSITION, *_QUATERNION)]
        if all(part in names for part in wanted):
            yield prefix.strip("_"), [names.index(part) for part in wanted]


def _log_pose(recording: Any, path: str, times: Sequence[Any], values: np.ndarray) -> None:
    import rerun as rr

    recording.log(path, rr.Boxes3D(half_sizes=[[_HALF_SIZE] * 3]), static=True)
    columns = rr.Transform3D.columns(translation=values[:, :3], quaternion=values[:, 3:])
    recording.send_columns(path, times, columns)


def _pictures(data: Dataset, camera: str, episode: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """(H, W, 3) of each frame of an episode."""
    import av

    chunk, file = episode[f"videos/{camera}/chunk_index"], episode[f"videos/{camera}/file_index"]
    name = data.info["video_path"].format(video_key=camera, chunk_index=chunk, file_index=file)
    first = round(episode[f"videos/{camera}/from_timestamp"] * data.info["fps"])
    with av.open(str(data.root / name)) as video:
        for number, frame in enumerate(video.decode(video=0)):
            if number >= first + episode["length"]:
                return
            if number >= first:
                yield frame.to_ndarray(format="rgb24")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser("view", __doc__)
    parser.add_argument("path", metavar="DATASET|RUN", type=Path, help="folder of a dataset, or a run's output folder")
    parser.add_argument("--episodes", type=int, nargs="+", default=[0, 1, 2], metavar="N",
                        help="which, by their index in the dataset (default: 0 1 2)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="file of the recording (default: RUN/episodes.rrd)")
    parser.add_argument("--no-open", action="store_true", help="only write it, also where there is a display")
    args = parser.parse_args(argv)

    def work() -> int:
        root, out = find_dataset(args.path.expanduser().resolve())
        out = args.out or out
        episodes = args.episodes
        if episodes is parser.get_default("episodes"):
            episodes = episodes[: open_dataset(root).info["total_episodes"]]
        frames = write_recording(root, out, episodes)
        print(f"{near(out)}: {frames} frames of {len(episodes)} episodes")
        if not args.no_open and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return subprocess.run([sys.executable, "-m", "rerun", str(out)], check=False).returncode
        print(f"watch it with  {near(Path(sys.executable))} -m rerun {near(out)}")
        return 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
