"""SkillGenerator with constraints between eefs: who waits, what is shared, and what a planner hears of others."""

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo

from mimicpipe.datagen.constraints import SubTaskConstraintConfig, SubTaskConstraintType
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.skillgen import SkillGenerator
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.protocol import PlanFailedError
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.planners.linear import LinearPlanner

EEFS = ("left", "right")
LENGTH = 40
SIGNALS = {"left_0": 9, "right_0": 19}
"""Segments of left: 10 and 30 steps, of right: 20 and 20."""


class Sink(list[Episode]):
    def commit(self, episode: Episode) -> None:
        self.append(episode)

    def try_commit(self, episode: Episode) -> bool:
        self.append(episode)
        return True


class Listening(LinearPlanner):
    """Goes straight, and remembers what it was asked; there is no way for the eef `barred`."""

    def __init__(self, env: ArmEnv, barred: str = "") -> None:
        super().__init__(env, max_speed=1.0, max_turn=6.0)
        self.asked: list[Any] = []
        self.barred = barred

    async def plan(self, request):
        self.asked.append(request)
        if request.eef == self.barred:
            raise PlanFailedError("there is a wall")
        await asyncio.sleep(0)
        return await super().plan(request)


def subtasks() -> dict[str, list[SubTaskConfig]]:
    parts = {"left": "cube", "right": "cup"}
    return {
        eef: [
            SubTaskConfig(part, f"{eef}_0", action_noise=0.0, subtask_start_signal="soon"),
            SubTaskConfig(part, action_noise=0.0, subtask_start_signal="late"),
        ]
        for eef, part in parts.items()
    }


def generator(*constraints: SubTaskConstraintConfig, num_envs: int = 1, barred: str = "", **config: Any):
    env = ArmEnv(num_envs, EEFS, ("cube", "cup"))
    pool = DataGenInfoPool(env, subtasks())
    demos = [random_demo(env, seed, SIGNALS, LENGTH) for seed in range(5)]
    for demo in demos:
        steps = torch.arange(LENGTH)
        demo.info.subtask_start_signals.update({"soon": steps >= 3, "late": steps >= 25})
    pool.add_demos(demos)
    planner = Listening(env, barred)
    return SkillGenerator(env, pool, planner, None, DataGenConfig(**config), constraints), planner


def played(made: SkillGenerator, attempts: int = 1):
    sink, outcomes = Sink(), []
    state = RunState(
        made.env,
        BudgetLimits(attempts, max_attempts=attempts),
        RunOptions(stall_timeout_s=20.0),
        sink=sink,
        failed_sink=sink,
        on_outcome=outcomes.append,
    )
    asyncio.run(generate(state, made))
    return sorted(outcomes, key=lambda o: o.attempt), sorted(sink, key=lambda e: e.outcome.attempt)


def between(first: tuple[str, int], second: tuple[str, int], **more: Any) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.SEQUENTIAL, **more)


def together(first: tuple[str, int], second: tuple[str, int], **more: Any) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.COORDINATION, **more)


def moves(episode: Episode, eef: str) -> list[int]:
    """Steps whose target is another than that of the step before; the first one counts where it leaves the start."""
    part = episode.columns["action"][:, 7 * EEFS.index(eef) :][:, :6]
    pose = episode.columns["observation.state"][0].view(2, 4, 4)[EEFS.index(eef), :3, 3]
    first = [0] if not torch.allclose(part[0, :3], pose, atol=1e-5) else []
    return first + ((part[1:] != part[:-1]).any(dim=1).nonzero()[:, 0] + 1).tolist()


def test_the_second_is_planned_when_the_first_has_ended_and_holds_until_then() -> None:
    made, planner = generator(between(("left", 1), ("right", 0)))
    (outcome,), (episode,) = played(made)
    assert outcome.reason == "not_successful"
    assert [(request.eef, request.number) for request in planner.asked] == [
        ("left", 0), ("left", 1), ("right", 2), ("right", 3),
    ]  # fmt: skip
    left, right = moves(episode, "left"), moves(episode, "right")
    assert max(left) < min(right)
    assert outcome.length == 1 + max(right)
    # It was asked with the first one arrived, which does nothing more.
    assert planner.asked[2].others == {}


