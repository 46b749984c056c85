import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_poses

from mimicpipe import poses
from mimicpipe.datagen.noise import ActionNoise
from mimicpipe.datagen.waypoint import MultiWaypoint, Waypoint, WaypointSequence, WaypointTrajectory
from mimicpipe.rng import attempt_seeds


def sequence(seed: int, steps: int, noise: float = 0.0) -> WaypointSequence:
    generator = np.random.default_rng(seed)
    grippers = torch.from_numpy(generator.normal(size=(steps, 1))).float()
    return WaypointSequence.from_poses(random_poses(generator, steps), grippers, noise)


def test_sequences_split_join_and_iterate() -> None:
    whole = sequence(0, 5, 0.1)
    first, rest = whole.split(2)
    assert (len(first), len(rest), len(first + rest)) == (2, 3, 5)
    assert [waypoint.noise for waypoint in whole] == [0.1] * 5
    assert torch.equal((first + rest)[3].pose, whole[3].pose)
    assert torch.equal(whole[1:3][1].pose, whole[2].pose)
    assert [w.noise for w in WaypointSequence.from_poses(torch.eye(4)[None], torch.ones(1, 1), [0.3])] == [0.3]
    with pytest.raises(ValueError, match="5 poses, 1 gripper actions and 5 noise values"):
        WaypointSequence.from_poses(torch.eye(4).repeat(5, 1, 1), torch.ones(1, 1))


def test_the_last_waypoint_is_a_copy() -> None:
    trajectory = WaypointTrajectory([sequence(0, 2)])
    trajectory.last_waypoint.noise = 9.0
    assert trajectory[1].noise == 0.0


def test_interpolation_moves_evenly_and_ends_at_the_target() -> None:
    trajectory = WaypointTrajectory([sequence(0, 1)])
    start, target = trajectory[0].pose, sequence(1, 1)[0]
    trajectory.add_waypoint_sequence_for_target_pose(target.pose, target.gripper_action, 3, action_noise=0.2)
    assert len(trajectory) == 5
    for step in range(1, 4):
        expected = poses.interpolate(start, target.pose, torch.tensor(step / 4))
        torch.testing.assert_close(trajectory[step].pose, expected)
        assert torch.equal(trajectory[step].gripper_action, target.gripper_action)
        assert trajectory[step].noise == 0.2
    assert torch.equal(trajectory[4].pose, target.pose)


def test_a_target_can_be_repeated_instead() -> None:
    trajectory = WaypointTrajectory()
    target = sequence(1, 1)[0]
    trajectory.add_waypoint_sequence_for_target_pose(target.pose, target.gripper_action, 3, skip_interpolation=True)
    assert len(trajectory) == 3
    assert all(torch.equal(waypoint.pose, target.pose) for waypoint in trajectory)
    with pytest.raises(ValueError, match="no pose to interpolate from"):
        WaypointTrajectory().add_waypoint_sequence_for_target_pose(target.pose, target.gripper_action, 3)


@pytest.mark.parametrize(("interpolated", "fixed"), [(0, 0), (4, 0), (0, 2), (4, 2)])
def test_merging_leads_to_the_other_and_keeps_its_noise(interpolated: int, fixed: int) -> None:
    start, other = sequence(0, 1), sequence(1, 3, noise=0.5)
    trajectory = WaypointTrajectory([start])
    trajectory.merge(WaypointTrajectory([other]), interpolated, fixed, action_noise=0.1)
    # The start, the way, the other's first waypoint 1 + fixed times, its rest.
    assert len(trajectory) == 1 + interpolated + fixed + 3
    assert trajectory.noise().tolist() == pytest.approx([0.0] + [0.1] * (interpolated + fixed) + [0.5] * 3)
    held = trajectory.poses()[1 + interpolated : 2 + interpolated + fixed]
    assert torch.equal(held, other[0].pose.expand_as(held))
    assert torch.equal(trajectory.poses()[-2:], torch.stack([other[1].pose, other[2].pose]))
    assert torch.equal(trajectory.gripper_actions()[1], other[0].gripper_action)


