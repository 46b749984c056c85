"""Which column stands where in a demo of an HDF5 file, and what is recorded so that it can be a source demo again.

| column | in its demo |
| --- | --- |
| `action` | `actions` |
| `observation.images.<camera>` | `obs/<camera>` |
| `observation.<name>` | `obs/<name>`, with _ for further dots: robomimic's encoders take none |
| `datagen_info.<key>.<name>` | `obs/datagen_info/<key>/<name>` |
| `subtask_index`, `annotation.<name>` | `subtask_index`, `annotation/<name>` |
"""

import re
from collections.abc import Mapping

from torch import Tensor

from mimicpipe.envs.base import Feature, MimicEnv
from mimicpipe.errors import ConfigError
from mimicpipe.pools.steps import shown
from mimicpipe.recorders.features import CAMERA_DTYPES, NUMERIC_DTYPES, with_annotations

_DATAGEN = "datagen_info."
_KEYS = {"object_poses": "object_pose"}  # the only field that the layout calls by another name
_IMAGES, _OBSERVATION = "observation.images.", "observation."
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\- ]*")
_TAKEN = frozenset({"actions", "obs", "initial_state", "states", "datagen_info"})
"""What the layout, or Isaac Lab's, has beside the columns that are named by us."""


def datagen_columns(env: MimicEnv, env_ids: Tensor | None, actions: Tensor) -> dict[str, Tensor]:
    """What a source demo needs of each frame (Isaac Lab Mimic's `DatagenInfo`).

    Args:
        env: the simulator, before the actions.
        env_ids: (K,) slots; None is all.
        actions: (K, A) of these slots.

    Returns:
        {"datagen_info.<key>.<name>": (K, ...)}: poses (K, 4, 4), gripper actions (K, G), signals (K,) bool.
    """
    groups = ((_KEYS.get(key, key), group) for key, group in shown(env, env_ids, actions).items())
    return {f"{_DATAGEN}{key}.{name}": value for key, group in groups for name, value in group.items()}


def with_datagen(features: Mapping[str, Feature], columns: Mapping[str, Tensor]) -> dict[str, Feature]:
    """`features`, and a feature for each annotation and each of `datagen_columns` that an episode's columns bring."""
    extended = with_annotations(features, columns)
    for name, column in columns.items():
        if name not in extended and name.startswith(_DATAGEN):
            extended[name] = Feature(str(column.dtype).removeprefix("torch."), tuple(column.shape[1:]) or (1,))
    return extended


def path_of(name: str) -> str:
    """Where a column stands in its demo."""
    if name == "action":
        return "actions"
    if name.startswith(_DATAGEN):
        return "obs/datagen_info/" + "/".join(name.removeprefix(_DATAGEN).split(".", 1))
    for prefix in (_IMAGES, _OBSERVATION):
        if name.startswith(prefix):
            return "obs/" + name.removeprefix(prefix).replace(".", "_")
    return name.replace(".", "/")


def check_hdf5_features(features: Mapping[str, Feature]) -> None:
    """Refuse features that the layout cannot hold.

    Raises:
        ConfigError: names the feature, the reason and what is valid.
    """
    if "action" not in features:
        raise ConfigError("features: no 'action', which every demo in this layout has")
    taken: dict[str, str] = {}
    for name, feature in features.items():
        problem = _problem(name, feature) or _clash(name, path_of(name), taken)
        if problem:
            raise ConfigError(f"feature {name!r}: {problem}")
        taken[path_of(name)] = name


def _problem(name: str, feature: Feature) -> str | None:
    if not _NAME.fullmatch(name) or any(part in ("", ".", "..") for part in path_of(name).split("/")):
        return "a name has letters, digits, '_', '-', ' ' and single '.', and does not begin or end with a dot"
    if any(size < 1 for size in feature.shape):
        return f"shape {feature.shape} has an empty axis"
    if feature.dtype in CAMERA_DTYPES:
        return None if len(feature.shape) == 3 else f"a camera's shape is (H, W, channels), not {feature.shape}"
    if feature.dtype not in NUMERIC_DTYPES:
        return f"dtype {feature.dtype!r}; recorder=hdf5 takes {', '.join((*NUMERIC_DTYPES, *CAMERA_DTYPES))}"
    return None


def _clash(name: str, path: str, taken: Mapping[str, str]) -> str | None:
    """Two columns at one place, or one inside another."""
    first = path.split("/")[0]
    if first in _TAKEN and name != "action" and not name.startswith((_OBSERVATION, _DATAGEN)):
        return f"{first!r} is the layout's own key"
    if path == "obs/datagen_info":
        return "obs/datagen_info is the layout's own key"
    for other, owner in taken.items():
        if path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/"):
            return f"would stand at {path}, where {owner!r} does; give one of them another name"
    return None
