"""Finds poses, joints, grippers and actions in a dataset's features, by the names of their elements.

Elements of this package's envs are named `x y z qw qx qy qz`, `<part>_joint`, `panda_joint1`, `gripper_width`; those of
several bodies or arms have the body's or arm's name in front, as `cube_x`. A feature without names is taken in the
env's own order, where its width leaves no doubt.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.envs.actions import CONTROLS, action_feature
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.lerobot_files import Column
from mimicpipe.pools.names import listing

_POSITION = ("x", "y", "z")
_QUATERNION = ("qw", "qx", "qy", "qz")
_POSE = (*_POSITION, *_QUATERNION)
ORDERS = {"wxyz": (3, 4, 5, 6), "xyzw": (6, 3, 4, 5)}
"""Places of w, x, y, z behind a position, by the order of a quaternion whose elements have no names."""


def named_poses(column: Column, bodies: Sequence[str], quaternion: str, where: str) -> dict[str, Tensor]:
    """Poses {body: (T, 4, 4)} float32 that a feature holds, of those of `bodies` that are in it.

    Args:
        column: the feature.
        bodies: names; with only one, the feature need not name it.
        quaternion: order where the feature's elements have no names, a key of `ORDERS`.
        where: names the demo for messages.

    Raises:
        SourceDemoError: no names, and a width that is not seven for each body.
    """
    values, names = torch.from_numpy(column.values.astype("float64")), column.names
    if names is None or len(names) != values.shape[1]:
        if values.shape[1] != 7 * len(bodies):
            raise SourceDemoError(
                f"{where}: {column.feature}: {values.shape[1]} elements without names, expected 7 for each of "
                f"{listing(bodies)}; name a feature for each of them in pool.features"
            )
        places = [0, 1, 2, *ORDERS[quaternion]]
        return {body: _poses(values[:, [7 * i + p for p in places]]) for i, body in enumerate(bodies)}
    found = {}
    for body in bodies:
        for prefix in (f"{body}_", *(("",) if len(bodies) == 1 else ())):
            if all(f"{prefix}{part}" in names for part in _POSE):
                found[body] = _poses(values[:, [names.index(f"{prefix}{part}") for part in _POSE]])
                break
    return found


def _poses(values: Tensor) -> Tensor:
    """(T, 4, 4) float32 of positions and wxyz quaternions (T, 7); one of zeros gives NaN, which checks name."""
    return poses.pose_from_pos_quat(values[:, :3].contiguous(), values[:, 3:].contiguous()).float()


def elements(column: Column, names: Sequence[str]) -> Tensor | None:
    """(T, W) float32 of the elements with these names; None where the feature has not all of them."""
    if column.names is None or len(column.names) != column.values.shape[1] or not set(names) <= set(column.names):
        return None
    places = [column.names.index(name) for name in names]
    return torch.from_numpy(column.values[:, places].astype("float32"))


def ending_with(column: Column, ending: str, prefixes: Sequence[str]) -> list[Tensor] | None:
    """(T,) float32 of the element for each prefix, named `<prefix>...<ending>`; None where one is not there, or two."""
    if column.names is None or len(column.names) != column.values.shape[1]:
        # A feature with as many numbers as there are arms can mean nothing else.
        if column.values.shape[1] != len(prefixes):
            return None
        return list(torch.from_numpy(column.values.astype("float32")).unbind(1))
    found = []
    for prefix in prefixes:
        places = [i for i, name in enumerate(column.names) if name.startswith(prefix) and name.endswith(ending)]
        if len(places) != 1:
            return None
        found.append(torch.from_numpy(column.values[:, places[0]].astype("float32")))
    return found


def control_of(column: Column, prefixes: Sequence[str], own: str | None) -> tuple[str, list[Tensor]] | None:
    """(control, one arm's actions (T, A) for each prefix) of a feature whose elements are eef poses or changes of them.

    Args:
        column: the feature.
        prefixes: of the arms' element names, in the env's order.
        own: the env's own control, for a feature without names.
    """
    for control in CONTROLS:
        found = [elements(column, action_feature(control, [prefix]).names or ()) for prefix in prefixes]
        if all(part is not None for part in found):
            return control, [part for part in found if part is not None]
    if column.names is None and own is not None:
        width = action_feature(own).shape[0]
        if column.values.shape[1] == width * len(prefixes):
            return own, list(torch.from_numpy(column.values.astype("float32")).split(width, dim=1))
    return None
