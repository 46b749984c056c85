"""RRT-Connect on a square with a wall that has a gap."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.planners.rrt_connect import rrt_connect, shorten

ONES = np.ones(2)
LEFT, RIGHT = np.array([0.1, 0.1]), np.array([0.9, 0.1])


def free(point, gap=(0.85, 0.95)) -> bool:
    """The wall at x = 0.5 is 4 cm thick and open where y is in the gap."""
    in_square = bool((point >= 0.0).all() and (point <= 1.0).all())
    return in_square and (abs(point[0] - 0.5) > 0.02 or gap[0] < point[1] < gap[1])


def edge_free(a, b, gap=(0.85, 0.95)) -> bool:
    pieces = max(1, int(np.ceil(np.abs(b - a).max() / 0.005)))
    return all(free(a + (b - a) * k / pieces, gap) for k in range(1, pieces + 1))


def length(a, b) -> float:
    return float(np.sqrt(((b - a) ** 2).sum()))


def search(seed, gap=(0.85, 0.95), goals=(RIGHT,)):
    samples = np.random.default_rng(seed).random((1500, 2))
    return rrt_connect(LEFT, list(goals), samples, lambda a, b: edge_free(a, b, gap), 0.1, ONES)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_path_leads_through_the_gap_and_corners_can_be_cut(seed):
    path = search(seed)
    assert path is not None
    draws = np.random.default_rng(seed + 1).random((60, 2))
    short = shorten(path, draws, edge_free, length)
    for way in (path, short):
        assert np.array_equal(way[0], LEFT)
        assert np.array_equal(way[-1], RIGHT)
        # Looked at from the other end, an edge may graze a corner by what lies between two of the points looked at.
        assert all(edge_free(a, b, (0.84, 0.96)) for a, b in itertools.pairwise(way))
    assert sum(map(length, short, short[1:])) <= sum(map(length, path, path[1:])) + 1e-9
    again = search(seed)
    assert all(np.array_equal(a, b) for a, b in zip(path, again, strict=True))


def test_the_straight_way_is_taken_where_it_is_free():
    path = search(0, gap=(0.0, 1.0))
    assert [point.tolist() for point in path] == [LEFT.tolist(), RIGHT.tolist()]


def test_of_several_goals_one_that_can_be_reached():
    near = np.array([0.1, 0.8])
    assert search(0, gap=(2.0, 3.0), goals=(RIGHT, near))[-1].tolist() == near.tolist()


def test_a_closed_wall_has_no_way():
    assert search(0, gap=(2.0, 3.0)) is None
