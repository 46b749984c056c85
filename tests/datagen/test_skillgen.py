"""SkillGenerator over an env without physics: what it plays, who waits, and what it refuses."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, pick_demo

from mimicpipe import poses
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

NEAR = 0.3


def with_starts(seed: int, eefs: tuple[str, ...]):
    """A demo of lifting the cube, whose skill begins where the eef is near to the cube."""
    demo = pick_demo(seed, eefs)
    info = demo.info
    away = poses.vector_norm(info.eef_pose[eefs[0]][:, :3, 3] - info.object_poses["cube"][:, :3, 3])[:, 0]
    starts = {"near": away < NEAR, "soon": torch.arange(info.length) >= 5}
    return replace(demo, info=replace(info, subtask_start_signals=starts))


def subtasks(noise: float = 0.02, **more: Any) -> list[SubTaskConfig]:
    grasp = SubTaskConfig(
        "cube", "grasp", "nearest_neighbor_object", {"nn_k": 3}, subtask_term_offset_range=(1, 2), action_noise=noise,
        subtask_start_signal="near", **more,
    )  # fmt: skip
    return [grasp, SubTaskConfig("cube", action_noise=noise, num_interpolation_steps=2)]


class Sink:
    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def try_commit(self, episode: Episode) -> bool:
        self.episodes.append(episode)
        return True

    def commit(self, episode: Episode) -> None:
        self.episodes.append(episode)


class PickyPlanner(LinearPlanner):
    """Goes straight, but not to what `refuses` names; it counts what it is asked, and takes its time."""

    def __init__(self, env, refuses=lambda request: False, waits: int = 0) -> None:
        super().__init__(env, max_speed=4.0, max_turn=20.0)
        self.refuses, self.waits = refuses, waits
        self.asked: list[Any] = []
        self.is_closed = False

    async def plan(self, request):
        self.asked.append(request)
        for _ in range(self.waits):
            await asyncio.sleep(0)
        if self.refuses(request):
            raise PlanFailedError("there is a wall")
        return await super().plan(request)

    def close(self) -> None:
        self.is_closed = True


def generator_of(num_envs: int = 1, planner=None, eefs=("arm",), configs=None, **more: Any) -> SkillGenerator:
    env = ArmEnv(num_envs, eefs)
    idle = [SubTaskConfig(None, action_noise=0.0, subtask_start_signal="soon")]
    configs = {eef: (configs or subtasks()) if eef == eefs[0] else idle for eef in eefs}
    pool = DataGenInfoPool(env, configs)
    pool.add_demos([with_starts(seed, eefs) for seed in range(5)])
    made = PickyPlanner(env) if planner is None else planner(env)
    return SkillGenerator(env, pool, made, datagen_cfg=DataGenConfig(settle_steps=2), **more)


def planner_of(generator: SkillGenerator) -> PickyPlanner:
    planner = generator.planner
    assert isinstance(planner, PickyPlanner)
    return planner


def run(generator, num_demos: int = 6, **rules: Any):
    sink, outcomes = Sink(), []
    state = RunState(
        generator.env,
        BudgetLimits(num_demos, max_attempts=num_demos),
        RunOptions(hold_steps=2, stall_timeout_s=20.0, **rules),
        sink=sink,
        failed_sink=sink,
        on_outcome=outcomes.append,
    )
    asyncio.run(generate(state, generator))
    return outcomes, sink.episodes


def test_attempts_succeed_and_name_the_demo_of_every_skill():
    generator = generator_of()
    outcomes, _ = run(generator)
    assert [outcome.reason for outcome in outcomes] == ["success"] * 6
    for outcome in outcomes:
        first, second = outcome.source_demos
        assert (first["eef"], first["subtask"], second["subtask"]) == ("arm", 0, 1)
        assert first["demo"] == second["demo"] in generator.src_demo_datagen_info_pool.demo_names
    assert len({outcome.source_demos[0]["demo"] for outcome in outcomes}) > 1


@pytest.mark.parametrize("num_envs", [2, 5])
def test_an_attempt_has_the_same_bits_whatever_num_envs_and_however_long_planning_takes(num_envs):
    def summary(found):
        return [(o.attempt, o.success, o.reason, o.length, o.source_demos) for o in found]

    expected, reference = run(generator_of(1))
    outcomes, episodes = run(generator_of(num_envs, lambda env: PickyPlanner(env, waits=30)))
    assert summary(outcomes) == summary(expected)
    for ours, theirs in zip(episodes, reference, strict=True):
        for name, column in theirs.columns.items():
            assert torch.equal(ours.columns[name], column), name


def test_the_way_ends_where_the_skill_was_shown_and_the_gripper_is_held_on_it():
    generator = generator_of(configs=subtasks(noise=0.0))
    (outcome,), (episode,) = run(generator, 1)
    planner = planner_of(generator)
    (asked,) = planner.asked
    pool = generator.src_demo_datagen_info_pool
    demo = pool.demo_names.index(outcome.source_demos[0]["demo"])
    info = pool.datagen_infos[demo]
    begin = int(info.subtask_start_signals["near"].nonzero()[0, 0])
    shown = poses.compose(poses.invert(info.object_poses["cube"][begin]), info.eef_pose["arm"][begin])
    cube = torch.from_numpy(asked.state[16:32].reshape(4, 4)).float()
    torch.testing.assert_close(torch.from_numpy(asked.goal), poses.compose(cube, shown), atol=1e-5, rtol=0)
    assert np.array_equal(asked.skill[0], asked.goal)
    assert asked.acts_on == "cube"
    way = asyncio.run(LinearPlanner.plan(planner, asked))
    actions = episode.columns["action"]
    assert torch.allclose(actions[: len(way), :3], torch.from_numpy(way[:, :3, 3]), atol=1e-5)
    assert (actions[: len(way), 6] == info.gripper_action["arm"][begin, 0]).all()
    # Two steps at the end hold the last target.
    assert torch.equal(actions[-1], actions[-2])


def test_noise_is_in_skills_and_not_on_ways():
    def actions(noise: float):
        _, (episode,) = run(generator_of(configs=subtasks(noise)), 1)
        return episode.columns["action"]

    quiet, noisy = actions(0.0), actions(0.02)
    same = (quiet == noisy).all(dim=1)
    first = int((~same).nonzero()[0, 0])
    generator = generator_of(configs=subtasks(0.0))
    run(generator, 1)
    assert first == len(asyncio.run(LinearPlanner.plan(planner_of(generator), planner_of(generator).asked[0])))
    assert not bool(same[first:-2].any())


def test_where_there_is_no_way_to_a_skill_other_demos_are_tried():
    refused: list[bytes] = []

    def refuses(request) -> bool:
        if len(refused) < 2 and request.goal.tobytes() not in refused:
            refused.append(request.goal.tobytes())
        return request.goal.tobytes() in refused

    generator = generator_of(1, lambda env: PickyPlanner(env, refuses))
    (outcome,), _ = run(generator, 1)
    assert outcome.success
    asked = planner_of(generator).asked
    assert len({request.goal.tobytes() for request in asked}) == len(asked) == 3
    assert [request.number for request in asked] == [0, 1, 2]
    assert outcome.source_demos[0]["demo"] == outcome.source_demos[1]["demo"]


def test_an_object_that_turns_alike_is_tried_turned_before_another_demo():
    refused: list[bytes] = []

    def refuses(request) -> bool:
        refused.append(request.goal.tobytes())
        return len(set(refused)) < 4

    generator = generator_of(1, lambda env: PickyPlanner(env, refuses), configs=subtasks(0.0, object_turns=4))
    (outcome,), _ = run(generator, 1)
    assert outcome.success
    asked = planner_of(generator).asked
    assert len(asked) == 4
    cube = torch.from_numpy(asked[0].state[16:32].reshape(4, 4)).float()
    shown = poses.compose(poses.invert(cube), torch.from_numpy(asked[0].goal))
    for turn, request in enumerate(asked):
        about_z = poses.matrix_from_axis_angle(torch.tensor([[0.0, 0.0, turn * np.pi / 2]]))[0]
        turned = poses.compose(cube, poses.make_pose(torch.zeros(3), about_z))
        expected = poses.compose(turned, shown)
        torch.testing.assert_close(torch.from_numpy(request.goal), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("tries", [1, 3, 10])
def test_no_way_to_any_demo_is_a_failed_plan(tries):
    generator = generator_of(2, lambda env: PickyPlanner(env, lambda _: True), demo_tries=tries)
    outcomes, _ = run(generator, 4)
    assert [(outcome.reason, outcome.length, outcome.detail) for outcome in outcomes] == [
        ("plan_failed", 0, "there is a wall")
    ] * 4
    assert len(planner_of(generator).asked) == 4 * min(tries, 5)


def test_a_plan_that_fails_later_leaves_the_names_of_the_demos_before_it():
    second = [subtasks()[0], replace(subtasks()[1], subtask_start_signal="soon", object_turns=1)]
    refuses = lambda request: request.number > 0  # noqa: E731
    generator = generator_of(2, lambda env: PickyPlanner(env, refuses), configs=second)
    outcomes, _ = run(generator, 3)
    assert [outcome.reason for outcome in outcomes] == ["plan_failed"] * 3
    assert all([part["subtask"] for part in outcome.source_demos] == [0] for outcome in outcomes)
    assert all(outcome.length > 0 for outcome in outcomes)


def test_eefs_follow_their_own_subtasks_and_a_way_is_planned_for_each():
    generator = generator_of(3, eefs=("left", "right"))
    outcomes, _ = run(generator, 4)
    assert [outcome.reason for outcome in outcomes] == ["success"] * 4
    for outcome in outcomes:
        played = [(skill["eef"], skill["subtask"]) for skill in outcome.source_demos]
        assert sorted(played) == [("left", 0), ("left", 1), ("right", 0)]
    assert {request.eef for request in planner_of(generator).asked} == {"left", "right"}


def test_what_it_cannot_do_is_one_line():
    with pytest.raises(ConfigError, match="no subtask of the task has a subtask_start_signal"):
        generator_of(configs=[SubTaskConfig("cube", "grasp"), SubTaskConfig("cube")])
    tied = SubTaskConstraintConfig((("arm", 0), ("arm", 1)), SubTaskConstraintType.SEQUENTIAL)
    with pytest.raises(ConfigError, match=r"task\.constraints\[0\].*name two end effectors"):
        generator_of(task_constraint_configs=[tied])


def test_closing_it_closes_the_planner():
    generator = generator_of()
    generator.close()
    assert planner_of(generator).is_closed