def test_popping_the_first_waypoint_drops_empty_sequences() -> None:
    trajectory = WaypointTrajectory([sequence(0, 1), sequence(1, 2)])
    first = trajectory[0].pose
    assert torch.equal(trajectory.pop_first()[0].pose, first)
    assert len(trajectory.waypoint_sequences) == 1
    assert len(trajectory) == 2


@dataclass
class SteppingQueue:
    """A queue whose requests are served by stepping at once; the rest of the slots stand still."""

    env: ArmEnv
    waiting: list[Any]

    async def put(self, item: Any) -> None:
        self.waiting.append(item)

    async def join(self) -> None:
        for env_id, action in self.waiting:
            actions = torch.zeros(self.env.num_envs, self.env.action_dim)
            actions[env_id] = action
            self.env.step(actions, torch.tensor([env_id]))
        self.waiting.clear()


@pytest.mark.parametrize("queued", [True, False])
def test_a_waypoint_is_one_step_of_one_slot(queued: bool) -> None:
    env = ArmEnv(3)
    env.reset(torch.arange(3), attempt_seeds(0, np.arange(3)))
    before = env.get_state()
    target = sequence(4, 1)[0]
    target.pose[2, 3] = 0.9
    queue = SteppingQueue(env, []) if queued else None
    result = asyncio.run(MultiWaypoint({"arm": target}).execute(env, None, 1, queue))
    assert torch.equal(result["states"][0], before[1])
    assert torch.equal(result["observations"][0]["observation.state"], env.observe()["observation.state"][1])
    assert result["actions"][0].shape == (env.action_dim,)
    torch.testing.assert_close(env.get_robot_eef_pose("arm")[1], target.pose, atol=1e-6, rtol=0)
    assert torch.equal(env.get_state()[[0, 2]], before[[0, 2]])
    assert env.get_state()[1, -1] == 1
    assert result["success"] is False


class IsaacTerm:
    """A success term as Isaac Lab writes it."""

    params = {"height": 0.2}  # noqa: RUF012

    @staticmethod
    def func(env: ArmEnv, height: float) -> torch.Tensor:
        return env.get_robot_eef_pose("arm")[:, 2, 3] > height


@pytest.mark.parametrize("term", [IsaacTerm(), lambda env: env.get_robot_eef_pose("arm")[:, 2, 3] > 0.2])
def test_success_is_read_after_the_step(term: Any) -> None:
    env = ArmEnv(2)
    high = torch.eye(4)
    high[2, 3] = 0.3
    result = asyncio.run(MultiWaypoint({"arm": Waypoint(high, torch.ones(1))}).execute(env, term, 1))
    assert result["success"] is True


def test_noise_is_the_attempts_own_and_must_have_a_source() -> None:
    waypoint = MultiWaypoint({"arm": Waypoint(torch.eye(4), torch.ones(1), noise=0.1)})
    env = ArmEnv(1)

    async def run(seed: int, step: int) -> torch.Tensor:
        noise = ActionNoise(seed, env.eef_names, env.noise_dim, env.device, step)
        return (await waypoint.execute(env, None, 0, noise=noise))["actions"][0]

    async def main() -> None:
        assert torch.equal(await run(5, 0), await run(5, 0))
        assert not torch.equal(await run(5, 0), await run(6, 0))
        assert not torch.equal(await run(5, 0), await run(5, 1))
        drawn = torch.stack([(await run(seed, 0))[:6] for seed in range(500)]).flatten()
        assert drawn.mean().abs() < 5 * 0.1 / len(drawn) ** 0.5
        assert drawn.std() == pytest.approx(0.1, rel=0.1)
        with pytest.raises(ValueError, match="pass noise=ActionNoise"):
            await waypoint.execute(env, None, 0)

    asyncio.run(main())
