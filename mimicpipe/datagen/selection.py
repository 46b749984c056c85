"""Which source demo a segment is taken from, for many slots at once.

A strategy is a callable `strategy(context, **kwargs)` that returns (K,) int64 demo indices below `context.num_demos`.
`random` and the nearest neighbours have the formulas of MimicGen (Mandlekar et al., CoRL 2023) as Isaac Lab Mimic has
them; `balanced` uses every demo equally often. All depend on a row's own values alone, so a slot gets the same demo in
every batch; ties go to the lower index. Strategies compute on the host: what they look at is small, and a plan's
lengths, which follow from the demo, are needed there.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mimicpipe import rng

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def _unknown() -> Ints:
    raise ValueError("the attempts' numbers are not known here; pass them to SubtaskPlanner.request")


@dataclass
class SelectionContext:
    """What K slots that choose among D source demos can see. Demos at or behind `num_demos` of a row are not for it.

    Poses are computed when asked for; those of an object raise ValueError where the subtask has none.
    """

    num_demos: Ints
    """(K,) demos a row may choose from, 0 < num_demos <= D."""
    uniforms: npt.NDArray[np.float64]
    """(K,) in [0, 1), drawn for the attempt and the subtask."""
    eef_pose: Callable[[], Floats]
    """() -> (K, 4, 4) where the eef is."""
    object_pose: Callable[[], Floats]
    """() -> (K, 4, 4) where the subtask's object is."""
    eef_in_object: Callable[[], Floats]
    """() -> (K, 4, 4) where the eef is in the object's frame."""
    source_eef_pose: Callable[[], Floats]
    """() -> (K, D, 4, 4) where the eef was at the start of each demo's segment."""
    source_object_pose: Callable[[], Floats]
    """() -> (K, D, 4, 4) where the subtask's object was."""
    source_eef_in_object: Callable[[], Floats]
    """() -> (K, D, 4, 4) where the eef was in the object's frame."""
    attempt: Callable[[], Ints] = _unknown
    """() -> (K,) index of the attempt in its run."""
    run_seed: Callable[[], rng.Seeds] = _unknown
    """() -> (K,) seed of the run."""
    draw: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(K,) or (1,) number of the subtask, counted over all eefs."""


SelectionStrategy = Callable[..., Any]
_Strategy = TypeVar("_Strategy", bound=SelectionStrategy)

STRATEGIES: dict[str, SelectionStrategy] = {}
"""Strategies by name; `register_selection_strategy` adds to it."""


def register_selection_strategy(name: str, *, needs_object: bool = False) -> Callable[[_Strategy], _Strategy]:
    """Decorator that makes a strategy available under a name.

    Args:
        name: what `SubTaskConfig.selection_strategy` calls it.
        needs_object: refuse it for subtasks without `object_ref`.
    """

    def register(strategy: _Strategy) -> _Strategy:
        setattr(strategy, "needs_object", needs_object)  # noqa: B010 - a function has no such attribute for a checker
        STRATEGIES[name] = strategy
        return strategy

    return register


def strategy_named(name: str) -> SelectionStrategy:
    """The strategy of that name; KeyError that lists the valid ones."""
    if name not in STRATEGIES:
        raise KeyError(f"no such strategy; valid: {', '.join(STRATEGIES)}, or a callable")
    return STRATEGIES[name]


def strategy_fault(strategy: SelectionStrategy, kwargs: Mapping[str, Any]) -> str | None:
    """What is wrong with a strategy's keyword arguments, as `.name=value: ...`; None if nothing is."""
    parameters = inspect.signature(strategy).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    valid = list(parameters)[1:]
    for name, value in kwargs.items():
        if not open_ended and name not in valid:
            return f".{name}={value}: the strategy has no such argument; valid: {', '.join(valid) or 'none'}"
        if name == "nn_k" and not (type(value) is int and value >= 1):
            return f".{name}={value}: expected an integer >= 1"
        if name in ("pos_weight", "rot_weight") and not _is_weight(value):
            return f".{name}={value}: expected a number >= 0"
    return None


