import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimicpipe import poses
from mimicpipe.datagen import checks
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.errors import SourceDemoError

T = 9


def good_info() -> DatagenInfo:
    g = torch.Generator().manual_seed(0)

    def pose():
        return poses.pose_from_pos_quat(torch.randn(T, 3, generator=g), torch.randn(T, 4, generator=g))

    edge = torch.arange(T) >= 4
    return DatagenInfo(
        eef_pose={"left": pose(), "right": pose()},
        object_poses={"cube": pose()},
        subtask_term_signals={"grasp": edge},
        target_eef_pose={"left": pose(), "right": pose()},
        gripper_action={"left": torch.zeros(T, 1), "right": torch.zeros(T, 2)},
        subtask_start_signals={"skill": edge},
    )


def test_a_good_demo_passes():
    checks.check_info(good_info(), "x")
    checks.check_info(good_info(), "x", length=T)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_rising_edge_is_the_first_true_step_after_a_false_one(values):
    signal = torch.tensor(values)
    if True not in values:
        with pytest.raises(SourceDemoError, match="never goes 0→1"):
            checks.rising_edge(signal, "x")
    elif values[0]:
        with pytest.raises(SourceDemoError, match="true from the first step"):
            checks.rising_edge(signal, "x")
    else:
        step = checks.rising_edge(signal, "x")
        assert values[: step + 1] == [False] * step + [True]
        assert checks.rising_edge(signal.float(), "x") == step


BAD = [
    (lambda i: i.eef_pose.clear(), "f: d: eef_pose: no end effector"),
    (lambda i: i.eef_pose.update(left=torch.zeros(0, 4, 4)), "f: d: eef_pose/left: no steps"),
    (lambda i: i.eef_pose.update(right=torch.eye(4)), r"f: d: eef_pose/right: shape \(4, 4\), expected \(9, 4, 4\)"),
    (lambda i: i.object_poses.update(cube=torch.eye(4).expand(8, 4, 4)), r"object_pose/cube: shape \(8, 4, 4\)"),
    (lambda i: i.target_eef_pose.update(left=torch.eye(3).expand(T, 3, 3)), r"target_eef_pose/left: shape \(9, 3, 3\)"),
    (lambda i: i.gripper_action.update(left=torch.zeros(T)), r"gripper_action/left: shape \(9,\), expected \(9, G\)"),
    (lambda i: i.gripper_action.update(left=torch.zeros(T, 0)), r"gripper_action/left: shape \(9, 0\)"),
    (lambda i: i.subtask_term_signals.update(grasp=torch.zeros(T, 1)), r"grasp: shape \(9, 1\), expected \(9,\)"),
    (lambda i: i.subtask_start_signals.update(skill=torch.zeros(3)), r"start_signals/skill: shape \(3,\)"),
    (lambda i: i.eef_pose["right"].__setitem__((6, 1, 3), torch.inf), "eef_pose/right: NaN or infinity at step 6"),
    (
        lambda i: i.gripper_action["left"].__setitem__((2, 0), torch.nan),
        "gripper_action/left: NaN or infinity at step 2",
    ),
    (lambda i: i.target_eef_pose["left"][5, :3, 0].mul_(-1), "target_eef_pose/left: the pose at step 5"),
    (lambda i: i.object_poses["cube"][1, 3].add_(0.01), "object_pose/cube: the pose at step 1 is no rigid"),
    (
        lambda i: i.subtask_term_signals.update(grasp=torch.zeros(T)),
        "f: d: subtask_term_signals/grasp: the signal never",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), BAD)
def test_a_bad_demo_is_one_line_with_its_key(spoil, message):
    info = good_info()
    spoil(info)
    with pytest.raises(SourceDemoError, match=message) as caught:
        checks.check_info(info, "f: d")
    assert "\n" not in str(caught.value)


def test_the_actions_length_is_the_reference_where_it_is_known():
    with pytest.raises(
        SourceDemoError, match=r"eef_pose/left: shape \(9, 4, 4\), expected \(8, 4, 4\) as actions has 8"
    ):
        checks.check_shapes(good_info(), "x", length=8)


@given(st.floats(0, 3e-3), st.integers(0, T - 1))
def test_rotations_may_be_off_by_rounding_only(error, step):
    info = good_info()
    info.object_poses["cube"][step, :3, :3] *= 1 + error
    # (1 + e)^2 - 1 is the deviation of R^T R from the identity.
    deviation = 2 * error + error**2
    if deviation > 1.01 * checks.MAX_ROTATION_DEFECT:
        with pytest.raises(SourceDemoError, match=f"at step {step} "):
            checks.check_rotations(info, "x")
    elif deviation < 0.99 * checks.MAX_ROTATION_DEFECT:
        checks.check_rotations(info, "x")


def arm_info(targets_ahead: float, told: tuple[float, float, float]) -> DatagenInfo:
    """An arm that moves 2 cm a step along x; its targets lie ahead of it by a factor of that, and `told` beside it."""
    steps = 60
    position = torch.zeros(steps, 3)
    position[:, 0] = 0.02 * torch.arange(steps)
    target = position + torch.tensor([0.02 * targets_ahead, 0.0, 0.0]) + torch.tensor(told)
    turn = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(steps, 4)
    return DatagenInfo(
        eef_pose={"arm": poses.pose_from_pos_quat(position, turn)},
        object_poses={},
        subtask_term_signals={},
        target_eef_pose={"arm": poses.pose_from_pos_quat(target, turn)},
        gripper_action={"arm": torch.zeros(steps, 1)},
    )


@pytest.mark.parametrize("ahead", [1.0, 5.0, 20.0])
def test_targets_may_be_ahead_of_a_slow_arm(ahead):
    checks.check_targets_are_followed(arm_info(ahead, (0.0, 0.0, 0.0)), "f: d")


@pytest.mark.parametrize("told", [(-0.05, 0.05, 0.05), (0.05, 0.7, -1.2)])
def test_actions_of_another_control_are_noticed(told):
    """Joint positions that were taken for motions, clipped to the largest one, or for positions."""
    with pytest.raises(SourceDemoError, match=r"^f: d: target_eef_pose/arm: .* joint positions"):
        checks.check_targets_are_followed(arm_info(0.0, told), "f: d")
