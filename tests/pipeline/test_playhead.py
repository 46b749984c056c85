"""Waypoints that are written late, where the buffer grows meanwhile, and where slots are planned for again."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.pipeline.playhead import Playheads
from mimicpipe.pipeline.protocol import EefPlans

WIDTH = 16 + 1 + 2
ENVS = 3


def plans_of(lengths, first, *, late):
    """Waypoints whose numbers tell them apart, given at once or written on demand; ({row: (length, W)}, plans)."""
    rows = [first + 100 * m + torch.arange(n)[:, None].expand(n, WIDTH).float() for m, n in enumerate(lengths)]

    def write(to, out):
        for m, row in enumerate(rows):
            out[to[m], : len(row)] = row.numpy()

    on_host = torch.arange(len(lengths)), torch.tensor(lengths)
    if late:
        return rows, EefPlans(*on_host, write, has_noise=True, width=WIDTH)
    padded = torch.full((len(lengths), max(lengths), WIDTH), float("nan"))
    for m, row in enumerate(rows):
        padded[m, : len(row)] = row
    return rows, EefPlans(*on_host, padded, has_noise=True)


@settings(deadline=None)
@given(
    loads=st.lists(
        st.tuples(
            st.lists(st.integers(0, ENVS - 1), min_size=1, max_size=ENVS, unique=True),
            st.integers(1, 150),  # more than there is room for at first
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    steps=st.integers(1, 5),
    read_late=st.booleans(),
)
def test_every_slot_plays_what_was_loaded_last(loads, steps, read_late):
    playheads = Playheads(ENVS, ("hand",), 1, 2, torch.device("cpu"))
    everyone = np.arange(ENVS)
    _, start = plans_of([1] * ENVS, -1000, late=False)
    playheads.load("hand", everyone, start)
    expected = {slot: torch.full((1, WIDTH), -1000.0 + 100 * slot) for slot in range(ENVS)}
    for number, (slots, longest, late) in enumerate(loads):
        lengths = [max(1, longest - m) for m in range(len(slots))]
        rows, plans = plans_of(lengths, 1000 * number, late=late)
        playheads.load("hand", np.asarray(slots), plans)
        expected |= dict(zip(slots, rows, strict=True))
    read = playheads.advance_along(everyone, np.full(steps, ENVS))
    if read_late:  # a slot that sits out gets a plan that needs more room
        _, plans = plans_of([400], 0, late=False)
        playheads.load("hand", np.asarray([0]), plans)
        del expected[0]
    got = read()
    assert got.noise is not None
    targets = got.targets["hand"].reshape(steps, ENVS, 16)
    for slot, rows in expected.items():
        for step in range(steps):
            wanted = rows[min(step, len(rows) - 1)]
            assert torch.equal(targets[step, slot], wanted[:16])
            assert torch.equal(got.grippers["hand"].reshape(steps, ENVS)[step, slot], wanted[16])
            assert torch.equal(got.noise["hand"].reshape(steps, ENVS, 2)[step, slot], wanted[17:])


def test_plans_that_are_asked_for_their_waypoints_write_them_once():
    rows, plans = plans_of([3, 2], 5, late=True)
    assert torch.equal(plans.waypoints[0], rows[0])
    assert torch.equal(plans.waypoints[1, :2], rows[1])
    assert plans.waypoints is plans.waypoints
    assert torch.equal(plans.targets[0], rows[0][:, :16].reshape(3, 4, 4))
