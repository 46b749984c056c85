"""Layers as they are trained, and as they are played."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.training.network import forward, forward_rows, new_layers

WIDTHS = (5, 17, 17, 6)


def layers(seeds):
    return new_layers(WIDTHS, [torch.Generator().manual_seed(seed) for seed in seeds])


def rows_of(made, member):
    return [(weight[member].numpy(), bias[member, 0].numpy()) for weight, bias in made]


def inputs(count, seed=0):
    return torch.randn(count, WIDTHS[0], generator=torch.Generator().manual_seed(seed))


def test_played_layers_are_the_trained_ones():
    made = layers([3, 4])
    for _, bias in made:
        bias.copy_(torch.randn(bias.shape, generator=torch.Generator().manual_seed(9)))
    seen = inputs(11)
    trained = forward(made, seen.expand(2, -1, -1))
    for member in (0, 1):
        played = forward_rows(rows_of(made, member), seen.numpy())
        torch.testing.assert_close(torch.from_numpy(played), trained[member], atol=1e-5, rtol=1e-5)


def test_a_members_first_weights_are_its_seeds():
    together, alone = layers([3, 4]), layers([4])
    assert all(torch.equal(a[1], b[0]) for (a, _), (b, _) in zip(together, alone, strict=True))
    assert not torch.equal(together[0][0][0], together[0][0][1])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 70), st.integers(0, 50), st.data())
def test_a_row_is_the_same_bits_in_every_batch(count, seed, data):
    made, seen = rows_of(layers([0]), 0), inputs(count, seed).numpy()
    row = data.draw(st.integers(0, count - 1))
    assert np.array_equal(forward_rows(made, seen)[row], forward_rows(made, seen[row : row + 1].copy())[0])
