import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.segments import find_skill_starts
from mimicpipe.datagen.skill_segments import SkillSegments
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import SourceDemoError

LENGTH = 20


def demo(seed: int = 0, **starts: list[int]):
    """A demo of 20 steps whose first subtask ends with step 7; start signals are true at the given steps."""
    made = random_demo(ArmEnv(1), seed, {"grasp": 7}, LENGTH)
    steps = torch.arange(LENGTH)
    made.info.subtask_start_signals = {name: torch.isin(steps, torch.tensor(at)) for name, at in starts.items()}
    return made


def two(*, offsets=((0, 0), (0, 0)), term=(0, 0), names=("reach", "carry")) -> list[SubTaskConfig]:
    return [
        SubTaskConfig(
            "cube", "grasp", subtask_start_signal=names[0], subtask_start_offset_range=offsets[0],
            subtask_term_offset_range=term,
        ),
        SubTaskConfig("cube", subtask_start_signal=names[1], subtask_start_offset_range=offsets[1]),
    ]  # fmt: skip


def starts_of(configs, **starts: list[int]) -> list[int]:
    return find_skill_starts(demo(0, **starts).info, configs, "demo_7")


def test_a_skill_begins_where_its_signal_is_first_true_behind_the_subtask_before():
    # The cube that is carried was near to its goal before it was grasped, too.
    assert starts_of(two(), reach=[3, 4, 9], carry=[2, 6, 7, 12, 13]) == [3, 12]
    assert starts_of(two(), reach=[0, 1], carry=[8]) == [0, 8]


def test_what_the_subtask_before_may_still_do_is_no_part_of_a_skill():
    assert starts_of(two(term=(0, 5)), reach=[3], carry=[9, 14, 15]) == [3, 14]


@pytest.mark.parametrize(
    ("configs", "starts", "message"),
    [
        (two(), {"reach": [3]}, "demo_7: subtask_start_signals/carry: no such signal, .* the demo has reach"),
        (two(), {"reach": [3], "carry": [4, 5]}, "subtask_start_signals/carry: not true at step 8, .* or after it"),
        (
            two(),
            {"reach": [8], "carry": [12]},
            "skill of subtask 0 can become empty: .* step 8 and ends as early as step 8",
        ),
        (two(offsets=((0, 0), (0, 9))), {"reach": [3], "carry": [12]}, "skill of subtask 1 can become empty"),
    ],
)
def test_a_demo_without_a_skill_is_one_line(configs, starts, message):
    with pytest.raises(SourceDemoError, match=message) as error:
        starts_of(configs, **starts)
    assert "\n" not in str(error.value)


def pool_of(configs, *demos) -> DataGenInfoPool:
    pool = DataGenInfoPool(ArmEnv(1), {"arm": configs})
    pool.add_demos(demos)
    return pool


def test_a_subtask_without_a_start_signal_begins_where_the_one_before_has_ended():
    pool = pool_of(two(names=("reach", None), term=(1, 4)), demo(reach=[3]), demo(1, reach=[2]))
    segments, seeds = SkillSegments(pool, "arm"), np.arange(50)
    demos, ones = seeds % 2, np.ones(50, dtype=np.int64)
    begin, _ = segments.of_segments(seeds, ones, demos)
    _, end = segments.of_segments(seeds, 0 * ones, demos)
    assert np.array_equal(begin, end)
    assert set(end.tolist()) == {9, 10, 11, 12}


@settings(deadline=None, max_examples=30)
@given(seeds=st.lists(st.integers(0, 2**62), min_size=1, max_size=6), low=st.integers(0, 2), span=st.integers(0, 3))
def test_offsets_are_in_their_range_and_the_same_in_every_batch(seeds, low, span):
    configs = two(offsets=((low, low + span), (0, 0)))
    pool = pool_of(configs, demo(reach=[2], carry=[9]), demo(1, reach=[1], carry=[10]))
    segments, keys = SkillSegments(pool, "arm"), np.asarray(seeds)
    zeros = np.zeros(len(seeds), dtype=np.int64)
    table = segments.of_first_demos(keys, zeros, 2)
    assert ((table - [[2, 1]] >= low) & (table - [[2, 1]] <= low + span)).all()
    for number in range(2):
        begin, end = segments.of_segments(keys, zeros, zeros + number)
        assert np.array_equal(begin, table[:, number])
        assert (end == 8).all()
        for row in range(len(seeds)):
            alone = segments.of_segments(keys[row : row + 1], zeros[:1], zeros[:1] + number)
            assert alone[0, 0] == begin[row]


def test_it_follows_a_pool_that_grows_and_names_a_demo_without_skills():
    pool = pool_of(two(), demo(reach=[3], carry=[9]))
    segments = SkillSegments(pool, "arm")
    pool.add_demos([demo(1, reach=[4], carry=[11])])
    segments.update()
    one = np.ones(1, dtype=np.int64)
    assert segments.of_segments(one, one, one)[:, 0].tolist() == [11, LENGTH]
    pool.add_demos([demo(2, reach=[4])])
    with pytest.raises(SourceDemoError, match="demo_2: subtask_start_signals/carry: no such signal"):
        segments.update()
