from dataclasses import replace
from typing import Any

import pytest

from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig, check_datagen_config, check_subtask_configs
from mimicpipe.errors import ConfigError

FIRST = SubTaskConfig("cube", "grasp", "nearest_neighbor_object", {"nn_k": 3})
LAST = SubTaskConfig("cube")


def check(first: SubTaskConfig = FIRST, last: SubTaskConfig = LAST) -> None:
    check_subtask_configs({"arm": [first, last]}, ("arm",), ("cube", "bowl"))


def test_a_valid_task_passes_and_yaml_lists_become_tuples() -> None:
    check()
    config = SubTaskConfig("cube", "grasp", subtask_term_offset_range=[3, 7])  # ty: ignore[invalid-argument-type]
    assert config.subtask_term_offset_range == (3, 7)
    check(config)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"object_ref": "cup"}, "[0].object_ref=cup: no such object; valid: cube, bowl, null"),
        ({"subtask_term_signal": None}, "[0].subtask_term_signal=null: only the last subtask"),
        ({"subtask_term_offset_range": (3, 1)}, "[0].subtask_term_offset_range=(3, 1): expected two integers"),
        ({"subtask_term_offset_range": (0, 1.5)}, "[0].subtask_term_offset_range=(0, 1.5): expected two integers"),
        ({"subtask_term_offset_range": 4}, "[0].subtask_term_offset_range=4: expected two integers"),
        ({"first_subtask_start_offset_range": (-1, 1)}, "[0].first_subtask_start_offset_range=(-1, 1): expected two"),
        ({"action_noise": -0.1}, "[0].action_noise=-0.1: expected a number >= 0"),
        ({"action_noise": float("nan")}, "[0].action_noise=nan: expected a number >= 0"),
        ({"num_interpolation_steps": -1}, "[0].num_interpolation_steps=-1: expected an integer >= 0"),
        ({"num_fixed_steps": 1.5}, "[0].num_fixed_steps=1.5: expected an integer >= 0"),
        (
            {"selection_strategy": "nearest"},
            "[0].selection_strategy=nearest: no such strategy; valid: random, nearest_",
        ),
        ({"selection_strategy": 3}, "[0].selection_strategy=3: expected a name or a callable"),
        ({"object_ref": None}, "[0].selection_strategy=nearest_neighbor_object: it measures object poses"),
        (
            {"selection_strategy_kwargs": {"k": 3}},
            "[0].selection_strategy_kwargs.k=3: the strategy has no such argument",
        ),
        ({"selection_strategy_kwargs": {"nn_k": 0}}, "[0].selection_strategy_kwargs.nn_k=0: expected an integer >= 1"),
        ({"selection_strategy_kwargs": {"pos_weight": -1}}, "[0].selection_strategy_kwargs.pos_weight=-1: expected"),
        ({"selection_strategy_kwargs": {"rot_weight": "x"}}, "[0].selection_strategy_kwargs.rot_weight=x: expected"),
    ],
)
def test_a_fault_is_one_line_with_the_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(first=replace(FIRST, **change))
    assert str(error.value).startswith(f"task.subtasks.arm{words}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first_subtask_start_offset_range": (0, 2)}, "[1].first_subtask_start_offset_range=[0, 2]: only the first"),
        (
            {"subtask_term_offset_range": (0, 2)},
            "[1].subtask_term_offset_range=[0, 2]: the last subtask's must be [0, 0]",
        ),
    ],
)
def test_an_offset_that_would_do_nothing_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(last=replace(LAST, **change))
    assert str(error.value).startswith(f"task.subtasks.arm{words}")


@pytest.mark.parametrize("configs", [{}, {"hand": [LAST]}, {"arm": [LAST], "hand": [LAST]}])
def test_every_eef_of_the_env_and_no_other_has_subtasks(configs: dict[str, list[SubTaskConfig]]) -> None:
    with pytest.raises(ConfigError, match="valid: arm"):
        check_subtask_configs(configs, ("arm",), ("cube",))


def test_an_eef_needs_a_subtask() -> None:
    with pytest.raises(ConfigError, match=r"task\.subtasks\.arm=\[\]"):
        check_subtask_configs({"arm": []}, ("arm",), ("cube",))


@pytest.mark.parametrize("steps", [-1, 1.5, True])
def test_settle_steps_are_a_number_of_steps(steps: Any) -> None:
    with pytest.raises(ConfigError, match="settle_steps"):
        check_datagen_config(DataGenConfig(settle_steps=steps))
