"""An HDF5 file of demos in Isaac Lab's or robomimic's layout becomes a LeRobot v3 dataset.

Demos are read one by one and go through the durable recorder, so a conversion that was killed goes on where it
stopped, and the dataset is there complete or not at all. Numbers keep every bit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py

from mimicpipe.convert.hdf5_demos import STATE, Plan, feature_for, read_episode, state_feature
from mimicpipe.convert.hdf5_head import Head, frame_rate, read_head
from mimicpipe.convert.hdf5_scan import Scan, scan
from mimicpipe.convert.interrupted import completed_before, staged_before
from mimicpipe.convert.names import feature_of
from mimicpipe.convert.options import Converted, Options
from mimicpipe.convert.quaternions import order_of
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5_access import child, child_names, open_hdf5
from mimicpipe.pools.names import listing, natural_key, show
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.features import CAMERA_DTYPES

CONVERSION = "conversion"
"""Of the run info in meta/mimicpipe.json: what the reverse conversion needs."""
_WAITING = 8
_WAITING_BYTES = 1 << 26
_NOT_KEPT = ("on_error", "workers", "overwrite")
"""Options that do not change the dataset."""


def to_lerobot(source: Path, target: Path, options: Options, say: Callable[[str], None] = print) -> Converted:
    """Convert a file; what is skipped is said as it is found.

    Args:
        source: the file.
        target: folder of the dataset.
        options: what is asked for.
        say: takes each line on a demo that is skipped.

    Raises:
        ConfigError: an option, or the target, cannot be.
        SourceDemoError: the file cannot be used, no demo is left, or one is broken and `on_error` is "raise".
        RecorderError: the dataset cannot be written; what is durable stays, and the same command goes on.
    """
    target = target.expanduser().resolve()
    with open_hdf5(source) as file:
        data = _data_group(file, source)
        head = read_head(file, data, source)
        names = sorted(child_names(data, f"{source}: data"), key=natural_key)
        places = {name: place for place, name in enumerate(names)}
        names = _selected(names, head, options, source)
        result = Converted(target, total=len(names))
        faults = _Faults(result, options, say)
        scanned = scan(data, names, str(source), options)
        for name in filter(scanned.faults.__contains__, names):
            faults.add(name, scanned.faults[name])
        if not scanned.names:
            raise _nothing_left(source, result)
        plan = _plan(scanned, head, options, result)
        run_info = {**head.run_info, CONVERSION: _conversion(plan, head, options, source)}
        if (done := completed_before(target, run_info)) is not None:
            result.episodes, result.frames = done
            result.resumed = result.episodes
            return result
        recorder = _recorder(plan, head, options, run_info, result)
        try:
            for episode in _episodes(data, scanned.names, places, plan, faults, source, options.max_demos):
                result.episodes, result.frames = result.episodes + 1, result.frames + episode.length
                if result.episodes > result.resumed:
                    recorder.commit(episode)
            if result.episodes == 0:
                raise _nothing_left(source, result)
        except (SourceDemoError, ConfigError):
            recorder.abort()
            raise
    recorder.finalize()
    _say_left_out(result, {**scanned.left_out, **plan.left_out, **dict.fromkeys(head.left_out, "cannot be kept")})
    return result


def _data_group(file: h5py.File, source: Path) -> h5py.Group:
    data = child(file, "data", f"{source}: data")
    if isinstance(data, h5py.Group):
        return data
    found = listing(child_names(file, str(source)))
    raise SourceDemoError(
        f"{source}: data: no such group (the file has {found}); not Isaac Lab's or robomimic's layout"
    )


class _Faults:
    """Notes demos that are skipped, or raises."""

    def __init__(self, result: Converted, options: Options, say: Callable[[str], None]) -> None:
        self._result, self._raises, self._say = result, options.on_error == "raise", say

    def add(self, name: str, reason: str) -> None:
        """A demo cannot be converted."""
        if self._raises:
            raise SourceDemoError(reason)
        self._result.skipped.append((name, reason))
        self._say(f"skipped {reason}")


def _selected(names: list[str], head: Head, options: Options, source: Path) -> list[str]:
    if options.mask is None:
        chosen = names
    elif options.mask not in head.masks:
        raise ConfigError(f"--mask {options.mask}: {source} has {listing(list(head.masks))}")
    else:
        members = set(head.masks[options.mask])
        chosen = [name for name in names if name in members]
    if not chosen:
        raise SourceDemoError(f"{source}: data: holds no demos" + (f" of mask {options.mask}" if options.mask else ""))
    return chosen


def _nothing_left(source: Path, result: Converted) -> SourceDemoError:
    return SourceDemoError(
        f"{source}: no demo can be converted, {len(result.skipped)} skipped; the first: {result.skipped[0][1]}"
    )


def _plan(scanned: Scan, head: Head, options: Options, result: Converted) -> Plan:
    paths = [*(key.path for key in scanned.keys), *scanned.whole, *scanned.left_out]
    kinds = ((path, is_camera) for path in paths for is_camera in (False, True))
    options.require_matches(paths, [name for kind in kinds if (name := feature_of(*kind)) is not None])
    keys, features = {}, {}
    for key in scanned.keys:
        known = head.known.get(key.path)
        name, feature = feature_for(key, known)
        if name in keys:
            raise ConfigError(f"{key.path} and {keys[name].path} would both be feature {name!r}; --exclude one")
        if feature.dtype in CAMERA_DTYPES and not options.images and (key.shape[0] % 2 or key.shape[1] % 2):
            size = f"{key.shape[0]} x {key.shape[1]}"
            raise ConfigError(f"{key.path}: a video needs even sides, not {size}; keep pictures with --images")
        keys[name], features[name] = key, feature
    state, feature = state_feature(keys, options.state)
    features |= {} if feature is None else {STATE: feature}
    quaternions = order_of(
        options.quaternions, options.to_quaternions, options.quaternion_keys, head.version, head.quaternions
    )
    shapes = [(key.path, key.shape) for key in scanned.keys] + [*scanned.whole.items()]
    if (line := quaternions.said(shapes)) is not None:
        result.notes.append(line)
    if scanned.whole:
        result.notes.append(f"kept whole with each episode, not by frame: {listing(list(scanned.whole))}")
    name = head.env_args.get("env_name")
    default = name if isinstance(name, str) and name else None
    if options.task is None and default is not None:
        result.notes.append(f"task of demos that name none: {default!r}, the env's name; --task gives another")
    return Plan(keys, features, list(scanned.whole), quaternions, options.task, default, state)


def _recorder(
    plan: Plan, head: Head, options: Options, run_info: Mapping[str, Any], result: Converted
) -> AsyncLeRobotRecorder:
    fps, fps_source = frame_rate(head, options)
    result.notes.append(f"{fps} frames a second, as {fps_source} says")
    if result.path.exists() and not options.overwrite:
        raise ConfigError(f"{result.path}: exists; choose another folder, or replace the dataset with --overwrite")
    result.resumed = staged_before(result.path, run_info, options.overwrite)
    return AsyncLeRobotRecorder(
        result.path,
        options.repo_id or "local/converted",
        fps,
        plan.features,
        robot_type=options.robot_type or head.robot_type,
        use_videos=not options.images,
        overwrite=options.overwrite,
        run_info=run_info,
        resume=result.resumed or None,
        async_queue_maxsize=_WAITING,
        max_queue_bytes=_WAITING_BYTES,
        workers=options.workers,
    )


def _conversion(plan: Plan, head: Head, options: Options, source: Path) -> dict[str, Any]:
    asked = {name: value for name, value in asdict(options).items() if name not in _NOT_KEPT}
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items() if value}
    return {
        "source": {"name": source.name, "bytes": source.stat().st_size},
        "options": asked,
        "keys": {
            name: {"path": key.path, "dtype": key.dtype, "shape": list(key.shape)} for name, key in plan.keys.items()
        },
        "derived": [STATE] if plan.state else [],
        "quaternions": plan.quaternions.result,
        "file_attributes": head.file_attributes,
        "data_attributes": head.data_attributes,
        "masks": head.masks,
    }


def _episodes(
    data: h5py.Group,
    names: list[str],
    places: Mapping[str, int],
    plan: Plan,
    faults: _Faults,
    source: Path,
    most: int | None,
) -> Iterator[Any]:
    """Episodes of the demos that are whole, one in memory at a time."""
    index = 0
    for name in names:
        if index == most:
            return
        try:
            episode = read_episode(data, name, f"{source}: {show(name)}", plan, places[name], index)
        except SourceDemoError as error:
            faults.add(name, str(error))
            continue
        index += 1
        yield episode


def _say_left_out(result: Converted, left_out: Mapping[str, str]) -> None:
    by_reason: dict[str, list[str]] = {}
    for path, reason in left_out.items():
        by_reason.setdefault(reason, []).append(path)
    result.notes.extend(f"left out ({reason}): {listing(paths)}" for reason, paths in sorted(by_reason.items()))
