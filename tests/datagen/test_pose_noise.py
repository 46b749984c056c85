"""Errors of the objects' poses: as large as asked for, the same in every batch, and seen by the generator alone."""

import hydra.version
import numpy as np
import pytest

from experiments.harness import built, run_pipeline
from mimicpipe.datagen.pose_noise import EXACT, PoseNoise
from mimicpipe.poses import make_pose, matrix_from_axis_angle
from mimicpipe.rng import attempt_seeds

SEEDS = attempt_seeds(3, np.arange(400))


@pytest.fixture(scope="module")
def poses():
    import torch

    generator = torch.Generator().manual_seed(0)
    rotations = matrix_from_axis_angle(torch.randn(400, 3, generator=generator, dtype=torch.float64))
    stacked = make_pose(torch.randn(400, 3, generator=generator, dtype=torch.float64), rotations)
    return np.ascontiguousarray(stacked[:, :3].permute(1, 2, 0).numpy())


def errors(poses, seen):
    moved = seen[:, 3] - poses[:, 3]
    turned = np.einsum("ijk,ljk->ilk", seen[:, :3], poses[:, :3])
    return moved, np.arccos(np.clip((np.einsum("iik->k", turned) - 1) / 2, -1, 1)), turned


def test_errors_are_as_large_as_asked_for_and_uniform(poses):
    seen = PoseNoise(0.01, 0.2).seen(poses, SEEDS, 0)
    moved, angle, turned = errors(poses, seen)
    assert np.abs(moved).max() <= 0.01
    assert angle.max() <= 0.2 + 1e-7
    for errors_of in (*np.abs(moved) / 0.01, angle / 0.2):
        assert errors_of.max() > 0.95
        assert np.mean(errors_of) == pytest.approx(0.5, abs=0.06)
    assert np.abs(np.mean(moved, axis=1)).max() < 0.001
    axes = np.stack([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]])
    assert np.abs(np.mean(axes / np.linalg.norm(axes, axis=0), axis=1)).max() < 0.1
    np.testing.assert_allclose(np.einsum("ijk,ljk->ilk", turned, turned), np.eye(3)[..., None] + 0 * turned, atol=1e-12)


def test_an_object_has_one_error_in_an_attempt_and_another_one_its_own(poses):
    noise = PoseNoise(0.01, 0.1)
    seen = noise.seen(poses, SEEDS, 0)
    elsewhere = poses[:, :, ::-1]
    moved = noise.seen(elsewhere, SEEDS, 0) - elsewhere
    np.testing.assert_allclose(moved[:, 3], (seen - poses)[:, 3], atol=1e-15)
    assert not np.allclose(noise.seen(poses, SEEDS, 1)[:, 3], seen[:, 3], atol=1e-4)
    assert np.array_equal(PoseNoise(rotation=0.1).seen(poses, SEEDS, 0)[:, 3], poses[:, 3])
    assert not EXACT


@pytest.mark.parametrize("some", [slice(0, 1), slice(7, 30), slice(399, 400)])
def test_an_error_has_the_same_bits_in_every_batch(poses, some):
    noise = PoseNoise(0.01, 0.1)
    assert np.array_equal(noise.seen(poses, SEEDS, 2)[:, :, some], noise.seen(poses[:, :, some], SEEDS[some], 2))


def ended(*overrides):
    """(successes, env-steps, reasons) of six attempts."""
    hydra.version.setbase("1.3")
    own = ("env=kinematic", "task=stack", "recorder=none", "num_demos=6", "max_attempts=6")
    with built(*own, *overrides) as parts:
        state = run_pipeline(parts).state
        return state.budget.successes, state.counters.env_steps, dict(state.counters.reasons)


def test_a_generator_that_is_wrong_by_centimetres_fails_the_same_at_every_num_envs():
    noise = ("generator.pose_noise.position=0.03", "generator.pose_noise.rotation=0.3")
    one, several = (ended(*noise, f"env.num_envs={number}") for number in (1, 4))
    assert one == several
    assert ended("env.num_envs=4")[0] > one[0]
