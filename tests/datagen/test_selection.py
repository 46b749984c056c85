from collections.abc import Callable

import numpy as np
import pytest
import torch
from arm_env import random_poses
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import poses
from mimicpipe.datagen.selection import (
    STRATEGIES,
    SelectionContext,
    balanced,
    nearest_neighbor_object,
    nearest_neighbor_robot_distance,
    pick,
    pose_distance,
    random_strategy,
    register_selection_strategy,
    strategy_named,
)


def scene(seed: int, rows: int, demos: int, num_demos: int | None = None) -> SelectionContext:
    generator = np.random.default_rng(seed)
    eef, held = random_poses(generator, rows), random_poses(generator, rows)
    source_eef, source_object = random_poses(generator, rows, demos), random_poses(generator, rows, demos)
    return SelectionContext(
        num_demos=np.full(rows, demos if num_demos is None else num_demos),
        uniforms=generator.random(rows),
        eef_pose=eef.numpy,
        object_pose=held.numpy,
        eef_in_object=poses.compose(poses.invert(held), eef).numpy,
        source_eef_pose=source_eef.numpy,
        source_object_pose=source_object.numpy,
        source_eef_in_object=poses.compose(poses.invert(source_object), source_eef).numpy,
        attempt=lambda: np.arange(rows) + seed % 7,
        run_seed=lambda: np.full(rows, seed),
        draw=np.full(rows, seed % 3),
    )


def rows_of(context: SelectionContext, rows: slice) -> SelectionContext:
    def some(pose: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
        return lambda: pose()[rows].copy()

    return SelectionContext(
        context.num_demos[rows],
        context.uniforms[rows],
        some(context.eef_pose),
        some(context.object_pose),
        some(context.eef_in_object),
        some(context.source_eef_pose),
        some(context.source_object_pose),
        some(context.source_eef_in_object),
        some(context.attempt),
        some(context.run_seed),
        context.draw[rows],
    )


def distance(a: torch.Tensor, b: torch.Tensor, pos_weight: float, rot_weight: float) -> float:
    """The peers' formula for one pair of poses, in float64."""
    a, b = a.double(), b.double()
    angle = torch.acos(((torch.trace(a[:3, :3] @ b[:3, :3].T) - 1) / 2).clamp(-1, 1))
    return float(pos_weight * (a[:3, 3] - b[:3, 3]).norm() + rot_weight * angle)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 3), st.floats(0, 3), st.integers(1, 8)
)
def test_nearest_neighbors_are_those_of_the_formulas(
    seed: int, rows: int, demos: int, pos_weight: float, rot_weight: float, nn_k: int
) -> None:
    context = scene(seed, rows, demos)
    kwargs = {"pos_weight": pos_weight, "rot_weight": rot_weight, "nn_k": nn_k}
    by_object = nearest_neighbor_object(context, **kwargs)
    by_robot = nearest_neighbor_robot_distance(context, **kwargs)
    for row in range(rows):
        held, eef = torch.from_numpy(context.object_pose()[row]), torch.from_numpy(context.eef_pose()[row])
        to_object, to_robot = [], []
        for demo in range(demos):
            source_object = torch.from_numpy(context.source_object_pose()[row, demo])
            source_eef = torch.from_numpy(context.source_eef_pose()[row, demo])
            moved = held @ torch.linalg.inv(source_object) @ source_eef
            to_object.append(distance(source_object, held, pos_weight, rot_weight))
            to_robot.append(distance(moved, eef, pos_weight, rot_weight))
        rank = min(int(context.uniforms[row] * min(nn_k, demos)), min(nn_k, demos) - 1)
        for chosen, distances in ((by_object, to_object), (by_robot, to_robot)):
            # The rank-th nearest, up to what float32 can tell apart.
            assert distances[chosen[row]] == pytest.approx(sorted(distances)[rank], abs=2e-3 * (1 + rot_weight))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 12), st.data())
def test_a_row_chooses_the_same_demo_in_every_batch(seed: int, rows: int, demos: int, data: st.DataObject) -> None:
    context = scene(seed, rows, demos)
    context.num_demos = np.random.default_rng(seed).integers(1, demos + 1, rows)
    first = data.draw(st.integers(0, rows - 1))
    some = slice(first, data.draw(st.integers(first + 1, rows)))
    for strategy in STRATEGIES.values():
        chosen = strategy(context)
        assert chosen.dtype == np.int64
        assert ((chosen >= 0) & (chosen < context.num_demos)).all()
        assert np.array_equal(chosen[some], strategy(rows_of(context, some)))


