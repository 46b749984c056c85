"""What the small policy sees: names to poses, quaternions to rotations, the same bits in every batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import poses
from mimicpipe.training.inputs import POSE_WIDTH, RELATIVE_WIDTH, InputEncoder

POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
NAMES = {
    "observation.state": ("panda_joint1", "panda_joint2", "panda_gripper_width"),
    "observation.eef_pose": POSE,
    "observation.environment_state": (
        *(f"cube_{part}" for part in POSE), *(f"peg_{part}" for part in POSE), "drawer_joint",
    ),
}  # fmt: skip


def observations(count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(count, len(own), generator=generator) for name, own in NAMES.items()}


def test_the_width_counts_poses_pairs_and_the_rest_without_the_arms_joints():
    encoder = InputEncoder(NAMES)
    # Three poses; each object in the hand's frame, and the peg in the cube's; the gripper and the drawer.
    assert encoder.width == 3 * POSE_WIDTH + 3 * RELATIVE_WIDTH + 2
    assert encoder(observations(5)).shape == (5, encoder.width)


def test_without_hands_every_number_is_seen():
    names = {"observation.state": ("arm_joint1", "arm_joint2", "x")}
    encoder = InputEncoder(names)
    values = torch.tensor([[1.0, 2.0, 3.0]])
    assert encoder({"observation.state": values}).tolist() == values.tolist()


def test_a_quaternion_and_its_negative_are_the_same_rotation():
    seen = observations(4)
    other = {name: values.clone() for name, values in seen.items()}
    other["observation.environment_state"][:, 3:7] *= -1.0
    other["observation.eef_pose"][:, 3:7] *= -1.0
    assert torch.equal(InputEncoder(NAMES)(seen), InputEncoder(NAMES)(other))


def test_what_hand_and_object_do_together_does_not_change_what_the_hand_sees():
    """The inputs of a pair are relative: moving the whole scene leaves them as they are."""
    names = {"observation.eef_pose": POSE, "observation.environment_state": tuple(f"cube_{part}" for part in POSE)}
    generator = torch.Generator().manual_seed(1)
    hand, cube, move = (
        poses.pose_from_pos_quat(torch.randn(6, 3, generator=generator), torch.randn(6, 4, generator=generator))
        for _ in range(3)
    )

    def seen(a, b):
        flat = [torch.cat((p[:, :3, 3], poses.quat_from_matrix(p[:, :3, :3])), dim=1) for p in (a, b)]
        return InputEncoder(names)(dict(zip(names, flat, strict=True)))[:, 2 * POSE_WIDTH :]

    before, after = seen(hand, cube), seen(poses.compose(move, hand), poses.compose(move, cube))
    near = slice(POSE_WIDTH, None)  # these amplify what is lost in float32, up to 250 times
    torch.testing.assert_close(after[:, :POSE_WIDTH], before[:, :POSE_WIDTH], atol=1e-5, rtol=0)
    torch.testing.assert_close(after[:, near], before[:, near], atol=3e-3, rtol=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(0, 100), st.data())
def test_a_row_is_the_same_bits_in_every_batch(count, seed, data):
    seen = observations(count, seed)
    row = data.draw(st.integers(0, count - 1))
    alone = {name: values[row : row + 1].clone() for name, values in seen.items()}
    assert torch.equal(InputEncoder(NAMES)(seen)[row], InputEncoder(NAMES)(alone)[0])


@pytest.mark.parametrize("names", [POSE[:6], ("y", *POSE[1:])])
def test_names_that_are_no_pose_are_numbers(names):
    assert InputEncoder({"observation.state": names}).width == len(names)
