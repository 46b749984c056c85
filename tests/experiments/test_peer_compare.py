"""How executions are compared; that the peer's are equal is tested in tests/peers, where it is installed."""

import numpy as np
import pytest
import torch

from experiments.throughput.peer_compare import PEER_SMALL_TURN, Executed, TapedEnv, compare
from mimicpipe import poses
from mimicpipe.envs.tasks.pick import PickTask


def turned(*angles: float) -> Executed:
    """Poses turned about x by these angles, at the same place."""
    vectors = torch.tensor([[angle, 0.0, 0.0] for angle in angles])
    pose = poses.make_pose(torch.full((len(angles), 3), 0.2), poses.matrix_from_axis_angle(vectors))
    return Executed(pose, torch.ones(len(angles), 1))


def test_equal_executions_do_not_differ():
    found = compare({7: turned(0.0, 0.5), 9: turned(1.0)}, {7: turned(0.0, 0.5), 9: turned(1.0)})
    assert (found.pose, found.gripper, found.steps, found.small_turns) == (0.0, 0.0, 3, 0)


def test_a_small_turn_made_at_once_is_counted_apart():
    found = compare({0: turned(0.0, 0.01, 0.02, 0.03, 0.03)}, {0: turned(0.0, 0.03, 0.03, 0.03, 0.03)})
    assert found.pose < 1e-6
    assert found.small_turns == 2


def test_positions_and_grippers_count_in_a_small_turn_too():
    peers = turned(0.0, 0.03, 0.03)
    peers.pose[1, 0, 3] += 0.002
    peers.gripper[1] = 0.5
    found = compare({0: turned(0.0, 0.01, 0.03)}, {0: peers})
    assert found.pose == pytest.approx(0.002, rel=1e-3)
    assert found.gripper == 0.5


@pytest.mark.parametrize(
    ("ours", "peers"),
    [
        ((0.0, 0.01, PEER_SMALL_TURN + 0.02), (0.0, PEER_SMALL_TURN + 0.02, PEER_SMALL_TURN + 0.02)),
        ((0.0, 0.01, 0.02, 0.03), (0.0, 0.02, 0.025, 0.03)),
        ((0.0, 0.02, 0.02), (0.0, 0.03, 0.03)),
        ((0.0, 0.03, 0.03), (0.0, 0.01, 0.03)),
    ],
    ids=["large", "not at once", "never the same again", "made at once by us"],
)
def test_any_other_turn_is_a_difference(ours, peers):
    assert compare({0: turned(*ours)}, {0: turned(*peers)}).pose > 1e-3


def test_other_steps_or_attempts_are_refused():
    with pytest.raises(ValueError, match="attempt seed 4: 2 steps, the peer's has 3"):
        compare({4: turned(0.0, 0.1)}, {4: turned(0.0, 0.1, 0.2)})
    with pytest.raises(ValueError, match=r"attempts \[4\] against \[5\]"):
        compare({4: turned(0.0)}, {5: turned(0.0)})


def test_the_tape_keeps_the_steps_of_each_attempt():
    env = TapedEnv(PickTask("D0"), 2)
    first, second = turned(0.1, 0.2), turned(0.3)
    env.reset(env.all_ids(), np.asarray([11, 12]))
    step(env, first.pose[[0, 0]], None)
    step(env, first.pose[[1, 1]], torch.tensor([1]))
    env.reset(torch.tensor([1]), np.asarray([13]))
    step(env, second.pose[[0, 0]], torch.tensor([1]))
    for seed, wanted in ((11, first.pose[:1]), (12, first.pose), (13, second.pose)):
        torch.testing.assert_close(env.executed(seed).pose, wanted)
        assert (env.executed(seed).gripper == -1).all()
    with pytest.raises(KeyError, match="no step of attempt seed 14"):
        env.executed(14)


def step(env: TapedEnv, pose: torch.Tensor, env_ids: torch.Tensor | None) -> None:
    env.step(env.target_eef_pose_to_action({"panda": pose}, {"panda": torch.full((2, 1), -1.0)}), env_ids)
