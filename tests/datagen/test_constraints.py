"""Constraints that cannot be met are refused, with the key and the chain of waits."""

from typing import Any

import pytest

from mimicpipe.datagen.constraints import (
    SubTaskConstraintConfig,
    SubTaskConstraintType,
    check_constraints,
    parse_constraints,
)
from mimicpipe.errors import ConfigError

REFS = {"left": ["cube", None, "cube"], "right": ["cup", "cup"], "third": ["cup"]}


def seq(first: Any, second: Any, diff: int = -1) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.SEQUENTIAL, sequential_min_time_diff=diff)


def coord(first: Any, second: Any, **more: Any) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.COORDINATION, **more)


def why(*constraints: SubTaskConstraintConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        check_constraints(constraints, REFS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([seq(("middle", 0), ("left", 0))], "constraints[0].eef_subtask_constraint_tuple=[[middle,0],[left,0]]: no "
         "such end effector middle; valid: left, right, third"),
        ([seq(("left", 0), ("right", 2))], "right has no subtask 2; valid: 0 to 1"),
        ([seq(("left", 0), ("left", 1))], "both are subtasks of left, which do follow each other"),
        ([seq(("left", 0), ("right", 0), -2)], "constraints[0].sequential_min_time_diff=-2: expected an integer >= -1"),
        ([seq(("left", 0), ("right", 0)), seq(("left", 0), ("right", 0), 3)],
         "constraints[1].eef_subtask_constraint_tuple=[[left,0],[right,0]]: the same as task.constraints[0]"),
        ([coord(("left", 0), ("right", 0)), coord(("right", 0), ("left", 0))], "the same as task.constraints[0]"),
        ([coord(("left", 0), ("right", 0)), coord(("left", 0), ("third", 0))],
         "left[0] is coordinated by task.constraints[0] already"),
        ([coord(("left", 1), ("right", 0), coordination_scheme="transform")],
         "coordination_scheme=transform: moves with an object, but task.subtasks.left[1] has none"),
        ([coord(("left", 0), ("right", 0), coordination_scheme_pos_noise_scale=-0.1)],
         "coordination_scheme_pos_noise_scale=-0.1: expected a number >= 0"),
        ([coord(("left", 0), ("right", 0), coordination_scheme_rot_noise_scale=float("nan"))],
         "coordination_scheme_rot_noise_scale=nan: expected a number >= 0"),
        ([coord(("left", 0), ("right", 0)), seq(("third", 0), ("right", 0), 2)],
         "constraints[1].sequential_min_time_diff=2: right[0] is coordinated by task.constraints[0] and cannot wait"),
    ],
)  # fmt: skip
def test_a_constraint_that_makes_no_sense_is_one_line(constraints, message):
    assert message in why(*constraints)


@pytest.mark.parametrize(
    ("constraints", "links"),
    [
        ([seq(("left", 0), ("right", 0)), seq(("right", 0), ("left", 0))],
         ["end of left[0] waits for the start of left[0] (it plays its segment)",
          "start of left[0] waits for the end of right[0] (constraints[1])",
          "start of right[0] waits for the end of left[0] (constraints[0])"]),
        # Across the orders within two eefs.
        ([seq(("left", 2), ("right", 0)), seq(("right", 1), ("left", 0), 5)],
         ["end of left[0] waits for the end of right[1] (constraints[1])",
          "start of right[1] waits for the end of right[0] (the order of right)",
          "start of right[0] waits for the end of left[2] (constraints[0])"]),
        # Over three eefs.
        ([seq(("left", 0), ("right", 0)), seq(("right", 0), ("third", 0)), seq(("third", 0), ("left", 0))],
         ["constraints[0]", "constraints[1]", "constraints[2]"]),
        # Two that meet, of which one waits for the other's end.
        ([coord(("left", 0), ("right", 0)), seq(("left", 0), ("right", 0))],
         ["end of left[0] waits for the meeting of left[0] and right[0] (constraints[0])",
          "meeting of left[0] and right[0] waits for the start of right[0] (constraints[0])"]),
        # Crossed meetings.
        ([coord(("left", 0), ("right", 1)), coord(("left", 1), ("right", 0))], ["the order of left", "meeting of"]),
        # One can begin, but not before its partner, which waits for it.
        ([coord(("left", 1), ("right", 0), coordination_synchronize_start=True), seq(("left", 1), ("third", 0)),
          seq(("third", 0), ("right", 0))], ["constraints[0] synchronizes the start", "end of third[0]"]),
    ],
)  # fmt: skip
def test_waits_in_a_circle_are_named(constraints, links):
    message = why(*constraints)
    assert message.startswith("task.constraints: can never be met, as ")
    for link in links:
        assert link in message


def test_what_can_be_met_is_taken():
    check_constraints(
        [
            seq(("left", 0), ("right", 0)),
            seq(("right", 0), ("left", 1), 4),
            coord(("left", 2), ("right", 1), coordination_scheme="translate", coordination_synchronize_start=True),
            seq(("right", 1), ("third", 0)),
        ],
        REFS,
    )


def test_nodes_of_a_task_s_yaml():
    node = {"eef_subtask_constraint_tuple": [["left", 0], ["right", 1]], "constraint_type": "sequential"}
    (constraint,) = parse_constraints([node])
    assert constraint == seq(("left", 0), ("right", 1))
    for wrong in (
        [["left", 0]],
        [["left", "0"], ["right", 1]],
        ["left", "right"],
        "left",
        [["left", True], ["right", 1]],
    ):
        with pytest.raises(ConfigError, match=r"^task\.constraints\[1\]\.eef_subtask_constraint_tuple=.*expected two"):
            parse_constraints([node, {**node, "eef_subtask_constraint_tuple": wrong}])
