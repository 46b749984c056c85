"""Source demos of one HDF5 file; the layouts that are understood stand in `hdf5_layout`."""

from collections.abc import Sequence
from pathlib import Path

import h5py

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.base import OnError, ReadResult
from mimicpipe.pools.hdf5_access import child, child_names, open_hdf5
from mimicpipe.pools.hdf5_layout import GripperFromActions, Needs, read_demo, read_recording
from mimicpipe.pools.names import listing, natural_key, show
from mimicpipe.pools.tracing import Recording


def read_demos(
    path: str | Path,
    *,
    eef_names: Sequence[str] | None,
    object_names: Sequence[str] | None,
    signal_names: Sequence[str] | None,
    gripper_from_actions: GripperFromActions | None,
    start_signal_names: Sequence[str] | None = (),
    action_dim: int | None = None,
    demo_keys: Sequence[str] | None = None,
    max_demos: int | None = None,
    on_error: OnError = "raise",
    observations: bool = False,
    failed: bool = False,
) -> ReadResult:
    """Read and check the demos of one file. Poses stay in the frame they were recorded in: the env's own, metres.

    Args:
        path: the file.
        eef_names, object_names, signal_names, start_signal_names: what the task needs, see `Needs`.
        gripper_from_actions, action_dim, observations, failed: likewise.
        demo_keys: demos to read, e.g. ["demo_0", "demo_4"]; None is all. They come in natural order (demo_2 before
            demo_10) whatever their order here.
        max_demos: stop after this many usable demos.
        on_error: "raise" stops at the first bad demo; "skip" leaves it out and notes it in `skipped`.

    Raises:
        SourceDemoError: the file cannot be used, or no demo is left: one line with file, demo, key and remedy.
    """
    needs = Needs(
        eef_names=eef_names,
        object_names=object_names,
        signal_names=signal_names,
        start_signal_names=start_signal_names,
        gripper_from_actions=gripper_from_actions,
        action_dim=action_dim,
        observations=observations,
        failed=failed,
    )
    return read_file(Path(path), needs, demo_keys=demo_keys, max_demos=max_demos, on_error=on_error)


def read_file(
    path: Path,
    needs: Needs,
    *,
    demo_keys: Sequence[str] | None = None,
    max_demos: int | None = None,
    on_error: OnError = "raise",
) -> ReadResult:
    """As `read_demos`, with what the task needs as one object."""
    check_arguments(str(path), max_demos, on_error)
    return require_demos(read_usable(path, needs, demo_keys, max_demos, on_error), str(path))


def check_arguments(where: str, max_demos: int | None, on_error: str) -> None:
    """Raise SourceDemoError unless `max_demos` and `on_error` are valid."""
    if max_demos is not None and max_demos < 1:
        raise SourceDemoError(f"{where}: max_demos is {max_demos}; ask for at least 1, or null for all")
    if on_error not in ("raise", "skip"):
        raise SourceDemoError(f"{where}: on_error is {on_error!r}; valid: raise, skip")


def require_demos(result: ReadResult, where: str) -> ReadResult:
    """The result, if it has a demo; SourceDemoError with the first reason otherwise."""
    if not result.demos:
        count, (_, reason) = len(result.skipped), result.skipped[0]
        raise SourceDemoError(f"{where}: no usable demo, {count} skipped; the first: {reason}")
    return result


def read_usable(
    path: Path, needs: Needs, demo_keys: Sequence[str] | None, max_demos: int | None, on_error: OnError
) -> ReadResult:
    """As `read_file`, but with on_error="skip" there may be no demo left."""
    result = ReadResult()
    with open_hdf5(path) as file:
        data = _data_group(file, path)
        for name in _select(_demo_names(data, path), demo_keys, path):
            where = f"{path}: {show(name)}"
            try:
                demo = read_demo(data, name, where, needs)
                if result.demos:
                    check_same_widths(result.demos[0], demo, where)
            except SourceDemoError as error:
                if on_error == "raise":
                    raise
                result.skipped.append((name, str(error)))
                continue
            result.demos.append(demo)
            if len(result.demos) == max_demos:
                break
    return result


def read_recordings(path: Path, action_dim: int | None) -> tuple[list[tuple[Recording, bool]], list[tuple[str, str]]]:
    """Actions and states of all demos of a file, each with whether it has annotated poses; and (demo, fault) of others.

    Raises:
        SourceDemoError: the file cannot be used.
    """
    found, faults = [], []
    with open_hdf5(path) as file:
        data = _data_group(file, path)
        for name in _demo_names(data, path):
            try:
                found.append(read_recording(data, name, f"{path}: {show(name)}", action_dim))
            except SourceDemoError as error:
                faults.append((name, str(error)))
    return found, faults


def list_demos(path: str | Path) -> list[str]:
    """Names of the demos in a file, in natural order; at least one."""
    with open_hdf5(Path(path)) as file:
        return _demo_names(_data_group(file, Path(path)), Path(path))


def check_same_widths(first: SourceDemo, demo: SourceDemo, where: str) -> None:
    """Actions and gripper actions of a demo are as wide as those of the first one."""
    pairs = [("actions", demo.actions, first.actions)]
    for eef, gripper in demo.info.gripper_action.items():
        pairs.append((f"gripper_action/{eef}", gripper, first.info.gripper_action.get(eef, gripper)))
    for key, mine, theirs in pairs:
        if mine.shape[1] != theirs.shape[1]:
            raise SourceDemoError(
                f"{where}: {key}: {mine.shape[1]} columns, {show(first.name)} has {theirs.shape[1]}; "
                "use demos of one robot and one control mode"
            )


def _data_group(file: h5py.File, path: Path) -> h5py.Group:
    data = child(file, "data", f"{path}: data")
    if isinstance(data, h5py.Group):
        return data
    raise SourceDemoError(
        f"{path}: data: no such group (the file has {listing(child_names(file, str(path)))}); "
        "give a file in Isaac Lab's or robomimic's layout"
    )


def _demo_names(data: h5py.Group, path: Path) -> list[str]:
    names = sorted(child_names(data, f"{path}: data"), key=natural_key)
    if not names:
        raise SourceDemoError(f"{path}: data: holds no demos; record some into the file")
    return names


def _select(names: list[str], demo_keys: Sequence[str] | None, path: Path) -> list[str]:
    if demo_keys is None:
        return names
    unknown = [key for key in demo_keys if key not in names]
    if unknown or not demo_keys:
        what = f"unknown demo {listing(unknown)}" if unknown else "demo_keys is empty"
        raise SourceDemoError(f"{path}: {what}; the file has {listing(names)}")
    return [name for name in names if name in demo_keys]