def test_the_second_stops_with_so_many_steps_left_until_the_first_has_ended() -> None:
    made, _ = generator(between(("right", 1), ("left", 1), sequential_min_time_diff=5))
    _, (episode,) = played(made)
    left, right = moves(episode, "left"), moves(episode, "right")
    assert [step for step in left if step > max(right)] == list(range(max(right) + 1, max(right) + 6))
    # Without the constraint, left would have been done before.
    _, (free,) = played(generator()[0])
    assert max(moves(free, "left")) < max(moves(free, "right"))


@pytest.mark.parametrize("scheme", ["replay", "translate", "transform"])
@pytest.mark.parametrize("per_subtask", [False, True])
def test_coordinated_skills_share_a_demo_and_a_motion_and_end_together(scheme: str, per_subtask: bool) -> None:
    constraint = together(("left", 1), ("right", 1), coordination_scheme=scheme)
    made, planner = generator(
        constraint, generation_select_src_per_arm=True, generation_select_src_per_subtask=per_subtask
    )
    (outcome,), (episode,) = played(made)
    pool = made.src_demo_datagen_info_pool
    demos = {(c["eef"], c["subtask"]): c["demo"] for c in outcome.source_demos}
    assert demos["left", 1] == demos["right", 1]
    info = pool.datagen_infos[pool.demo_names.index(demos["left", 1])]
    ends = info.length - 25  # both skills begin at step 25 and go to the demo's end
    targets = made.env.action_to_target_eef_pose(episode.columns["action"][-ends:])
    # The first of the two to be asked for has chosen how both are moved.
    first = next(request for request in planner.asked if request.number >= 2)
    env = ArmEnv(1, EEFS, ("cube", "cup"))
    env.set_state(torch.from_numpy(first.state)[None])
    part = {"left": "cube", "right": "cup"}[first.eef]
    now, source = env.get_object_poses()[part][0], info.object_poses[part][25]
    motion = torch.eye(4)
    if scheme == "transform":
        motion = now @ torch.linalg.inv(source)
    elif scheme == "translate":
        motion[:3, 3] = now[:3, 3] - source[:3, 3]
    for eef in EEFS:
        torch.testing.assert_close(targets[eef], motion @ info.target_eef_pose[eef][-ends:], rtol=0, atol=1e-4)


def test_a_synchronized_start_is_when_both_have_ended_what_was_before() -> None:
    made, planner = generator(together(("left", 1), ("right", 1), coordination_synchronize_start=True))
    played(made)
    first, second = (request for request in planner.asked if request.number >= 2)
    assert np.array_equal(first.state, second.state)
    # The one that is asked for second hears what the first one is going to do.
    assert list(first.others) == []
    assert list(second.others) == [first.eef]
    assert len(second.others[first.eef]) > LENGTH - 25


def test_attempts_have_the_same_bits_at_every_num_envs() -> None:
    ties = (
        between(("left", 0), ("right", 0)),
        together(("left", 1), ("right", 1), coordination_scheme_pos_noise_scale=0.02),
    )
    expected, reference = played(generator(*ties)[0], 4)
    outcomes, episodes = played(generator(*ties, num_envs=3)[0], 4)
    for ours, theirs in zip(outcomes, expected, strict=True):
        assert (ours.reason, ours.length, ours.source_demos) == (theirs.reason, theirs.length, theirs.source_demos)
    for ours, theirs in zip(episodes, reference, strict=True):
        assert torch.equal(ours.columns["action"], theirs.columns["action"])


def test_no_way_for_one_of_them_is_a_failed_plan() -> None:
    made, planner = generator(together(("left", 0), ("right", 0)), barred="right")
    outcomes, _ = played(made, 3)
    assert [(outcome.reason, outcome.detail) for outcome in outcomes] == [("plan_failed", "there is a wall")] * 3
    # Right follows left's demo, so no other one is tried.
    assert [request.eef for request in planner.asked] == ["left", "right"] * 3


def test_a_wait_that_can_never_end_is_a_failed_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mimicpipe.datagen.skillgen.check_ties", lambda *_: None)
    made, _ = generator(between(("left", 0), ("right", 0)), between(("right", 0), ("left", 0)))
    outcomes, _ = played(made, 2)
    assert {outcome.reason for outcome in outcomes} == {"plan_failed"}
    assert str(outcomes[0].detail).endswith("left[0] waits for right[0], right[0] waits for left[0]")


def test_what_can_never_be_met_is_refused_with_the_chain() -> None:
    with pytest.raises(ConfigError, match=r"task\.constraints: can never be met, as .*left\[0\].*right\[0\]"):
        generator(between(("left", 0), ("right", 0)), between(("right", 0), ("left", 0)))
