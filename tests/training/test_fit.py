"""Training: it learns, it is exact, and chunks end where episodes do."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_demos import toy_demos

from mimicpipe.training.fit import BcSettings, _following, fit

SETTINGS = BcSettings(hidden=32, depth=2, chunk=4, executed=4, modes=2, steps=200, batch=32, warmup=5)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(a, b, member=0, other=0):
    return all(torch.equal(x[0][member], y[0][other]) and torch.equal(x[1][member], y[1][other])
               for x, y in zip(a.layers, b.layers, strict=True))  # fmt: skip


def test_the_loss_falls():
    losses = fit(toy_demos(), [0], SETTINGS).losses[0]
    assert losses[-1] < 0.2 * losses[0]
    assert len(losses) == 100


def test_the_same_seed_is_the_same_weights_and_another_one_is_not():
    short = replace(SETTINGS, steps=20)
    first = fit(toy_demos(), [5], short)
    assert same(first, fit(toy_demos(), [5], short))
    assert not same(first, fit(toy_demos(), [6], short))


def test_a_member_does_not_depend_on_those_beside_it():
    short = replace(SETTINGS, steps=20)
    together, alone = fit(toy_demos(), [4, 5, 6], short), fit(toy_demos(), [5], short)
    for (weight, _), (own, _) in zip(together.layers, alone.layers, strict=True):
        torch.testing.assert_close(weight[1], own[0], atol=1e-4, rtol=1e-4)


def test_progress_is_told_a_hundred_times():
    told = []
    fit(toy_demos(), [0], replace(SETTINGS, steps=150), lambda step, loss: told.append((step, loss)))
    assert len(told) == 100
    assert told[-1][0] == 150
    assert all(np.isfinite(loss) for _, loss in told)


def test_a_chunk_does_not_reach_into_the_next_episode():
    following, known = _following(np.array([3, 2]), 3)
    assert following.tolist() == [[0, 1, 2], [1, 2, 2], [2, 2, 2], [3, 4, 4], [4, 4, 4]]
    assert known.tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]]
