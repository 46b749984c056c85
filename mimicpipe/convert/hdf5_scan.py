"""Which keys the demos of an HDF5 file have, found without reading an array, and which of them become columns.

A key whose first axis is as long as the demo's `actions` becomes a column. One that never is (Isaac Lab's
`initial_state`, of one row) is kept whole with each episode. Only demos that have the same columns fit into one
dataset; those are taken that most demos have, or, with `common`, those that all have.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import h5py

from mimicpipe.convert.names import feature_of
from mimicpipe.convert.options import Options
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5_access import child, child_names, guarded, read_number
from mimicpipe.pools.names import listing, show

ACTIONS = "actions"
OWN_STATE = "initial_state/mimicpipe"
_PER_EPISODE = "initial_state/"
_DEEPEST = 16
_MOST_AXES = 5  # of LeRobot's arrays
_SMALLEST_PICTURE = 16  # pixels a side, of the recorders' cameras
_TEXT = "text"


@dataclass(frozen=True, slots=True)
class Key:
    """A column: the same in every demo that fits."""

    path: str
    dtype: str
    """numpy's name: "float64", "bool"."""
    shape: tuple[int, ...]
    """Of one frame; () for a number."""

    @property
    def is_camera(self) -> bool:
        """Whether its frames are pictures: of colours (uint8), or of depth (uint16)."""
        channels = {"uint8": 3, "uint16": 1}.get(self.dtype)
        return len(self.shape) == 3 and self.shape[2] == channels and min(self.shape[:2]) >= _SMALLEST_PICTURE


