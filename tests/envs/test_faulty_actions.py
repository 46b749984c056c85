"""An action that asks for no rotation fails its own attempt; the others keep their bits."""

import asyncio
from typing import Any

import pytest
import torch

from mimicpipe.envs.actions import action_dim, faults
from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Attempt, Episode
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState

ENVS = {"mujoco": MujocoEnv, "kinematic": KinematicEnv}
BAD = 1
"""The attempt that puts one."""


class Hold:
    """Stays where it is, one action at a time; one action of attempt `BAD` has a quaternion of this length."""

    def __init__(self, env: MimicEnv, length: float) -> None:
        self.env, self.length = env, length

    async def generate(self, env_id: int, env_reset_queue: Any, env_action_queue: Any, *, attempt: Attempt) -> None:
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        slot, (eef,) = torch.tensor([env_id]), self.env.eef_names
        for step in range(6):
            pose = {eef: self.env.get_robot_eef_pose(eef, slot)}
            action = self.env.target_eef_pose_to_action(pose, {eef: torch.ones(1, 1)}, None, slot)[0]
            if attempt.index == BAD and step == 3:
                action[3:7] *= self.length
            await env_action_queue.put((env_id, action))
            await env_action_queue.join()


class Sink(list[Episode]):
    def commit(self, episode: Episode) -> None:
        self.append(episode)

    def try_commit(self, episode: Episode) -> bool:
        self.append(episode)
        return True


def run(name: str, length: float, num_envs: int) -> tuple[dict[int, Any], dict[int, Episode]]:
    env = ENVS[name](PickTask(), num_envs, control="ik_abs")
    sink, outcomes = Sink(), dict[int, Any]()
    state = RunState(
        env,
        BudgetLimits(5, max_attempts=5),
        RunOptions(stall_timeout_s=20.0),
        failed_sink=sink,
        on_outcome=lambda outcome: outcomes.update({outcome.attempt: outcome}),
    )
    asyncio.run(generate(state, Hold(env, length)))
    env.close()
    return outcomes, {episode.outcome.attempt: episode for episode in sink}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("name", ENVS)
def test_a_quaternion_without_length_fails_its_attempt_and_no_other(name: str, num_envs: int) -> None:
    expected, whole = run(name, 1.0, 2)
    outcomes, episodes = run(name, 0.0, num_envs)
    assert outcomes[BAD].reason == "error:RequestError"
    assert outcomes[BAD].length == 3
    assert {outcome.reason for outcome in expected.values()} == {"not_successful"}
    for attempt in set(expected) - {BAD}:
        assert outcomes[attempt].reason == "not_successful"
        for column, values in whole[attempt].columns.items():
            assert torch.equal(episodes[attempt].columns[column], values), column


def test_what_counts_as_no_rotation() -> None:
    actions = torch.zeros(5, 2 * action_dim("ik_abs"))
    actions[:, 3], actions[:, 12] = 1.0, -0.5  # w of the one arm, x of the other
    actions[1, 3], actions[4, 12] = 0.0, 1e-9
    assert sorted(faults("ik_abs", actions)) == [1, 4]
    assert faults("ik_rel", torch.zeros(3, action_dim("ik_rel"))) == {}
