import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import rng
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.datagen.segments import Boundaries, find_boundaries
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import SourceDemoError

TWO = [SubTaskConfig(subtask_term_signal="grasp"), SubTaskConfig()]


def info(signals: dict[str, list[int]]) -> DatagenInfo:
    length = len(next(iter(signals.values())))
    demo = random_demo(ArmEnv(1), 0, {}, length).info
    demo.subtask_term_signals = {name: torch.tensor(values, dtype=torch.bool) for name, values in signals.items()}
    return demo


def test_a_segment_holds_the_step_at_which_its_signal_is_first_true() -> None:
    assert find_boundaries(info({"grasp": [0, 0, 0, 1, 1, 1, 1]}), TWO, "demo") == [0, 4, 7]


def test_a_falling_edge_is_no_boundary() -> None:
    three = [SubTaskConfig(subtask_term_signal="near"), *TWO]
    signals = {"near": [0, 1, 0, 0, 1, 1, 1], "grasp": [0, 0, 0, 1, 0, 0, 0]}
    assert find_boundaries(info(signals), three, "demo") == [0, 2, 4, 7]


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        ({"grasp": [0, 0, 0]}, ["demo_7", "subtask_term_signals/grasp", "never goes 0→1"]),
        ({"grasp": [1, 1, 0]}, ["grasp", "true from the first step"]),
        ({"lift": [0, 1, 1]}, ["grasp", "no such signal", "lift"]),
    ],
)
def test_a_signal_that_ends_nothing_is_named(signals: dict[str, list[int]], words: list[str]) -> None:
    with pytest.raises(SourceDemoError) as error:
        find_boundaries(info(signals), TWO, "demo_7")
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("near", [[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
def test_signals_out_of_order_name_both(near: list[int]) -> None:
    three = [SubTaskConfig(subtask_term_signal="near"), *TWO]
    with pytest.raises(SourceDemoError, match=r"demo_7: subtask_term_signals/grasp: out of order.*step 2.*'near'"):
        find_boundaries(info({"near": near, "grasp": [0, 0, 1, 1, 1]}), three, "demo_7")


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ([SubTaskConfig(subtask_term_signal="grasp", subtask_term_offset_range=(0, 4)), SubTaskConfig()], "subtask 1"),
        ([SubTaskConfig(subtask_term_signal="grasp", subtask_term_offset_range=(-4, 0)), SubTaskConfig()], "subtask 0"),
        (
            [SubTaskConfig(subtask_term_signal="grasp", first_subtask_start_offset_range=(0, 4)), SubTaskConfig()],
            "subtask 0 can become empty: .* starts as late as step 4 and ends as early as step 4",
        ),
        (
            [
                SubTaskConfig(subtask_term_signal="grasp"),
                SubTaskConfig(subtask_term_signal="late", subtask_term_offset_range=(0, 2)),
                SubTaskConfig(),
            ],
            "has 8 steps, but with its offset subtask 1 ends as late as step 9",
        ),
    ],
)
def test_a_demo_shorter_than_its_offsets_allow_is_refused(configs: list[SubTaskConfig], words: str) -> None:
    signals = {"grasp": [0, 0, 0, 1, 1, 1, 1, 1], "late": [0, 0, 0, 0, 0, 0, 1, 1]}
    with pytest.raises(SourceDemoError, match=f"demo_7: .*{words}"):
        find_boundaries(info(signals), configs, "demo_7")


def shifted(seeds: rng.Seeds, demos: int = 4, eef_index: int = 0) -> np.ndarray:
    """(K, D, S + 1) boundaries of K attempts."""
    configs = [
        SubTaskConfig(
            subtask_term_signal="a", first_subtask_start_offset_range=(0, 3), subtask_term_offset_range=(-2, 5)
        ),
        SubTaskConfig(subtask_term_signal="b", subtask_term_offset_range=(1, 1)),
        SubTaskConfig(),
    ]
    table = Boundaries(configs, eef_index)
    for demo in range(demos):
        table.append([0, 20 + demo, 40, 60])
    each = [table.of_first_demos(seeds, np.full(len(seeds), boundary), demos) for boundary in range(4)]
    return np.stack(each, axis=-1)


def test_offsets_cover_their_whole_range_evenly_and_first_starts_are_random() -> None:
    seeds = rng.attempt_seeds(0, np.arange(4000))
    at = shifted(seeds) - np.asarray([[0, 20 + demo, 40, 60] for demo in range(4)])
    for demo in range(4):
        for boundary, (low, high) in enumerate([(0, 3), (-2, 5), (1, 1), (0, 0)]):
            values, counts = np.unique(at[:, demo, boundary], return_counts=True)
            assert values.tolist() == list(range(low, high + 1))
            expected = 4000 / len(values)
            # Five standard deviations of a binomial count.
            assert np.abs(counts - expected).max() <= 5 * np.sqrt(expected)


def test_offsets_of_demos_boundaries_and_eefs_are_independent() -> None:
    seeds = rng.attempt_seeds(0, np.arange(4000))
    one, other = shifted(seeds)[..., :2].reshape(4000, -1), shifted(seeds, eef_index=1)[..., :2].reshape(4000, -1)
    correlation = np.corrcoef(np.concatenate((one, other), axis=1).T) - np.eye(16)
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    st.integers(0, 2**40), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2), st.integers(0, 3))), st.data()
)
def test_a_boundary_depends_on_attempt_and_demo_alone(
    seed: int, rows: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    rows = rows or [(0, 0, 0)]
    attempts, subtasks, demos = (np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True))
    seeds = rng.attempt_seeds(seed, attempts)
    ranges = [(0, 3), (-2, 5), (0, 4)]
    configs = [
        SubTaskConfig("cube", "a", first_subtask_start_offset_range=ranges[0], subtask_term_offset_range=ranges[1]),
        SubTaskConfig("cube", "b", subtask_term_offset_range=ranges[2]),
        SubTaskConfig("cube"),
    ]
    table = Boundaries(configs, 0)
    for demo in range(4):
        table.append([0, 20 + demo, 40, 60])
    segments = table.of_segments(seeds, subtasks, demos)
    count = data.draw(st.integers(int(demos.max()) + 1, 4))
    starts = table.of_first_demos(seeds, subtasks, count)
    ends = table.of_first_demos(seeds, subtasks + 1, count)
    at = np.arange(len(rows))
    assert np.array_equal(segments, np.stack((starts[at, demos], ends[at, demos])))
    row = data.draw(st.integers(0, len(rows) - 1))
    alone = table.of_segments(seeds[row : row + 1], subtasks[row : row + 1], demos[row : row + 1])
    assert np.array_equal(alone[:, 0], segments[:, row])
