"""RRT-Connect (Kuffner and LaValle, "RRT-Connect: an efficient approach to single-query path planning", ICRA 2000), and
shortcutting (Geraerts and Overmars, "Creating high-quality paths for motion planning", IJRR 26(8), 2007).

Nothing is drawn here: random numbers are arguments, so a path is a function of them alone. There are no clocks; what a
search may cost is a number of extensions.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
EdgeFree = Callable[[Array, Array], bool]
"""Whether the straight way between two points can be gone; its first point can be."""


class _Tree:
    """Points that are connected to a root."""

    def __init__(self, roots: Sequence[Array], weights: Array, room: int) -> None:
        self._points = np.empty((room + len(roots), len(weights)))
        self._parents = np.full(room + len(roots), -1, dtype=np.int64)
        self._weights = weights
        self._count = 0
        for root in roots:
            self.add(root, -1)

    def add(self, point: Array, parent: int) -> int:
        if self._count == len(self._points):
            self._points = np.concatenate((self._points, np.empty_like(self._points)))
            self._parents = np.concatenate((self._parents, np.full_like(self._parents, -1)))
        self._points[self._count], self._parents[self._count] = point, parent
        self._count += 1
        return self._count - 1

    def nearest(self, point: Array) -> int:
        apart = (self._points[: self._count] - point) * self._weights
        return int(np.argmin((apart * apart).sum(axis=1)))

    def point(self, index: int) -> Array:
        return self._points[index]

    def path_to(self, index: int) -> list[Array]:
        """From the root."""
        path = []
        while index >= 0:
            path.append(self._points[index].copy())
            index = int(self._parents[index])
        return path[::-1]

    def extend(self, target: Array, step: float, edge_free: EdgeFree) -> tuple[int | None, bool]:
        """Grow towards a point by at most `step`; the new point, None where the way is barred, and if it is that."""
        near = self.nearest(target)
        start = self._points[near]
        apart = target - start
        length = float(np.sqrt(((apart * self._weights) ** 2).sum()))
        reached = length <= step
        point = target if reached else start + apart * (step / length)
        if not edge_free(start, point):
            return None, False
        return self.add(point, near), reached


def rrt_connect(
    start: Array,
    goals: Sequence[Array],
    samples: Array,
    edge_free: EdgeFree,
    step: float,
    weights: Array,
) -> list[Array] | None:
    """A path from the start to one of the goals, corner by corner; None where none was found.

    Args:
        start: (D,) a free point.
        goals: free points (D,), the nicest first.
        samples: (I, D) points that the trees grow towards, one in each of I iterations.
        edge_free: see `EdgeFree`.
        step: longest edge of an extension, in weighted distance.
        weights: (D,) of a coordinate in distances.
    """
    for goal in goals:
        if edge_free(start, goal):
            return [start, goal]
    grown, other = _Tree([start], weights, len(samples)), _Tree(list(goals), weights, len(samples))
    from_start = True
    for sample in samples:
        new, _ = grown.extend(sample, step, edge_free)
        if new is not None:
            target, met = grown.point(new).copy(), False
            found: int | None = new
            while found is not None and not met:
                found, met = other.extend(target, step, edge_free)
            if met:
                assert found is not None
                there, back = grown.path_to(new), other.path_to(found)
                path = there + back[::-1][1:]
                return path if from_start else path[::-1]
        grown, other, from_start = other, grown, not from_start
    return None


def shorten(
    path: list[Array], draws: Array, edge_free: EdgeFree, length: Callable[[Array, Array], float]
) -> list[Array]:
    """The path with corners cut: for each pair of draws (K, 2) in [0, 1), straight between two points on it if free.

    Args:
        path: corners.
        draws: where on the path, as shares of its length.
        edge_free: see `EdgeFree`.
        length: of an edge.
    """
    for pair in draws:
        if len(path) == 2:
            break
        ends = np.cumsum([0.0, *(length(a, b) for a, b in itertools.pairwise(path))])
        low, high = np.sort(pair) * ends[-1]
        i, j = (min(int(np.searchsorted(ends, at, side="right")) - 1, len(path) - 2) for at in (low, high))
        if i == j:
            continue
        a, b = (_at(path, ends, k, at) for k, at in ((i, low), (j, high)))
        if edge_free(a, b):
            path = [*path[: i + 1], a, b, *path[j + 1 :]]
    return path


def _at(path: list[Array], ends: Array, edge: int, at: float) -> Array:
    span = ends[edge + 1] - ends[edge]
    share = (at - ends[edge]) / span if span > 0.0 else 0.0
    return path[edge] + (path[edge + 1] - path[edge]) * share
