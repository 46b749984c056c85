"""Replayed demos take the simulator through what was recorded, or say where they do not."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, pick_demo

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.replay import ReplayGenerator
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import ConfigError, RequestError, SourceDemoError
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState

SUBTASKS = {"arm": [SubTaskConfig("cube", "grasp"), SubTaskConfig("cube")]}


class Sink:
    """Keeps committed episodes."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def try_commit(self, episode: Episode) -> bool:
        self.episodes.append(episode)
        return True

    def commit(self, episode: Episode) -> None:
        self.try_commit(episode)


def recorded(seed: int, *, states: bool = True) -> SourceDemo:
    """A demo with what is needed to replay it."""
    demo, env = pick_demo(seed), ArmEnv(1)
    env.reset(torch.tensor([0]), np.asarray([seed]))
    found = []
    for action in demo.actions:
        found.append(env.get_state()[0])
        env.step(action[None])
    return replace(demo, initial_state=found[0], states=torch.stack(found) if states else None)


def replayed(
    demos: list[SourceDemo], attempts: int, num_envs: int = 3, **tolerances: float
) -> tuple[list[Outcome], list[Episode]]:
    env = ArmEnv(num_envs)
    pool = DataGenInfoPool(env, SUBTASKS)
    pool.add_demos(demos)
    sink, outcomes = Sink(), []

    async def main() -> None:
        options = RunOptions(hold_steps=1, stall_timeout_s=20)
        limits = BudgetLimits(10**6, max_attempts=attempts)
        state = RunState(env, limits, options, sink=sink, failed_sink=sink, on_outcome=outcomes.append)
        await generate(state, ReplayGenerator(env, pool, **tolerances))

    asyncio.run(main())
    return outcomes, sink.episodes


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("num_envs", [1, 4])
def test_attempt_k_is_demo_k_mod_d_and_begins_in_its_state(num_envs: int, states: bool) -> None:
    demos = [recorded(seed, states=states) for seed in range(3)]
    outcomes, episodes = replayed(demos, 7, num_envs, state_tolerance=0.0)
    assert [outcome.reason for outcome in outcomes] == ["success"] * 7
    assert [outcome.detail for outcome in outcomes] == [""] * 7
    for outcome, episode in zip(outcomes, episodes, strict=True):
        demo = demos[outcome.attempt % 3]
        assert outcome.source_demos == [{"eef": "arm", "subtask": None, "demo": demo.name}]
        assert torch.equal(episode.columns["action"], demo.actions)
        assert demo.initial_state is not None
        assert torch.equal(episode.initial_state, demo.initial_state)


def test_the_first_step_that_is_not_as_recorded_is_named() -> None:
    good, other = recorded(0), recorded(1)
    actions = other.actions.clone()
    actions[6, 1] += 0.25
    outcomes, _ = replayed([good, replace(other, actions=actions)], 4)
    assert [outcome.reason for outcome in outcomes] == ["success", "state_mismatch"] * 2
    assert [o.source_demos[0]["demo"] for o in outcomes] == [good.name, other.name] * 2
    assert outcomes[1].detail == (
        "step 7: number 7 of the state deviates by 0.25 from the recording; the tolerance is 0.001"
    )
    assert outcomes[1].length == 7
    far, _ = replayed([replace(other, actions=actions)], 1, state_tolerance=0.3)
    assert far[0].reason != "state_mismatch"


def test_poses_are_compared_where_there_are_no_states() -> None:
    demo = recorded(2, states=False)
    moved = {name: pose.clone() for name, pose in demo.info.object_poses.items()}
    moved["cube"][9, 0, 3] += 0.004
    wrong = replace(demo, info=replace(demo.info, object_poses=moved))
    outcomes, _ = replayed([wrong], 1)
    assert outcomes[0].reason == "state_mismatch"
    assert outcomes[0].detail.startswith("step 9: the pose of cube deviates by 0.004 m from the recording")
    turned = {name: pose.clone() for name, pose in demo.info.eef_pose.items()}
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    turned["arm"][4, :3, :3] = turned["arm"][4, :3, :3] @ turn
    outcomes, _ = replayed([replace(demo, info=replace(demo.info, eef_pose=turned))], 1)
    assert outcomes[0].detail.startswith("step 4: the pose of arm deviates by 1.57 rad from the recording")
    assert replayed([wrong], 1, position_tolerance=0.005)[0][0].reason == "success"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial_state": None}, "demo_0: initial_state: none recorded"),
        ({"initial_state": torch.zeros(5)}, "initial_state: 5 numbers, the state of this env has 33"),
        ({"states": torch.zeros(3, 33)}, r"states: shape \(3, 33\), expected"),
        ({"actions": torch.zeros(29, 4)}, "actions: 4 columns, this env's actions have 7"),
    ],
)
def test_a_demo_that_cannot_be_replayed_is_refused_at_once(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceDemoError, match=message):
        replayed([replace(recorded(0), **change)], 1)


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(ConfigError, match="no demos to replay"):
        replayed([], 1)


def test_a_state_must_be_one() -> None:
    async def main() -> None:
        state = RunState(ArmEnv(1), BudgetLimits(1), RunOptions())
        with pytest.raises(RequestError, match=r"put env_id, or \(env_id, state\)"):
            await state.reset_queue.put((0, "home"))

    asyncio.run(main())