def _is_weight(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def pose_distance(a: Floats, b: Floats, pos_weight: float, rot_weight: float) -> Floats:
    """Weighted sum (...) of the distance of two poses' origins, metres, and the angle between them, radians.

    a and b (..., 4, 4) broadcast. The angle is acos((tr(A B^T) - 1) / 2).
    """
    delta = a[..., :3, 3] - b[..., :3, 3]
    delta = delta * delta
    distance = np.sqrt(delta[..., 0] + delta[..., 1] + delta[..., 2])
    # tr(A B^T) is the sum over all entries of A * B; in a fixed order, as a reduction's may depend on the batch.
    product = a[..., :3, :3] * b[..., :3, :3]
    rows = product[..., 0, :] + product[..., 1, :] + product[..., 2, :]
    trace = rows[..., 0] + rows[..., 1] + rows[..., 2]
    cosine = np.clip((trace - np.float32(1.0)) * np.float32(0.5), -1.0, 1.0)
    return np.float32(pos_weight) * distance + np.float32(rot_weight) * np.arccos(np.ascontiguousarray(cosine))


def pick(uniforms: npt.NDArray[np.float64], counts: Ints) -> Ints:
    """(K,) floor(uniform * count): below count, as the largest uniform is 1 - 2^-53 and the product is rounded down."""
    return (uniforms * counts).astype(np.int64)


def _one_of_nearest(context: SelectionContext, distances: Floats, nn_k: int) -> Ints:
    """(K,) one of the nn_k nearest demos, each as likely; distances (K, D)."""
    count, demos = distances.shape
    distances = np.where(np.arange(demos) < context.num_demos[:, None], distances, np.float32(np.inf))
    order = np.argsort(distances, axis=1, kind="stable")
    return order[np.arange(count), pick(context.uniforms, np.minimum(context.num_demos, nn_k))]


@register_selection_strategy("random")
def random_strategy(context: SelectionContext) -> Ints:
    """Any demo, each as likely."""
    return pick(context.uniforms, context.num_demos)


@register_selection_strategy("nearest_neighbor_object", needs_object=True)
def nearest_neighbor_object(
    context: SelectionContext, pos_weight: float = 1.0, rot_weight: float = 1.0, nn_k: int = 3
) -> Ints:
    """One of the nn_k demos whose object lay nearest to where it lies now."""
    distances = pose_distance(context.source_object_pose(), context.object_pose()[:, None], pos_weight, rot_weight)
    return _one_of_nearest(context, distances, nn_k)


@register_selection_strategy("nearest_neighbor_robot_distance", needs_object=True)
def nearest_neighbor_robot_distance(
    context: SelectionContext, pos_weight: float = 1.0, rot_weight: float = 1.0, nn_k: int = 3
) -> Ints:
    """One of the nn_k demos whose transformed segment starts nearest to where the eef is now.

    Measured in the object's frame: a rigid motion changes no distance, so neither does transforming the segments.
    """
    now = context.eef_in_object()[:, None]
    distances = pose_distance(context.source_eef_in_object(), now, pos_weight, rot_weight)
    return _one_of_nearest(context, distances, nn_k)


_DRAW_STRIDE, _ROUND_STRIDE = 1 << 50, 1 << 22
"""Positions of a permutation in stream SELECTION of the run's seed: draw * _DRAW_STRIDE + round * _ROUND_STRIDE on."""


@register_selection_strategy("balanced")
def balanced(context: SelectionContext) -> Ints:
    """Every demo once in each D attempts in a row (attempts 0 to D - 1, D to 2 D - 1, ...), D the demos there are.

    The order within such a round is a permutation drawn for (run's seed, subtask, round), so what attempt k gets is a
    function of the seed, k and D, whoever is quicker.
    """
    attempts, count = context.attempt(), context.num_demos
    draws = np.broadcast_to(context.draw, attempts.shape)
    keys = np.stack((context.run_seed(), draws, attempts // count, count), axis=1)
    rounds, which = np.unique(keys, axis=0, return_inverse=True)
    demo = np.empty(len(attempts), dtype=np.int64)
    for number, (seed, draw, round_, demos) in enumerate(rounds.tolist()):
        offset = draw * _DRAW_STRIDE + round_ * _ROUND_STRIDE
        order = np.argsort(rng.uniforms(seed, rng.Stream.SELECTION, demos, offset=offset)[0], kind="stable")
        rows = which.reshape(-1) == number
        demo[rows] = order[attempts[rows] % demos]
    return demo
