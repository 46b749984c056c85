"""Source demos from one HDF5 file or LeRobot dataset, from a folder of them, or from a list of any, joined."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.base import DatasetReader, OnError, ReadResult
from mimicpipe.pools.hdf5_file import (
    check_arguments,
    check_same_widths,
    list_demos,
    read_usable,
    require_demos,
)
from mimicpipe.pools.hdf5_layout import GripperFromActions, Needs
from mimicpipe.pools.lerobot_files import is_dataset
from mimicpipe.pools.names import listing, natural_key, show

SUFFIXES = (".hdf5", ".h5")
"""Endings of the files that are read from a folder."""


def load_demos(
    path: str | Path | Sequence[str | Path],
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
    """Read and check demos as `read_demos` does, file after file.

    Args:
        path: a file; a folder, whose files *.hdf5 and *.h5 are read in natural order (its sub-folders are not); or a
            list of files and folders. With more than one file, demos are named "<file name>/<demo>".
        eef_names, object_names, signal_names, start_signal_names: what the task needs, see `Needs`.
        gripper_from_actions, action_dim, observations, failed: likewise.
        demo_keys: names of the demos to read; None is all.
        max_demos: counted over all files.
        on_error: with "skip", a file that cannot be used at all is left out as well, and noted under its name.

    Raises:
        SourceDemoError: as `read_demos`; a folder without such files; or demos whose actions differ in width.
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
    return load_needed(path, needs, demo_keys=demo_keys, max_demos=max_demos, on_error=on_error)


def load_needed(
    path: str | Path | Sequence[str | Path],
    needs: Needs,
    *,
    demo_keys: Sequence[str] | None = None,
    max_demos: int | None = None,
    on_error: OnError = "raise",
    datasets: DatasetReader | None = None,
) -> ReadResult:
    """As `load_demos`, with what the task needs as one object; `datasets` reads LeRobot datasets among the paths."""
    files = source_files([path] if isinstance(path, str | Path) else path)
    if len(files) == 1:
        check_arguments(str(files[0]), max_demos, on_error)
        read = _read(files[0], needs, demo_keys, max_demos, on_error, datasets)
        return require_demos(read, str(files[0]))
    where = f"{len(files)} files from {files[0]}"
    check_arguments(where, max_demos, on_error)
    result = ReadResult()
    contents = _list_files(files, on_error, result, datasets)
    wanted = _wanted(contents, demo_keys, where)
    for label, names in wanted.items():
        left = None if max_demos is None else max_demos - len(result.demos)
        if left == 0:
            break
        file, _ = contents[label]
        _append(result, _read(file, needs, names, left, on_error, datasets), label, on_error)
    return require_demos(result, where)


def _read(
    file: Path,
    needs: Needs,
    names: Sequence[str] | None,
    max_demos: int | None,
    on_error: OnError,
    datasets: DatasetReader | None,
) -> ReadResult:
    if is_dataset(file):
        return _reader(datasets, file).read_usable(file, names, max_demos, on_error)
    return read_usable(file, needs, names, max_demos, on_error)


def _reader(datasets: DatasetReader | None, root: Path) -> DatasetReader:
    if datasets is None:
        raise SourceDemoError(f"{root}: is a LeRobot dataset; only HDF5 files are read here, give one of these")
    return datasets


def source_files(paths: Sequence[str | Path]) -> list[Path]:
    """Files and datasets of a list of files and folders, in order.

    A LeRobot dataset is a folder; any other folder stands for its *.hdf5 and *.h5 and the datasets directly in it, in
    natural order of their names.

    Raises:
        SourceDemoError: an empty list, or a folder without any.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir() or is_dataset(path):
            files.append(path)
            continue
        found = sorted((p for p in path.iterdir() if _is_source(p)), key=lambda p: natural_key(p.name))
        if not found:
            raise SourceDemoError(
                f"{path}: the folder has no {' or '.join(SUFFIXES)} file and no LeRobot dataset; "
                "give a file, a dataset or another folder"
            )
        files += found
    if not files:
        raise SourceDemoError("no source demo file given; name a file or a folder in pool.path")
    return files


def _is_source(path: Path) -> bool:
    # Hidden files are other programs' temporary ones.
    if path.name.startswith("."):
        return False
    return is_dataset(path) or (path.suffix in SUFFIXES and path.is_file())


def _list_files(
    files: Sequence[Path], on_error: OnError, result: ReadResult, datasets: DatasetReader | None
) -> dict[str, tuple[Path, list[str]]]:
    """{label: (file, demos in it)}; the label is the file's name, or its path where names repeat."""
    repeated = Counter(file.name for file in files)
    contents = {}
    for file in files:
        label = file.name if repeated[file.name] == 1 else str(file)
        try:
            listed = _reader(datasets, file).list_episodes(file) if is_dataset(file) else list_demos(file)
            contents[label] = (file, listed)
        except SourceDemoError as error:
            if on_error == "raise":
                raise
            result.skipped.append((label, str(error)))
    return contents


def _wanted(
    contents: Mapping[str, tuple[Path, list[str]]], demo_keys: Sequence[str] | None, where: str
) -> dict[str, list[str]]:
    """{label: demos to read}, without files of which none is wanted."""
    if demo_keys is None:
        return {label: names for label, (_, names) in contents.items()}
    known = {f"{label}/{name}" for label, (_, names) in contents.items() for name in names}
    unknown = [key for key in demo_keys if key not in known]
    if unknown or not demo_keys:
        what = f"unknown demo {listing(unknown)}" if unknown else "demo_keys is empty"
        raise SourceDemoError(f"{where}: {what}; the files have {listing(sorted(known))}")
    chosen = {
        label: [name for name in names if f"{label}/{name}" in demo_keys] for label, (_, names) in contents.items()
    }
    return {label: names for label, names in chosen.items() if names}


def _append(result: ReadResult, read: ReadResult, label: str, on_error: OnError) -> None:
    """Add what was read from one file, under names that tell the file."""
    result.skipped += [(f"{label}/{name}", reason) for name, reason in read.skipped]
    for demo in read.demos:
        named = replace(demo, name=f"{label}/{demo.name}")
        try:
            if result.demos:
                check_same_widths(result.demos[0], named, show(named.name))
        except SourceDemoError as error:
            if on_error == "raise":
                raise
            result.skipped.append((named.name, str(error)))
        else:
            result.demos.append(named)
