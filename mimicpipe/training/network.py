"""A stack of dense layers, several of them trained side by side, and the same layers row by row for playing.

Members of an ensemble share no weight and no number: E of them in one batched product cost less than E runs, because
each is too small to keep a core busy.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.compiled import compiled

Floats = npt.NDArray[np.float32]
Layers = list[tuple[Tensor, Tensor]]
"""Weights (E, in, out) and biases (E, 1, out) of each layer; between layers is a ReLU."""


def new_layers(widths: Sequence[int], generators: Sequence[torch.Generator]) -> Layers:
    """Layers as He et al. ("Delving deep into rectifiers", ICCV 2015) begin, biases zero.

    Args:
        widths: of inputs, hidden layers, outputs.
        generators: one for each member; its numbers come from it alone.
    """
    layers: Layers = []
    for before, after in itertools.pairwise(widths):
        bound = math.sqrt(6.0 / before)
        weights = [(torch.rand(before, after, generator=g) * 2.0 - 1.0) * bound for g in generators]
        layers.append((torch.stack(weights), torch.zeros(len(generators), 1, after)))
    return layers


def forward(layers: Layers, inputs: Tensor) -> Tensor:
    """Outputs (E, B, out) of inputs (E, B, in), as they are trained."""
    values = inputs
    for number, (weight, bias) in enumerate(layers):
        if number:
            values = torch.relu(values)
        values = torch.baddbmm(bias, values, weight)
    return values


@compiled
def _dense(inputs: Floats, weight: Floats, bias: Floats, rectify: bool, out: Floats) -> None:
    """One layer: each row by itself, sums in the order of the inputs, so its bits do not depend on the batch."""
    for row in range(len(inputs)):
        for j in range(out.shape[1]):
            out[row, j] = bias[j]
        for i in range(inputs.shape[1]):
            value = inputs[row, i]
            if rectify and value <= np.float32(0.0):
                continue
            for j in range(out.shape[1]):
                out[row, j] += value * weight[i, j]


def forward_rows(layers: Sequence[tuple[Floats, Floats]], inputs: Floats) -> Floats:
    """Outputs (K, out) of inputs (K, in) of one member: weights (in, out), biases (out,).

    A row's outputs are the same bits at every K and in every place.
    """
    values = inputs
    for number, (weight, bias) in enumerate(layers):
        out = np.empty((len(values), weight.shape[1]), dtype=np.float32)
        _dense(values, weight, bias, number > 0, out)
        values = out
    return values
