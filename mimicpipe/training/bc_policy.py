"""The small policy as it acts: looks every few steps, and plays one of the chunks that it then predicts."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.pipeline.ends import Ints
from mimicpipe.rng import Seeds, Stream, uniforms
from mimicpipe.training.fit import BcSettings
from mimicpipe.training.inputs import InputEncoder
from mimicpipe.training.network import Floats, forward_rows


class BcPolicy:
    """A member of what `fit` has trained; an episode is a function of the seed alone, at every number of slots.

    Args:
        encoder: observations to inputs.
        layers: [(weights (in, out), biases (out,))].
        input_scale, action_scale: (mean, spread) of each number.
        settings: what it was trained with.
    """

    def __init__(
        self,
        encoder: InputEncoder,
        layers: Sequence[tuple[Floats, Floats]],
        input_scale: tuple[Floats, Floats],
        action_scale: tuple[Floats, Floats],
        settings: BcSettings,
    ) -> None:
        self._encoder = encoder
        self._layers = layers
        self._input_scale = input_scale
        self._action_scale = action_scale
        self._settings = settings
        self._planned: npt.NDArray[np.float32] = np.empty((0, settings.executed, len(action_scale[0])), np.float32)

    def act(self, slots: Ints, seeds: Seeds, steps: Ints, observations: Mapping[str, Tensor]) -> Tensor:
        """Actions (K, A); see `Policy`."""
        self._make_room(int(slots.max()) + 1)
        at = steps % self._settings.executed
        looks = np.flatnonzero(at == 0)
        if len(looks):
            rows = torch.from_numpy(looks)
            seen = {name: observations[name].cpu().index_select(0, rows) for name in self._encoder.features}
            self._planned[slots[looks]] = self._chunks(seen, seeds[looks], steps[looks])
        device = next(iter(observations.values())).device
        return torch.from_numpy(self._planned[slots, at]).to(device)

    def _chunks(self, observations: Mapping[str, Tensor], seeds: Seeds, steps: Ints) -> Floats:
        """(K, executed, A) to play next."""
        mean, spread = self._input_scale
        inputs = (self._encoder(observations).numpy() - mean) / spread
        modes = self._settings.modes
        chunks, logits = np.split(forward_rows(self._layers, inputs), [-modes], axis=1)
        chunks = chunks.reshape(len(chunks), modes, self._settings.chunk, -1)
        chosen = chunks[np.arange(len(chunks)), _drawn(logits, seeds, steps)]
        mean, spread = self._action_scale
        return chosen[:, : self._settings.executed] * spread + mean

    def _make_room(self, slots: int) -> None:
        missing = slots - len(self._planned)
        if missing > 0:
            more = np.zeros((missing, *self._planned.shape[1:]), np.float32)
            self._planned = np.concatenate((self._planned, more))


def _drawn(logits: Floats, seeds: Seeds, steps: Ints) -> Ints:
    """(K,) one of the modes (K, M) with its probability, by the attempt's random numbers at this step."""
    # The likeliest alone would stand still for ever where the demos pause: waiting is then the likeliest, always.
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    up_to = np.cumsum(weights, axis=1)
    drawn = uniforms(seeds, Stream.POLICY, 1, steps) * up_to[:, -1:]
    return (up_to <= drawn).sum(axis=1).clip(max=logits.shape[1] - 1)
