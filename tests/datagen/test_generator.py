"""Generation through the real queues and env loop."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from arm_env import ArmEnv, pick_demo
from generation_runs import PICK, assert_same, make, run

from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.noise import ActionNoise
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.datagen.waypoint import MultiWaypoint, WaypointTrajectory, subtask_trajectory
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.protocol import Plan


def test_most_attempts_lift_the_cube_and_say_what_they_are_made_of() -> None:
    outcomes, episodes = run(make(8), attempts=60)
    assert sum(outcome.success for outcome in outcomes) >= 57
    assert len(episodes) == 60
    for outcome in outcomes:
        assert [(source["eef"], source["subtask"]) for source in outcome.source_demos] == [("arm", 0), ("arm", 1)]
        assert all(source["demo"] in {f"demo_{seed}" for seed in range(6)} for source in outcome.source_demos)
    assert len({source["demo"] for outcome in outcomes for source in outcome.source_demos}) == 6


def test_an_attempt_that_ends_with_an_exception_says_what_it_was_made_of() -> None:
    whole = {outcome.attempt: outcome for outcome in run(make(2), 6)[0]}
    outcomes, _ = run(make(2), 6, max_episode_steps=20)
    assert {outcome.reason for outcome in outcomes} == {"timeout"}
    for outcome in outcomes:
        used = outcome.source_demos
        assert used
        assert used == whole[outcome.attempt].source_demos[: len(used)]


def test_balanced_selection_uses_each_demo_equally_at_every_num_envs() -> None:
    def made(num_envs: int) -> DataGenerator:
        env = ArmEnv(num_envs)
        subtasks = [replace(each, selection_strategy="balanced", selection_strategy_kwargs={}) for each in PICK]
        pool = DataGenInfoPool(env, {"arm": subtasks})
        pool.add_demos([pick_demo(seed) for seed in range(6)])
        return DataGenerator(env, pool, datagen_cfg=DataGenConfig(generation_select_src_per_subtask=True))

    outcomes, episodes = run(made(7), attempts=24, seed=5)
    for subtask in (0, 1):
        used = [outcome.source_demos[subtask]["demo"] for outcome in outcomes]
        for round_ in range(4):
            assert sorted(used[6 * round_ : 6 * round_ + 6]) == [f"demo_{i}" for i in range(6)]
    assert any(outcome.source_demos[0]["demo"] != outcome.source_demos[1]["demo"] for outcome in outcomes)
    assert_same((outcomes, episodes), run(made(1), attempts=24, seed=5))
    other = run(made(7), attempts=24, seed=6)[0]
    assert [o.source_demos for o in other] != [o.source_demos for o in outcomes]


@pytest.mark.parametrize("num_envs", [4, 16])
def test_the_same_episodes_bit_for_bit_at_every_num_envs(num_envs: int) -> None:
    assert_same(run(make(num_envs)), run(make(1)))


def test_the_last_target_can_be_held() -> None:
    held, plain = run(make(4, settle_steps=7)), run(make(4))
    assert [outcome.length for outcome in held[0]] == [outcome.length + 7 for outcome in plain[0]]
    for a, b in zip(held[1], plain[1], strict=True):
        action = a.columns["action"]
        assert torch.equal(action[:-7], b.columns["action"])
        assert torch.equal(action[-7:], action[-1:].expand(7, -1))
        assert not torch.equal(action[-8], action[-1]), "the last step before the hold has noise, the hold has none"


@dataclass
class CountingPort:
    """Passes requests on and counts them."""

    queue: Any
    puts: int = 0

    async def put(self, item: Any) -> None:
        self.puts += 1
        await self.queue.put(item)

    async def join(self) -> None:
        await self.queue.join()


class CountingGenerator(DataGenerator):
    """Counts the requests of each attempt."""

    async def generate(self, env_id, success_term, env_reset_queue, env_action_queue, **kwargs):
        resets, actions = CountingPort(env_reset_queue), CountingPort(env_action_queue)
        results = await super().generate(env_id, success_term, resets, actions, **kwargs)
        return {**results, "metadata": {"resets": resets.puts, "requests": actions.puts}}


def test_an_attempt_is_one_reset_and_one_request() -> None:
    _, episodes = run(make(4, CountingGenerator))
    assert all(episode.metadata == {"resets": 1, "requests": 1} for episode in episodes)


class StepByStepGenerator(DataGenerator):
    """The same algorithm in the style of the guide: one waypoint, one put, one join at a time."""

    by_step = True

    async def generate(self, env_id, success_term, env_reset_queue, env_action_queue, *, attempt, **_):
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        pool, env = self.src_demo_datagen_info_pool, self.env
        async with pool.asyncio_lock:
            boundaries = self.randomize_subtask_boundaries(attempt.seed)["arm"]
            demo = attempt.index % pool.num_datagen_infos
            info = pool.datagen_infos[demo]
        noise = ActionNoise(attempt.seed, env.eef_names, env.noise_dim, env.device)
        ids, last, played = torch.tensor([env_id]), None, 0
        for subtask, config in enumerate(self.subtask_configs["arm"]):
            trajectory = subtask_trajectory(
                info,
                "arm",
                tuple(boundaries[demo, subtask].tolist()),
                config,
                object_pose=env.get_object_poses(ids)["cube"][0],
                start_pose=env.get_robot_eef_pose("arm", ids)[0] if last is None else last,
                from_measured_pose=subtask == 0,
            )
            last = trajectory.last_waypoint.pose
            if self.by_step:
                for waypoint in trajectory:
                    multi_waypoint = MultiWaypoint({"arm": waypoint})
                    await multi_waypoint.execute(env, success_term, env_id, env_action_queue, noise=noise)
            else:
                await self.execute_trajectory(env_id, trajectory, env_action_queue, attempt=attempt, first_step=played)
            played += len(trajectory)
        return {"source_demos": [{"eef": "arm", "subtask": 0, "demo": pool.demo_names[demo]}]}


class TrajectoryGenerator(StepByStepGenerator):
    """The same, each subtask's trajectory in one request."""

    by_step = False


