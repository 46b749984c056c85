"""An Isaac Lab env's observation groups as LeRobot features.

The low-dimensional terms of a group stand side by side, float32, in one feature: `observation.state` for the group
`policy`, `observation.<group>` for another. An image term, (H, W, 3) uint8, is the camera `observation.images.<term>`;
(H, W, 1) floats, metres, are a camera of depth.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError

_POLICY = "policy"
_MM = 1000.0
"""Millimetres in a metre: LeRobot's unit of depth."""
_MOST_MM = 65535.0

Group = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class _Column:
    """Where one feature comes from."""

    group: str
    terms: tuple[str, ...]
    """Terms side by side; none: the group is one tensor."""
    camera: bool = False


class ObservationMap:
    """Features of an env, and their values from its observation buffer.

    Args:
        observations: {group: tensor (N, ...) or {term: tensor (N, ...)}}, as the env shows them after a reset.

    Raises:
        ConfigError: an image term that no camera can hold, or two of one name.
    """

    def __init__(self, observations: Mapping[str, Group]) -> None:
        self.features: dict[str, Feature] = {}
        self._columns: dict[str, _Column] = {}
        for group, values in observations.items():
            self._add_group(group, values)

    def _add_group(self, group: str, values: Group) -> None:
        low: list[str] = []
        names: list[str] = []
        for term, value in values.items() if isinstance(values, Mapping) else [("", values)]:
            if value.ndim == 4:
                self._add_camera(group, term, value)
                continue
            width = value[0].numel()
            low.append(term)
            stem = term or group
            names += [stem] if width == 1 else [f"{stem}_{index}" for index in range(width)]
        if names:
            feature = "observation.state" if group == _POLICY else f"observation.{group}"
            self.features[feature] = Feature("float32", (len(names),), tuple(names))
            self._columns[feature] = _Column(group, tuple(low) if isinstance(values, Mapping) else ())

    def _add_camera(self, group: str, term: str, value: Tensor) -> None:
        height, width, channels = value.shape[1:]
        name = f"observation.images.{term or group}"
        if name in self.features:
            raise ConfigError(f"env=isaaclab: two observation groups have an image term {term!r}; rename one")
        axes = ("height", "width", "channels")
        if channels == 3 and value.dtype == torch.uint8:
            self.features[name] = Feature("video", (height, width, 3), axes)
        elif channels == 1 and value.is_floating_point():
            self.features[name] = Feature("depth", (height, width, 1), axes)
        else:
            raise ConfigError(
                f"env=isaaclab: the image term {group}.{term} is {value.dtype} with {channels} channels; a camera is "
                "uint8 with 3 (the term's normalize=False), or depth: a float with 1"
            )
        self._columns[name] = _Column(group, (term,) if term else (), camera=True)

    def observe(self, observations: Mapping[str, Group], ids: Tensor | slice) -> dict[str, Tensor]:
        """{feature: (K, *shape)} of slots `ids`, as tensors of the caller's own."""
        return {name: self._value(column, observations[column.group], ids) for name, column in self._columns.items()}

    @staticmethod
    def _value(column: _Column, group: Group, ids: Tensor | slice) -> Tensor:
        values = [group[term] for term in column.terms] if isinstance(group, Mapping) else [group]
        if column.camera:
            image = values[0][ids].clone()
            if image.dtype == torch.uint8:
                return image
            return (image * _MM).nan_to_num(0.0, _MOST_MM, 0.0).clamp(0.0, _MOST_MM).round().to(torch.uint16)
        count = values[0][ids].shape[0]
        return torch.cat([value[ids].reshape(count, -1).to(torch.float32) for value in values], dim=1)
