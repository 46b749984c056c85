import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimicpipe.annotate.rules import Rule, Rules, apply_rules, gripper_changes, parse_rule
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import ConfigError

SUBTASKS = {
    "arm": [
        SubTaskConfig(object_ref="a", subtask_term_signal="grasp", subtask_start_signal="reach"),
        SubTaskConfig(object_ref="b", subtask_term_signal="place", subtask_start_signal="carry"),
        SubTaskConfig(object_ref="b"),
    ]
}


def along(xs):
    """Poses (T, 4, 4) on the x axis."""
    pose = torch.eye(4).repeat(len(xs), 1, 1)
    pose[:, 0, 3] = torch.tensor(xs)
    return pose


def demo(gripper):
    """An arm that goes from 0 to a at 0.5 m (steps 10 to 19) and to b at 1 m (from step 30 on)."""
    xs = [0.05 * i for i in range(10)] + [0.5] * 10 + [0.5 + 0.05 * i for i in range(10)] + [1.0] * 10
    commands = torch.tensor([1.0 if c == "o" else -1.0 for c in gripper])[:, None]
    assert len(commands) == len(xs)
    return DatagenInfo(
        eef_pose={"arm": along(xs)},
        object_poses={"a": along([0.5] * len(xs)), "b": along([1.0] * len(xs))},
        subtask_term_signals={},
        target_eef_pose={"arm": along(xs)},
        gripper_action={"arm": commands},
    )


def first(signal):
    return int(signal.nonzero()[0])


GRASP_AND_PLACE = "o" * 12 + "c" * 20 + "o" * 8


def test_a_change_near_the_object_ends_a_subtask():
    info = demo(GRASP_AND_PLACE)
    apply_rules(info, SUBTASKS, Rules(near=0.08, settle=3, skill=0.21), "demo")
    assert {name: first(s) for name, s in info.subtask_term_signals.items()} == {"grasp": 15, "place": 35}
    assert all(bool(s[first(s) :].all()) for s in info.subtask_term_signals.values())
    # The skills begin within 0.21 m, and end where their subtasks do.
    reach, carry = info.subtask_start_signals["reach"], info.subtask_start_signals["carry"]
    assert (first(reach), int(reach.sum())) == (6, 15 - 6)
    assert (first(carry), int(carry.sum())) == (26, 35 - 26)


def test_a_change_elsewhere_does_not():
    """The hand opens and closes on its way; only where it is near counts."""
    info = demo("oocco" + GRASP_AND_PLACE[5:])
    apply_rules(info, SUBTASKS, Rules(settle=0), "demo")
    assert first(info.subtask_term_signals["grasp"]) == 12


def test_rules_of_their_own():
    info = demo(GRASP_AND_PLACE)
    rules = Rules(skill=0.2, of_signal=dict(map(parse_rule, ("grasp=near,0.12", "place=away,0.31"))))
    assert rules.of_signal == {"grasp": Rule("near", 0.12), "place": Rule("away", 0.31)}
    away = SubTaskConfig(object_ref="a", subtask_term_signal="place")
    apply_rules(info, {"arm": [SUBTASKS["arm"][0], away, SUBTASKS["arm"][2]]}, rules, "demo")
    assert first(info.subtask_term_signals["grasp"]) == 8
    # It is beyond 0.31 m of a first at the start: that is before it has been near.
    assert first(info.subtask_term_signals["place"]) == 27
    with pytest.raises(ConfigError, match=r"--rule reach: no subtask ends with it; the task has "):
        apply_rules(info, SUBTASKS, Rules(of_signal={"reach": Rule()}), "demo")


@given(st.lists(st.sampled_from([-1.0, -0.2, 0.0, 0.3, 1.0]), min_size=1, max_size=40))
def test_closings_and_openings_alternate(commands):
    closing, opening = gripper_changes(torch.tensor(commands)[:, None])
    assert not bool((closing & opening).any())
    assert not bool((closing | opening)[0])
    is_open = [command >= 0 for command in commands]
    changes = sum(a != b for a, b in itertools.pairwise(is_open))
    assert int((closing | opening).sum()) == changes
    assert abs(int(closing.sum()) - int(opening.sum())) <= 1
