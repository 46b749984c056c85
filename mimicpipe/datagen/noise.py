"""Action noise of an attempt: a function of (attempt, eef, step of the attempt), whoever asks and in whatever batch."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe import rng

_EEF_STRIDE = 1 << 40
"""Stream positions of eef e: from e * _EEF_STRIDE on, `noise_dim` (rounded up to even) values a step."""


def unit_noise(
    seeds: rng.Seeds,
    eef_index: int,
    first_step: npt.ArrayLike,
    steps: int,
    noise_dim: int,
    wanted: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.float32]:
    """(K, steps, noise_dim) standard normals of stream NOISE.

    Args:
        seeds: (K,) the attempts' seeds.
        eef_index: index of the eef in the env's order.
        first_step: () or (K,) step of the attempt that the first value is for.
        steps: how many steps.
        noise_dim: values a step.
        wanted: (K,) steps that are looked at, at most `steps`; None is all.
    """
    stride = noise_dim + noise_dim % 2
    offset = eef_index * _EEF_STRIDE + np.asarray(first_step, dtype=np.int64) * stride
    drawn = None if wanted is None else wanted * stride
    values = rng.normals(seeds, rng.Stream.NOISE, steps * stride, offset=offset, wanted=drawn)
    return values.reshape(len(seeds), steps, stride)[..., :noise_dim]


class ActionNoise:
    """The noise of one attempt, step by step, for generators that act one waypoint at a time.

    Args:
        seed: the attempt's seed.
        eef_names: the env's eefs, in its order.
        noise_dim: length of the pose part of an action.
        device: where the noise is wanted.
        step: step of the attempt that the next draw is for.
    """

    def __init__(
        self, seed: int, eef_names: Sequence[str], noise_dim: int, device: torch.device, step: int = 0
    ) -> None:
        self._seeds = np.asarray([seed], dtype=np.int64)
        self._eefs = {name: index for index, name in enumerate(eef_names)}
        self._noise_dim = noise_dim
        self._device = device
        self.step = step

    def draw(self, amplitudes: Mapping[str, float]) -> dict[str, Tensor]:
        """{eef: (1, noise_dim)} noise with the given standard deviations, for the next step."""
        drawn = {}
        for eef, amplitude in amplitudes.items():
            unit = unit_noise(self._seeds, self._eefs[eef], self.step, 1, self._noise_dim)[0]
            drawn[eef] = torch.from_numpy(np.float32(amplitude) * unit).to(self._device)
        self.step += 1
        return drawn
