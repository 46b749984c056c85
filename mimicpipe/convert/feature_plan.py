"""Which features of a LeRobot dataset become which keys of an HDF5 demo."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mimicpipe.convert.names import path_of
from mimicpipe.convert.options import Options
from mimicpipe.convert.quaternions import Quaternions, order_of
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.lerobot_files import LeRobotFiles
from mimicpipe.pools.names import listing
from mimicpipe.recorders.camera_encoder import VideoSettings, described
from mimicpipe.recorders.data_files import DEFAULT_FEATURES
from mimicpipe.recorders.dataset_meta import INFO_FILE
from mimicpipe.recorders.hdf5_notes import NOTE, array_from_json, array_to_json
from mimicpipe.recorders.layout import CONVERSION, FORMAT

_CAMERAS = ("video", "image")
_SCALARS = ("rewards", "dones")
"""Keys that have no axis of their own in robomimic's layout."""


@dataclass(frozen=True)
class Plan:
    """How episodes become demos.

    Attributes:
        paths: {feature: key in the demo}.
        header: of the log that episodes are staged in.
        quaternions: their order.
        in_tables: features that are no videos.
    """

    paths: Mapping[str, str]
    header: Mapping[str, Any]
    quaternions: Quaternions
    in_tables: list[str]

    def narrowed(self, name: str, values: np.ndarray, where: str) -> np.ndarray:
        """Values of a feature as the file has them: dtype, and order of quaternions.

        Raises:
            SourceDemoError: they are not finite, or do not fit.
        """
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            frame = int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
            raise SourceDemoError(f"{where}: NaN or infinity in frame {frame}")
        path = self.paths[name]
        dtype = np.dtype(self.header["features"][path]["dtype"])
        with np.errstate(over="ignore"):
            narrow = values.astype(dtype, copy=False)
        if dtype != values.dtype and not np.array_equal(narrow.astype(values.dtype), values):
            raise SourceDemoError(f"{where}: has values that {dtype}, the dtype it came from, cannot hold")
        return self.quaternions.apply(path, narrow)

    def reordered(self, own: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What is kept of an episode, with the wanted order in the arrays that an HDF5 file had beside its frames.

        Raises:
            SourceDemoError: it is damaged.
        """
        if not self.quaternions.reorders or "metadata" not in own:
            return dict(own)
        try:
            metadata = json.loads(own["metadata"])
            arrays = metadata.get(NOTE, {}).get("arrays", {})
            for path, note in arrays.items():
                arrays[path] = array_to_json(self.quaternions.apply(path, array_from_json(note)))
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise SourceDemoError(f"{where}: metadata: damaged ({error!r})") from error
        return {**own, "metadata": json.dumps(metadata, ensure_ascii=False, sort_keys=True)}


def plan_of(files: LeRobotFiles, options: Options, notes: list[str]) -> Plan:
    """Choose the keys.

    Raises:
        ConfigError: two features would stand at one place, there is no action, or an option cannot be.
    """
    _check_info(files)
    run_info = _run_info(files)
    earlier = run_info.pop(CONVERSION, None) or {}
    known: Mapping[str, Any] = earlier.get("keys", {})
    features = {name: ft for name, ft in files.features.items() if name not in earlier.get("derived", ())}
    paths, left_out = _paths(features, known, options)
    if "actions" not in paths.values():
        raise ConfigError(
            f"{files.root}: no feature 'action', which every demo has; it has {listing(list(files.features))}"
        )
    for reason, names in left_out.items():
        notes.append(f"left out ({reason}): {listing(names)}")
    keys = {path: _key(files.features[name], known.get(name), path) for name, path in paths.items()}
    quaternions = order_of(
        options.quaternions, options.to_quaternions, options.quaternion_keys, None, earlier.get("quaternions")
    )
    if (line := quaternions.said((path, key["shape"]) for path, key in keys.items())) is not None:
        notes.append(line)
    lerobot = {
        "fps": files.info["fps"],
        "robot_type": options.robot_type or files.info.get("robot_type"),
        "features": {name: _described(files.features[name], path) for name, path in paths.items()},
        "run_info": run_info,
        "quaternions": quaternions.result,
    }
    header = {
        "format": FORMAT,
        "layout": CONVERSION,
        "fps": files.info["fps"],
        "robot_type": lerobot["robot_type"],
        "features": keys,
        "video": described(VideoSettings()),
        "conversion": {
            "dataset": _identity(files),
            "max_demos": options.max_demos,
            "file_attributes": _versioned(earlier, keys, quaternions),
            "data_attributes": earlier.get("data_attributes", {}),
            "masks": earlier.get("masks", {}),
            "lerobot": lerobot,
            "reordered": quaternions.reorders,
        },
    }
    in_tables = [name for name in paths if files.features[name]["dtype"] != "video"]
    # As a log gives it back.
    return Plan(paths, json.loads(json.dumps(header)), quaternions, in_tables)


def _check_info(files: LeRobotFiles) -> None:
    features, rate = files.info["features"], files.info["fps"]
    whole = isinstance(features, dict) and all(
        isinstance(feature, dict) and isinstance(feature.get("dtype"), str) and isinstance(feature.get("shape"), list)
        for feature in features.values()
    )
    if not whole or not isinstance(rate, int | float) or rate <= 0:
        what = "features without dtype and shape" if not whole else f"fps {rate!r}"
        raise SourceDemoError(f"{files.root / 'meta' / 'info.json'}: damaged ({what}); copy the dataset again")


def _run_info(files: LeRobotFiles) -> dict[str, Any]:
    try:
        run = json.loads((files.root / INFO_FILE).read_text(encoding="utf-8")).get("run")
    except (OSError, ValueError, AttributeError):
        return {}
    return dict(run) if isinstance(run, dict) else {}


def _paths(
    features: Mapping[str, Any], known: Mapping[str, Any], options: Options
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """({feature: key}, {why: features that are left out})."""
    ruled = [path_of(name, feature["dtype"] in _CAMERAS) for name, feature in features.items()]
    options.require_matches([*ruled, *(place["path"] for place in known.values())], list(features))
    paths: dict[str, str] = {}
    left_out: dict[str, list[str]] = {}
    for name, feature in features.items():
        if name in DEFAULT_FEATURES:
            continue
        path = known[name]["path"] if name in known else path_of(name, feature["dtype"] in _CAMERAS)
        reason = None
        if feature["dtype"] == "string":
            reason = "text"
        elif path != "actions" and not options.wants(path, name):
            reason = "not asked for"
        elif feature["dtype"] in _CAMERAS and not options.frames:
            reason = "cameras; --frames decodes them"
        if reason is not None:
            left_out.setdefault(reason, []).append(name)
            continue
        for other, taken in paths.items():
            if path == taken or path.startswith(f"{taken}/") or taken.startswith(f"{path}/"):
                raise ConfigError(f"{name} would stand at {path}, and {other} at {taken}; --exclude one of them")
        paths[name] = path
    return paths, left_out


def _key(feature: Mapping[str, Any], known: Mapping[str, Any] | None, path: str) -> dict[str, Any]:
    if feature["dtype"] in _CAMERAS:
        return {"dtype": "zlib", "shape": list(feature["shape"])}
    if known is not None and int(np.prod(known["shape"])) == int(np.prod(feature["shape"])):
        return {"dtype": known["dtype"], "shape": list(known["shape"])}
    shape = [] if path in _SCALARS or "_signals/" in path else list(feature["shape"])
    return {"dtype": feature["dtype"], "shape": shape}


def _described(feature: Mapping[str, Any], path: str) -> dict[str, Any]:
    names = feature.get("names")
    names = list(names) if isinstance(names, list | tuple) and feature["dtype"] not in _CAMERAS else None
    return {"path": path, "shape": list(feature["shape"]), "names": names}


def _versioned(
    earlier: Mapping[str, Any], keys: Mapping[str, Mapping[str, Any]], quaternions: Quaternions
) -> dict[str, Any]:
    """Attributes of the file, with Isaac Lab's `format_version`: 1 says that its root poses are xyzw."""
    kept = dict(earlier.get("file_attributes", {}))
    poses = any(path.rsplit("/", 1)[-1] == "root_pose" and key["shape"][-1:] == [7] for path, key in keys.items())
    if quaternions.result == "wxyz" and poses:
        kept.pop("format_version", None)
    elif (quaternions.result == "xyzw") if poses else not earlier:
        kept["format_version"] = array_to_json(np.asarray(1, np.int64))
    return kept


def _identity(files: LeRobotFiles) -> dict[str, Any]:
    """By which a resumed conversion knows its dataset."""
    totals = {key: files.info.get(key) for key in ("total_episodes", "total_frames")}
    return {"name": files.root.resolve().name, **totals}