@pytest.mark.parametrize("num_envs", [1, 5])
def test_generators_of_your_own_play_waypoints_or_trajectories_with_the_same_bits(num_envs: int) -> None:
    by_step, by_trajectory = run(make(num_envs, StepByStepGenerator)), run(make(3, TrajectoryGenerator))
    assert sum(outcome.success for outcome in by_step[0]) >= 18
    assert_same(by_step, by_trajectory)


class HoldingGenerator(DataGenerator):
    """Waits for a queue under the pool's lock, in every second attempt."""

    async def generate(self, env_id, success_term, env_reset_queue, env_action_queue, *, attempt, **_):
        if attempt.index % 2:
            async with self.src_demo_datagen_info_pool.asyncio_lock:
                await env_reset_queue.put(env_id)
                await env_reset_queue.join()
        return await super().generate(env_id, success_term, env_reset_queue, env_action_queue, attempt=attempt)


def test_waiting_for_a_queue_under_the_lock_ends_that_attempt_only() -> None:
    outcomes, _ = run(make(4, HoldingGenerator))
    assert [outcome.reason for outcome in outcomes[1::2]] == ["error:RequestError"] * 10
    assert sum(outcome.success for outcome in outcomes[::2]) >= 9


class GrowingGenerator(DataGenerator):
    """Adds a demo of its own in each attempt; attempt k sees two demos and one more for every four attempts."""

    async def generate(self, env_id, success_term, env_reset_queue, env_action_queue, *, attempt, **_):
        pool, visible = self.src_demo_datagen_info_pool, 2 + attempt.index // 4
        if pool.num_datagen_infos < visible + 2:
            await pool.add_episode(pick_demo(pool.num_datagen_infos))
        results = await super().generate(
            env_id, success_term, env_reset_queue, env_action_queue, attempt=attempt, visible=visible
        )
        return {**results, "metadata": {"pool": pool.num_datagen_infos}}