@dataclass(frozen=True, slots=True)
class _Entry:
    """An array as found in one demo: `frames` says whether it has a row for each step."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    frames: bool


@dataclass
class Scan:
    """What was found.

    Attributes:
        names: demos that fit, in natural order.
        keys: their columns; `actions` among them.
        whole: keys kept whole with each episode, and the shape of a row.
        faults: (demo, why) of the others.
        left_out: {key: why} of keys that cannot be, or were not asked to be, converted.
    """

    names: list[str] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    whole: dict[str, tuple[int, ...]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def scan(data: h5py.Group, names: Sequence[str], where: str, options: Options) -> Scan:
    """Look at demos.

    Args:
        data: the group they are in.
        names: the demos to look at.
        where: names the file in messages.
        options: `include`, `exclude`, `common`, `success_only`.

    Returns:
        What fits; `names` may be empty, and `faults` then says why.
    """
    found = Scan()
    structures: dict[str, frozenset[_Entry]] = {}
    known: dict[frozenset[_Entry], frozenset[_Entry]] = {}
    for name in names:
        try:
            structure = _structure(data, name, f"{where}: {show(name)}", options)
        except SourceDemoError as error:
            found.faults[name] = str(error)
            continue
        structures[name] = known.setdefault(structure, structure)  # one copy of each
    columns = _columns(structures, found, options, where)
    _choose(columns, found, options, where)
    return found


def _structure(data: h5py.Group, name: str, where: str, options: Options) -> frozenset[_Entry]:
    demo = child(data, name, where)
    if not isinstance(demo, h5py.Group):
        raise SourceDemoError(f"{where}: is no group with `actions`; remove it from the file")
    if options.success_only and read_number(demo, "success", where) == 0.0:
        raise SourceDemoError(f"{where}: success: recorded as a failure, and --success-only is given")
    length = _length(demo, where)
    entries = []
    for path, dataset in _arrays(demo, "", where):
        with guarded(f"{where}: {path}"):
            shape, dtype = dataset.shape, dataset.dtype
        if shape is None or dtype.kind not in "biuf" or dtype.itemsize > 8:
            entries.append(_Entry(path, _TEXT, (), False))
            continue
        frames = shape[:1] == (length,) and not path.startswith(_PER_EPISODE)
        entries.append(_Entry(path, dtype.newbyteorder("=").name, tuple(shape[1:]), frames))
    return frozenset(entries)


def _length(demo: h5py.Group, where: str) -> int:
    actions = child(demo, ACTIONS, f"{where}: {ACTIONS}")
    if not isinstance(actions, h5py.Dataset):
        raise SourceDemoError(f"{where}: actions: missing (the demo has {listing(child_names(demo, where))})")
    with guarded(f"{where}: actions"):
        shape = actions.shape
    if not shape or 0 in shape:
        raise SourceDemoError(f"{where}: actions: shape {shape}; the demo is empty")
    samples = read_number(demo, "num_samples", where)
    if samples not in (None, shape[0]):
        raise SourceDemoError(f"{where}: attribute num_samples: {samples:g}, but actions has {shape[0]} steps")
    return shape[0]


def _arrays(group: h5py.Group, prefix: str, where: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """(path, array) of everything below a group."""
    if prefix.count("/") > _DEEPEST:
        raise SourceDemoError(f"{where}: groups within groups without an end; the demo holds a link to itself")
    for name in sorted(child_names(group, where)):
        node = child(group, name, f"{where}: {prefix}{show(name)}")
        if isinstance(node, h5py.Group):
            yield from _arrays(node, f"{prefix}{name}/", where)
        elif isinstance(node, h5py.Dataset):
            yield f"{prefix}{name}", node


def _columns(
    structures: Mapping[str, frozenset[_Entry]], found: Scan, options: Options, where: str
) -> dict[str, frozenset[Key]]:
    """The columns of each demo; demos with an array of another length become faults."""
    rows: Counter[str] = Counter()
    for structure, count in Counter(structures.values()).items():
        rows.update({entry.path: count if entry.frames else -count for entry in structure})
    per_frame = {path for path, votes in rows.items() if votes >= 0}
    seen: dict[frozenset[_Entry], frozenset[Key] | str] = {}
    for structure in set(structures.values()):
        entries = sorted(structure, key=lambda entry: entry.path)
        unwanted = {e.path: reason for e in entries if (reason := _unwanted(e, e.path in per_frame, options))}
        found.left_out.update(unwanted)
        wanted = [entry for entry in entries if entry.path not in unwanted]
        found.whole.update((entry.path, entry.shape) for entry in wanted if entry.path not in per_frame)
        wanted = [entry for entry in wanted if entry.path in per_frame]
        wrong = next((entry.path for entry in wanted if not entry.frames), None)
        seen[structure] = (
            frozenset(Key(entry.path, entry.dtype, entry.shape) for entry in wanted)
            if wrong is None
            else f"{show(wrong)}: has not as many rows as actions; --exclude it"
        )
    found.whole = dict(sorted(found.whole.items()))
    columns: dict[str, frozenset[Key]] = {}
    for name, structure in structures.items():
        keys = seen[structure]
        if isinstance(keys, str):
            found.faults[name] = f"{where}: {show(name)}: {keys}"
        else:
            columns[name] = keys
    return columns


def _unwanted(entry: _Entry, is_column: bool, options: Options) -> str | None:
    """Why an array is left out; None if it is not."""
    if entry.dtype == _TEXT:
        return "holds no numbers"
    if entry.path == ACTIONS:
        return None
    feature = feature_of(entry.path, Key(entry.path, entry.dtype, entry.shape).is_camera)
    if not options.wants(entry.path, feature or entry.path):
        return "not asked for"
    if is_column and 0 in entry.shape:
        return "has an empty axis"
    if is_column and len(entry.shape) > _MOST_AXES:
        return f"LeRobot's arrays have at most {_MOST_AXES} axes"
    return "LeRobot has no such name" if is_column and feature is None else None


def _choose(columns: Mapping[str, frozenset[Key]], found: Scan, options: Options, where: str) -> None:
    """Fill in `names` and `keys`; demos with other columns become faults."""
    if not columns:
        return
    if options.common:
        chosen = frozenset[Key].intersection(*columns.values())
        for keys in columns.values():
            found.left_out.update({key.path: "not in every demo, or not alike" for key in keys - chosen})
    else:
        chosen = Counter(columns.values()).most_common(1)[0][0]  # of equally many, the first
    if not any(key.path == ACTIONS for key in chosen):
        raise SourceDemoError(f"{where}: actions: not of one shape and dtype in all demos; convert without --common")
    for name, keys in columns.items():
        if keys == chosen or options.common:
            found.names.append(name)
        else:
            found.faults[name] = f"{where}: {show(name)}: {_difference(keys, chosen)}; --exclude it, or take --common"
    found.left_out = {path: why for path, why in found.left_out.items() if path not in {key.path for key in chosen}}
    found.keys = sorted(chosen, key=lambda key: key.path)


def _difference(keys: frozenset[Key], chosen: frozenset[Key]) -> str:
    mine, others = {key.path: key for key in keys}, {key.path: key for key in chosen}
    for path in sorted(mine.keys() & others.keys()):
        own, other = mine[path], others[path]
        if own != other:
            most = f"most demos have {other.dtype} of shape {other.shape}"
            return f"{show(path)}: {own.dtype} of shape {own.shape} a frame, {most}"
    if missing := sorted(others.keys() - mine.keys()):
        return f"has no {listing(missing)}, which most demos have"
    return f"has {listing(sorted(mine.keys() - others.keys()))}, which most demos have not"