def test_ties_go_to_the_lower_index_and_demos_not_yet_visible_are_never_chosen() -> None:
    context = scene(0, 64, 80, num_demos=50)
    # Every third demo lies exactly where the object is now, the others where it was for the first of them.
    there = context.source_object_pose()[:, :1].repeat(80, axis=1)
    there[:, ::3] = context.object_pose()[:, None]
    context.source_object_pose = lambda: there
    assert (nearest_neighbor_object(context, nn_k=1) == 0).all()
    near_first = [*range(0, 50, 3), *(demo for demo in range(50) if demo % 3)]
    rank = (context.uniforms * 50).astype(int)
    assert nearest_neighbor_object(context, nn_k=99).tolist() == [near_first[r] for r in rank]


def test_each_of_the_nearest_is_as_likely_and_random_takes_all() -> None:
    context = scene(0, 6000, 5)
    nearest = context.source_object_pose()[:1].repeat(6000, axis=0)
    context.source_object_pose = lambda: nearest
    here = context.object_pose()[:1].repeat(6000, axis=0)
    context.object_pose = lambda: here
    _, counts = np.unique(nearest_neighbor_object(context, nn_k=3), return_counts=True)
    assert len(counts) == 3
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(2000)
    _, counts = np.unique(random_strategy(context), return_counts=True)
    assert len(counts) == 5
    assert np.abs(counts - 1200).max() < 5 * np.sqrt(1200)


def test_the_largest_uniform_is_still_below_the_count() -> None:
    counts = np.concatenate((np.arange(1, 5000), 2 ** np.arange(1, 40), 2 ** np.arange(2, 40) + 1))
    assert np.array_equal(pick(np.full(len(counts), np.nextafter(1.0, 0.0)), counts), counts - 1)


def test_weights_say_what_is_near() -> None:
    context = scene(0, 1, 2)
    here = torch.eye(4)
    moved, turned = here.clone(), here.clone()
    moved[0, 3] = 0.5
    turned[:3, :3] = poses.matrix_from_axis_angle(torch.tensor([0.0, 0.0, 0.4]))
    context.object_pose = here[None].numpy
    context.source_object_pose = torch.stack((moved, turned))[None].numpy
    assert pose_distance(moved.numpy(), here.numpy(), 2.0, 5.0) == pytest.approx(1.0)
    assert pose_distance(turned.numpy(), here.numpy(), 2.0, 5.0) == pytest.approx(2.0, abs=1e-5)
    assert nearest_neighbor_object(context, nn_k=1).tolist() == [1]
    assert nearest_neighbor_object(context, pos_weight=0.5, nn_k=1).tolist() == [0]


def test_strategies_are_found_by_name_and_can_be_added() -> None:
    @register_selection_strategy("always_first")
    def always_first(context: SelectionContext) -> np.ndarray:
        return np.zeros(len(context.num_demos), dtype=np.int64)

    try:
        assert strategy_named("always_first")(scene(0, 3, 2)).tolist() == [0, 0, 0]
        with pytest.raises(KeyError, match="nearest_neighbor_robot_distance, balanced, always_first"):
            strategy_named("nearest")
    finally:
        del STRATEGIES["always_first"]


def numbered(attempts: list[int], demos: int | list[int], seed: int = 3, draw: int = 0) -> SelectionContext:
    context = scene(0, len(attempts), np.max(demos).item())
    context.num_demos = np.broadcast_to(np.asarray(demos), len(attempts))
    context.attempt = lambda: np.asarray(attempts)
    context.run_seed = lambda: np.full(len(attempts), seed)
    context.draw = np.full(len(attempts), draw)
    return context


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**62), st.randoms())
def test_balanced_uses_every_demo_once_a_round_in_whatever_batch(demos: int, rounds: int, seed: int, order) -> None:
    attempts = list(range(demos * rounds))
    chosen = balanced(numbered(attempts, demos, seed))
    for round_ in range(rounds):
        assert sorted(chosen[round_ * demos : (round_ + 1) * demos]) == list(range(demos))
    shuffled = list(attempts)
    order.shuffle(shuffled)
    assert balanced(numbered(shuffled, demos, seed)).tolist() == [int(chosen[k]) for k in shuffled]
    assert balanced(numbered([attempts[-1]], demos, seed)) == chosen[-1]


def test_balanced_orders_differ_between_seeds_subtasks_and_rounds() -> None:
    one = balanced(numbered(list(range(40)), 20)).tolist()
    assert one[:20] != one[20:]
    assert one != balanced(numbered(list(range(40)), 20, seed=4)).tolist()
    assert one != balanced(numbered(list(range(40)), 20, draw=1)).tolist()
    # Rows of pools of different size stand in one batch when the pool grows.
    mixed = balanced(numbered([5, 5, 6], [3, 20, 20]))
    assert mixed.tolist()[1:] == one[5:7]
    assert mixed[0] < 3


def test_balanced_needs_the_attempt_s_number() -> None:
    context = scene(0, 2, 3)
    fields = {name: getattr(context, name) for name in context.__dataclass_fields__ if name not in ("attempt", "draw")}
    with pytest.raises(ValueError, match="numbers are not known here"):
        balanced(SelectionContext(**fields))