def test_a_pool_that_grows_while_generators_run_changes_nothing_an_attempt_should_not_see() -> None:
    alone, together = run(make(1, GrowingGenerator, demos=3)), run(make(8, GrowingGenerator, demos=3))
    assert_same(together, alone)
    assert together[1][-1].metadata["pool"] >= 7
    for outcome in together[0]:
        seen = {f"demo_{number}" for number in range(2 + outcome.attempt // 4)}
        assert {source["demo"] for source in outcome.source_demos} <= seen
    assert {source["demo"] for outcome in together[0] for source in outcome.source_demos} > {"demo_0", "demo_1"}


@dataclass
class ServingPort:
    """Keeps what is put; serves it at once."""

    items: list[Any] = field(default_factory=list)

    async def put(self, item: Any) -> None:
        self.items.append(item)

    async def join(self) -> None:
        return


def waypoints(steps: int, noise: float = 0.0) -> WaypointTrajectory:
    trajectory = WaypointTrajectory()
    trajectory.add_waypoint_sequence_for_target_pose(torch.eye(4), torch.ones(1), steps, True, noise)
    return trajectory


def execute(env: ArmEnv, trajectory: Any, **kwargs: Any) -> tuple[dict[str, Any], Plan, list[Any]]:
    pool = DataGenInfoPool(env, {eef: [SubTaskConfig()] for eef in env.eef_names})
    actions, resets = ServingPort(), ServingPort()
    coroutine = DataGenerator(env, pool).execute_trajectory(0, trajectory, actions, resets, **kwargs)
    results = asyncio.run(coroutine)
    return results, actions.items[0][1], resets.items


def test_a_trajectory_is_one_plan_after_a_reset() -> None:
    results, plan, resets = execute(ArmEnv(1), waypoints(5))
    assert results == {"source_demos": [], "length": 5}
    assert resets == [0]
    assert plan.targets["arm"].shape == (5, 4, 4)
    assert plan.grippers["arm"].shape == (5, 1)
    assert plan.noise == {}
    _, same, _ = execute(ArmEnv(1), plan)
    assert same is plan


def test_trajectories_of_several_eefs_may_differ_in_length_and_have_noise_of_their_own() -> None:
    env = ArmEnv(1, ("left", "right"))
    both = {"left": waypoints(4, 0.1), "right": waypoints(7, 0.1)}
    results, plan, _ = execute(env, both, attempt=Attempt(3, 11), first_step=2)
    assert results["length"] == 7
    assert plan.noise["left"].shape == (4, 6)
    assert not torch.equal(plan.noise["left"], plan.noise["right"][:4])
    source = ActionNoise(11, env.eef_names, 6, env.device, step=2)
    for step in range(4):
        drawn = source.draw({"left": 0.1, "right": 0.1})
        assert torch.equal(
            torch.cat([drawn["left"], drawn["right"]]), torch.stack([p[step] for p in plan.noise.values()])
        )


@pytest.mark.parametrize(
    ("trajectory", "words"),
    [
        (waypoints(3), "a trajectory for left; every eef of the env needs one"),
        ({"left": waypoints(3), "right": WaypointTrajectory()}, "at least one waypoint: left, right"),
        ({"left": waypoints(3), "right": waypoints(3, 0.1)}, "pass attempt="),
    ],
)
def test_a_trajectory_that_cannot_be_played_is_refused(trajectory: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        execute(ArmEnv(1, ("left", "right")), trajectory)


def test_two_arms_generate_together() -> None:
    eefs = ("left", "right")

    def build(num_envs: int) -> DataGenerator:
        env = ArmEnv(num_envs, eefs)
        replayed = [SubTaskConfig(None, action_noise=0.005)]
        pool = DataGenInfoPool(env, {"left": PICK, "right": replayed})
        pool.add_demos([pick_demo(seed, eefs) for seed in range(6)])
        return DataGenerator(env, pool, datagen_cfg=DataGenConfig(generation_select_src_per_subtask=True))

    together = run(build(7))
    assert_same(together, run(build(1)))
    assert sum(outcome.success for outcome in together[0]) >= 18
    for outcome in together[0]:
        planned = sorted((source["eef"], source["subtask"]) for source in outcome.source_demos)
        assert planned == [("left", 0), ("left", 1), ("right", 0)]
        shared = {source["demo"] for source in outcome.source_demos if source["subtask"] == 0}
        assert len(shared) == 1


def test_boundaries_with_offsets_are_those_the_planner_uses() -> None:
    generator = make(1)
    ends = generator.src_demo_datagen_info_pool.subtask_boundaries["arm"]
    shifted = generator.randomize_subtask_boundaries(9)["arm"]
    assert shifted.shape == (6, 2, 2)
    assert (shifted[:, 0, 1] == shifted[:, 1, 0]).all()
    assert ((shifted[:, 0, 0] >= 0) & (shifted[:, 0, 0] <= 4)).all()
    assert ((shifted[:, 0, 1] - ends[:, 0, 1] >= 1) & (shifted[:, 0, 1] - ends[:, 0, 1] <= 4)).all()
    request = generator.planner.request(9, 6)
    batch = generator.planner.plan_batch(torch.tensor([0]), [request])
    demo = request.chosen[0][2]
    assert int(batch.steps[0]) == 5 + 1 + shifted[demo, 0, 1] - shifted[demo, 0, 0]
    assert generator.randomize_subtask_boundaries(9, visible=2)["arm"].tolist() == shifted[:2].tolist()


def test_generator_and_pool_must_agree_on_the_subtasks() -> None:
    generator = make(1)
    pool = generator.src_demo_datagen_info_pool
    assert DataGenerator(generator.env, pool, {"arm": list(PICK)}).subtask_configs == {"arm": tuple(PICK)}
    with pytest.raises(ConfigError, match=r"task\.subtasks: the pool's demos were cut with other subtasks"):
        DataGenerator(generator.env, pool, {"arm": PICK[:1]})
