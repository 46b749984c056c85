"""The columns of a dataset: what LeRobot can hold, and the check of an episode's columns against it."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.envs.text import decode_text
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import first_nonfinite

CAMERA_DTYPES = ("image", "video", "depth")
"""A camera of depth has (H, W, 1) uint16, millimetres, and is kept without a loss."""
TEXT_DTYPE = "string"
"""(L,) uint8, see `envs.text`."""
_MOST_AXES = 5  # of LeRobot's arrays
NUMERIC_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
# Columns that LeRobot fills in itself, or takes apart from the features.
_RESERVED = frozenset(
    {"timestamp", "frame_index", "episode_index", "index", "task_index", "task"}
    | {"language_persistent", "language_events"}
)
# A camera's name becomes a folder.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_MIN_CAMERA_SIDE = 16


def is_annotation(name: str) -> bool:
    """Whether a per-frame column is an annotation, which an episode may carry without a declared feature."""
    return name == "subtask_index" or name.startswith("annotation.")


def check_features(features: Mapping[str, Feature], use_videos: bool) -> None:
    """Refuse features that LeRobot 0.6 cannot hold, or would hold with wrong statistics.

    Raises:
        ConfigError: names the feature, the reason and what is valid.
    """
    if not features:
        raise ConfigError("features: empty; a dataset needs at least one column")
    for name, feature in features.items():
        problem = _name_problem(name, feature) or _shape_problem(feature, use_videos)
        if problem:
            raise ConfigError(f"feature {name!r}: {problem}")


def _name_problem(name: str, feature: Feature) -> str | None:
    if not _NAME.fullmatch(name):
        return "a name has letters, digits, '_', '-' and '.', and does not begin with a dot"
    if name in _RESERVED:
        return f"LeRobot fills this column in itself (so it does {', '.join(sorted(_RESERVED))})"
    if "image" in name and feature.dtype not in CAMERA_DTYPES:
        # Its statistics check looks for the word, not for the dtype, and fails at the second episode.
        return "LeRobot takes a name with 'image' in it for a camera; give it another name"
    return None


def _shape_problem(feature: Feature, use_videos: bool) -> str | None:
    shape = feature.shape
    if any(size < 1 for size in shape):
        return f"shape {shape} has an empty axis"
    if feature.dtype in CAMERA_DTYPES:
        channels = 1 if feature.dtype == "depth" else 3
        if len(shape) != 3 or shape[2] != channels or min(shape[:2]) < _MIN_CAMERA_SIDE:
            wanted = f"(H, W, {channels}) with sides of {_MIN_CAMERA_SIDE} pixels or more"
            return f"the shape of a camera of dtype {feature.dtype!r} is {wanted}, not {shape}"
        if feature.dtype != "depth" and use_videos and (shape[0] % 2 or shape[1] % 2):
            return f"a video needs even sides (4:2:0 chroma), not {shape[0]} x {shape[1]}; or set use_videos=false"
        return None
    if feature.dtype == TEXT_DTYPE:
        return None if len(shape) == 1 else f"the shape of text is (L,), at most L bytes of UTF-8, not {shape}"
    if feature.dtype not in NUMERIC_DTYPES:
        return f"dtype {feature.dtype!r}; valid are {', '.join((*NUMERIC_DTYPES, *CAMERA_DTYPES, TEXT_DTYPE))}"
    if len(shape) > _MOST_AXES:
        return f"shape {shape}; LeRobot's arrays have at most {_MOST_AXES} axes"
    if feature.names is not None and len(feature.names) != (shape[0] if shape else 1):
        return f"{len(feature.names)} names for {shape[0] if shape else 1} elements"
    return None


def lerobot_features(features: Mapping[str, Feature], use_videos: bool) -> dict[str, dict[str, object]]:
    """Features as `LeRobotDataset.create` takes them; cameras but those of depth become videos, or all images."""
    converted: dict[str, dict[str, object]] = {}
    for name, feature in features.items():
        camera = feature.dtype in CAMERA_DTYPES
        names = ["height", "width", "channels"] if camera else list(feature.names) if feature.names else None
        shape = (1,) if feature.dtype == TEXT_DTYPE else feature.shape or (1,)
        if feature.dtype == "depth":
            info = {"is_depth_map": True, "depth_unit": "mm"}
            converted[name] = {"dtype": "image", "shape": shape, "names": names, "info": info}
            continue
        dtype = ("video" if use_videos else "image") if camera else feature.dtype
        converted[name] = {"dtype": dtype, "shape": shape, "names": names}
    return converted


def with_annotations(features: Mapping[str, Feature], columns: Mapping[str, Tensor]) -> dict[str, Feature]:
    """`features`, and a feature for each annotation among `columns` (T, *shape) that has none."""
    extended = dict(features)
    for name, column in columns.items():
        if name not in extended and is_annotation(name):
            extended[name] = Feature(str(column.dtype).removeprefix("torch."), tuple(column.shape[1:]) or (1,))
    return extended


def check_columns(columns: Mapping[str, Tensor], features: Mapping[str, Feature], finite: bool = False) -> None:
    """Check that columns are exactly the features, of one length, finite and on the host.

    Args:
        columns: of an episode, (T, *shape).
        features: what they are to be.
        finite: they are known to hold no NaN and no infinity.

    Raises:
        ValueError: names the feature.
    """
    missing, extra = sorted(features.keys() - columns.keys()), sorted(columns.keys() - features.keys())
    if missing:
        raise ValueError(f"feature {missing[0]!r}: the episode has no such column; it has {', '.join(columns)}")
    if extra:
        raise ValueError(f"column {extra[0]!r}: not among the dataset's features, which are {', '.join(features)}")
    length = next(iter(columns.values())).shape[0]
    for name, column in columns.items():
        _check_column(name, column, features[name], length)
    problem = None if finite else first_nonfinite(columns)
    if problem is not None:
        raise ValueError(problem)


def _check_column(name: str, column: Tensor, feature: Feature, length: int) -> None:
    dtype = torch.uint16 if feature.dtype == "depth" else NUMERIC_DTYPES.get(feature.dtype, torch.uint8)
    shape = column.shape
    if shape != (length, *feature.shape) and not (feature.shape == (1,) and shape == (length,)):
        raise ValueError(f"feature {name!r}: shape {tuple(shape)} where {(length, *feature.shape)} is needed")
    if column.dtype != dtype:
        raise ValueError(f"feature {name!r}: {column.dtype} where {dtype} is declared")
    if column.device.type != "cpu":
        raise ValueError(f"feature {name!r}: on {column.device}; an episode's columns are on the host")
    if feature.dtype == TEXT_DTYPE:
        try:
            decode_text(column.numpy())
        except ValueError as error:
            raise ValueError(f"feature {name!r}: {error}") from None


def check_task(task: object) -> None:
    """Check that a task is text that a file can hold: any string but half of a surrogate pair.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(task, str):
        raise ValueError(f"task: a {type(task).__name__} where a string is needed")
    task.encode()  # UnicodeEncodeError is a ValueError
