"""The batched planner against a slot-by-slot reference, and against itself in other batches."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo, random_poses
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import ReferenceAttempt

from mimicpipe.datagen.planner import GOES_ON, SegmentRequest, SubtaskPlanner
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.errors import RequestError
from mimicpipe.pipeline.protocol import PlanBatch, PlanFailedError
from mimicpipe.rng import attempt_seeds

EEFS, OBJECTS = ("left", "right"), ("cube", "cup", "bowl")
STRATEGIES = ("random", "nearest_neighbor_object", "nearest_neighbor_robot_distance")


@dataclass(frozen=True)
class Setup:
    """A random task: subtasks of each eef, how they are joined, and the source demos."""

    subtasks: dict[str, list[SubTaskConfig]]
    config: DataGenConfig
    signal_steps: list[dict[str, int]]
    lengths: list[int]

    def build(self, num_envs: int) -> tuple[ArmEnv, SubtaskPlanner, DataGenInfoPool]:
        env = ArmEnv(num_envs, tuple(self.subtasks), OBJECTS, gripper_dim=2)
        pool = DataGenInfoPool(env, self.subtasks)
        demos = enumerate(zip(self.signal_steps, self.lengths, strict=True))
        pool.add_demos([random_demo(env, seed, steps, length) for seed, (steps, length) in demos])
        return env, SubtaskPlanner(env, pool, self.config), pool


@st.composite
def subtask(draw: st.DrawFn, index: int, count: int, signal: str) -> SubTaskConfig:
    low = draw(st.integers(-2, 2))
    strategy = draw(st.sampled_from(STRATEGIES))
    object_ref = draw(st.sampled_from(OBJECTS if strategy != "random" else (None, *OBJECTS)))
    kwargs: dict[str, Any] = {}
    if strategy != "random":
        kwargs = {"nn_k": draw(st.integers(1, 4)), "rot_weight": draw(st.sampled_from([0.0, 0.5, 1.0]))}
    last = index == count - 1
    return SubTaskConfig(
        object_ref=object_ref,
        subtask_term_signal=None if last and draw(st.booleans()) else signal,
        selection_strategy=strategy,
        selection_strategy_kwargs=kwargs,
        first_subtask_start_offset_range=(0, draw(st.integers(0, 3))) if index == 0 else (0, 0),
        subtask_term_offset_range=(0, 0) if last else (low, low + draw(st.integers(0, 3))),
        action_noise=draw(st.sampled_from([0.0, 0.02, 0.1])),
        num_interpolation_steps=draw(st.integers(0, 5)),
        num_fixed_steps=draw(st.integers(0, 3)),
        apply_noise_during_interpolation=draw(st.booleans()),
    )


@st.composite
def setups(draw: st.DrawFn, max_eefs: int = 2) -> Setup:
    subtasks = {}
    for eef in EEFS[: draw(st.integers(1, max_eefs))]:
        count = draw(st.integers(1, 3))
        subtasks[eef] = [draw(subtask(i, count, f"{eef}_{i}")) for i in range(count)]
    config = DataGenConfig(
        *(draw(st.booleans()) for _ in range(4)),
        settle_steps=draw(st.sampled_from([0, 0, 3])),
    )
    signal_steps, lengths = [], []
    for _ in range(draw(st.integers(1, 5))):
        steps = {}
        for eef, configs in subtasks.items():
            at = 0
            for index in range(len(configs)):
                at += draw(st.integers(10, 16))
                steps[f"{eef}_{index}"] = at
        signal_steps.append(steps)
        lengths.append(max(steps.values()) + draw(st.integers(8, 12)))
    return Setup(subtasks, config, signal_steps, lengths)


def move_everything(env: ArmEnv, seed: int, slot: int) -> None:
    """Somewhere else, whatever the slot's index."""
    generator = np.random.default_rng(seed)
    env.eefs[:, slot] = random_poses(generator, len(env.eef_names))
    env.objects[:, slot] = random_poses(generator, len(env.object_names))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(setups(), st.integers(1, 4), st.integers(0, 2**32), st.data())
def test_plans_equal_the_reference(setup: Setup, slots: int, seed: int, data: st.DataObject) -> None:
    env, planner, pool = setup.build(slots)
    seeds = attempt_seeds(seed, np.arange(slots)).tolist()
    visible = [data.draw(st.integers(1, len(setup.lengths))) for _ in range(slots)]
    requests = [planner.request(s, v) for s, v in zip(seeds, visible, strict=True)]
    references = [
        ReferenceAttempt(pool, setup.config, s, v, env.noise_dim) for s, v in zip(seeds, visible, strict=True)
    ]
    for round_ in range(20):
        active = [slot for slot in range(slots) if requests[slot].wanted is not None]
        if not active:
            break
        for slot in active:
            move_everything(env, seed + 100 * round_ + slot, slot)
        batch = planner.plan_batch(torch.tensor(active), [requests[slot] for slot in active])
        assert not batch.errors
        compare(env, batch, active, references)
    assert all(request.wanted is None for request in requests)
    assert all(reference.done for reference in references)
    assert [request.chosen for request in requests] == [reference.chosen for reference in references]


def compare(env: ArmEnv, batch: PlanBatch, active: list[int], references: list[ReferenceAttempt]) -> None:
    planned = {eef: set() for eef in env.eef_names}
    for row, slot in enumerate(active):
        eef_poses = {eef: env.get_robot_eef_pose(eef)[slot] for eef in env.eef_names}
        object_poses = {name: pose[slot] for name, pose in env.get_object_poses().items()}
        steps, expected = references[slot].plan(eef_poses, object_poses)
        assert batch.steps[row] == steps
        for eef, plan in expected.items():
            planned[eef].add(row)
            compare_row(batch, eef, row, plan.trajectory.poses(), plan.trajectory.gripper_actions(), plan.noise)
    assert {eef: set(plans.rows.tolist()) for eef, plans in batch.eefs.items()} == {
        eef: rows for eef, rows in planned.items() if rows
    }


def compare_row(
    batch: PlanBatch, eef: str, row: int, poses: torch.Tensor, grippers: torch.Tensor, noise: torch.Tensor
) -> None:
    plans = batch.eefs[eef]
    at = plans.rows.tolist().index(row)
    steps, held = poses.shape[0], int(plans.lengths[at]) - poses.shape[0]
    assert held in (0, 1)
    targets = plans.targets[at]
    torch.testing.assert_close(targets[:steps].double(), poses, rtol=0, atol=1e-6)
    grip, drawn = plans.waypoints[at, :, 16:].split((grippers.shape[1], noise.shape[1]), dim=1)
    assert torch.equal(grip[:steps], grippers.float())
    assert torch.equal(drawn[:steps], noise)
    assert plans.has_noise or not noise.any()
    if held:
        assert torch.equal(targets[steps], targets[steps - 1])
        assert torch.equal(grip[steps], grip[steps - 1])
        assert not drawn[steps].any()
    assert torch.isfinite(targets[: steps + held]).all()


@dataclass
class Played:
    """Everything an attempt was told to do, in order."""

    steps: list[int]
    tensors: list[torch.Tensor]
    chosen: list[tuple[int, int, int]]

    def same(self, other: "Played") -> bool:
        pairs = zip(self.tensors, other.tensors, strict=True)
        return self.steps == other.steps and self.chosen == other.chosen and all(torch.equal(a, b) for a, b in pairs)


def play(setup: Setup, attempts: list[int], num_envs: int, order: np.random.Generator) -> dict[int, Played]:
    """Play attempts in `num_envs` slots, with random batches: not every slot that could ask does so every time."""
    env, planner, _ = setup.build(num_envs)
    seeds = dict(zip(attempts, attempt_seeds(1, attempts).tolist(), strict=True))
    queue = list(attempts)
    running: dict[int, tuple[int, SegmentRequest]] = {}
    played = {attempt: Played([], [], []) for attempt in attempts}
    while queue or running:
        for slot in range(num_envs):
            if slot not in running and queue:
                attempt = queue.pop(0)
                running[slot] = (attempt, planner.request(seeds[attempt], len(setup.lengths)))
        asking = sorted(slot for slot in running if order.random() < 0.7) or [min(running)]
        for slot in asking:
            attempt = running[slot][0]
            move_everything(env, 1000 * attempt + len(played[attempt].steps), slot)
        batch = planner.plan_batch(torch.tensor(asking), [running[slot][1] for slot in asking])
        for row, slot in enumerate(asking):
            attempt, request = running[slot]
            note(batch, row, played[attempt])
            if request.wanted is None:
                played[attempt].chosen = request.chosen
                del running[slot]
    return played


def note(batch: PlanBatch, row: int, played: Played) -> None:
    played.steps.append(int(batch.steps[row]))
    for plans in batch.eefs.values():
        for at in (plans.rows == row).nonzero().flatten().tolist():
            played.tensors.append(plans.waypoints[at, : int(plans.lengths[at])])


@settings(deadline=None, derandomize=True, max_examples=12)
@given(setups(), st.integers(2, 16), st.integers(0, 2**32))
def test_an_attempt_is_planned_with_the_same_bits_in_every_slot_and_batch(
    setup: Setup, num_envs: int, seed: int
) -> None:
    attempts = list(range(14))
    alone = play(setup, attempts, 1, np.random.default_rng(0))
    together = play(setup, attempts, num_envs, np.random.default_rng(seed))
    assert all(together[attempt].same(alone[attempt]) for attempt in attempts)


TWO = [
    SubTaskConfig("cube", "grasp", num_interpolation_steps=2, action_noise=0.1),
    SubTaskConfig("cube", num_interpolation_steps=3, num_fixed_steps=1, action_noise=0.1),
]


def one_eef(num_envs: int = 3, demos: int = 4, config: DataGenConfig | None = None, **changes: Any) -> Any:
    env = ArmEnv(num_envs)
    pool = DataGenInfoPool(env, {"arm": [replace(each, **changes) for each in TWO]})
    pool.add_demos([random_demo(env, seed, {"grasp": 9}, 20) for seed in range(demos)])
    env.reset(torch.arange(num_envs), attempt_seeds(0, np.arange(num_envs)))
    return env, pool, SubtaskPlanner(env, pool, config or DataGenConfig())


def test_a_segment_keeps_its_poses_relative_to_the_object() -> None:
    env, pool, planner = one_eef()
    request = planner.request(5, 4)
    plans = planner.plan_batch(torch.tensor([1]), [request]).eefs["arm"]
    (_, _, demo) = request.chosen[0]
    info = pool.datagen_infos[demo]
    lead = 2 + 1
    segment = plans.targets[0, lead : int(plans.lengths[0])]
    now = torch.linalg.inv(env.get_object_poses()["cube"][1]) @ segment
    then = torch.linalg.inv(info.object_poses["cube"][0]) @ info.target_eef_pose["arm"][: segment.shape[0]]
    torch.testing.assert_close(now, then, rtol=0, atol=1e-5)


def test_visible_demos_are_those_that_were_there_whatever_is_added_later() -> None:
    env, pool, planner = one_eef(demos=2)
    seeds = attempt_seeds(0, np.arange(3)).tolist()
    before = [planner.request(seed, 2) for seed in seeds]
    first = planner.plan_batch(torch.arange(3), before)
    pool.add_demos([random_demo(env, seed, {"grasp": 9}, 45) for seed in range(2, 90)])
    again = [planner.request(seed, 2) for seed in seeds]
    second = planner.plan_batch(torch.arange(3), again)
    assert [r.chosen for r in before] == [r.chosen for r in again]
    assert torch.equal(first.eefs["arm"].targets, second.eefs["arm"].targets)
    with pytest.raises(ValueError, match="visible=91: the pool has 90 demos so far"):
        planner.request(0, 91)


def test_an_empty_pool_fails_the_attempts_that_ask_and_no_other() -> None:
    _, _, planner = one_eef()
    requests = [planner.request(1, 0), planner.request(2, 4)]
    batch = planner.plan_batch(torch.tensor([0, 2]), requests)
    assert list(batch.errors) == [0]
    assert isinstance(batch.errors[0], PlanFailedError)
    assert batch.eefs["arm"].rows.tolist() == [1]
    assert (batch.steps > 0).all()


def test_a_request_that_is_done_is_refused() -> None:
    _, _, planner = one_eef()
    request = planner.request(1, 4)
    for _ in TWO:
        planner.plan_batch(torch.tensor([0]), [request])
    batch = planner.plan_batch(torch.tensor([0, 1]), [request, planner.request(2, 4)])
    assert list(batch.errors) == [0]
    assert isinstance(batch.errors[0], RequestError)
    assert batch.eefs["arm"].rows.tolist() == [1]


def test_a_failing_strategy_fails_the_attempts_it_was_called_for() -> None:
    calls: list[int] = []

    def moody(context: Any, limit: int) -> np.ndarray:
        calls.append(len(context.num_demos))
        if context.eef_pose()[0, 0, 3] > limit:
            raise RuntimeError("not today")
        return np.zeros(len(context.num_demos), dtype=np.int64)

    env, _, planner = one_eef(selection_strategy=moody, selection_strategy_kwargs={"limit": 1})
    env.eefs[0, 0, 0, 3] = 2.0
    request = planner.request(1, 4)
    batch = planner.plan_batch(torch.tensor([0]), [request])
    assert str(batch.errors[0]) == "not today"
    assert not batch.eefs
    assert request.chosen == []
    assert request.wanted == [0]
    assert not planner.plan_batch(torch.tensor([1, 2]), [planner.request(2, 4), planner.request(3, 4)]).errors
    assert calls == [1, 2]


@pytest.mark.parametrize("answer", [np.asarray([4]), np.asarray([-1]), np.asarray([0.0]), np.asarray([0, 0])])
def test_a_strategy_must_choose_a_demo_that_is_there(answer: np.ndarray) -> None:
    _, _, planner = one_eef(selection_strategy=lambda _: answer)
    batch = planner.plan_batch(torch.tensor([0]), [planner.request(1, 4)])
    assert isinstance(batch.errors[0], ValueError)
    assert "must give 1 int64 demo indices" in str(batch.errors[0])


def test_a_strategy_may_answer_with_a_tensor_and_sees_no_object_where_there_is_none() -> None:
    def first(context: Any) -> torch.Tensor:
        with pytest.raises(ValueError, match="no object_ref"):
            context.object_pose()
        return torch.zeros(len(context.num_demos), dtype=torch.int64)

    _, _, planner = one_eef(selection_strategy=first, object_ref=None)
    assert not planner.plan_batch(torch.tensor([0]), [planner.request(1, 4)]).errors


def two_eefs(**kwargs: bool) -> tuple[ArmEnv, SubtaskPlanner]:
    env = ArmEnv(4, EEFS)
    three = [SubTaskConfig("cube", f"right_{i}") for i in range(2)] + [SubTaskConfig("cube")]
    pool = DataGenInfoPool(env, {"left": [SubTaskConfig("cube", "left_0"), SubTaskConfig("cube")], "right": three})
    signals = {"left_0": 20, "right_0": 12, "right_1": 25}
    pool.add_demos([random_demo(env, seed, signals, 40) for seed in range(20)])
    return env, SubtaskPlanner(env, pool, DataGenConfig(**kwargs))


def test_a_request_that_failed_for_one_eef_can_be_made_again() -> None:
    answers = [np.asarray([99]), np.asarray([1])]
    env = ArmEnv(1, EEFS)
    right = SubTaskConfig("cube", selection_strategy=lambda _: answers.pop(0))
    pool = DataGenInfoPool(env, {"left": [SubTaskConfig("cube")], "right": [right]})
    pool.add_demos([random_demo(env, seed, {}, 20) for seed in range(3)])
    planner = SubtaskPlanner(env, pool, DataGenConfig(generation_select_src_per_arm=True))
    request = planner.request(1, 3)
    assert list(planner.plan_batch(torch.tensor([0]), [request]).errors) == [0]
    batch = planner.plan_batch(torch.tensor([0]), [request])
    assert not batch.errors
    assert set(batch.eefs) == set(EEFS)


def chosen_demos(planner: SubtaskPlanner, seed: int) -> dict[tuple[int, int], int]:
    request = planner.request(seed, 20)
    while request.wanted is not None:
        assert not planner.plan_batch(torch.tensor([0]), [request]).errors
    assert len(request.chosen) == 5
    return {(eef, subtask): demo for eef, subtask, demo in request.chosen}


def test_who_shares_a_source_demo() -> None:
    seeds = attempt_seeds(0, np.arange(8)).tolist()
    differing = dict.fromkeys(["arms", "subtasks"], 0)
    for seed in seeds:
        whole = chosen_demos(two_eefs()[1], seed)
        assert len(set(whole.values())) == 1
        by_subtask = chosen_demos(two_eefs(generation_select_src_per_subtask=True)[1], seed)
        assert by_subtask[0, 0] == by_subtask[1, 0]
        assert by_subtask[0, 1] == by_subtask[1, 1]
        by_arm = chosen_demos(two_eefs(generation_select_src_per_arm=True)[1], seed)
        assert len({by_arm[0, 0], by_arm[0, 1]}) == len({by_arm[1, 0], by_arm[1, 1], by_arm[1, 2]}) == 1
        differing["arms"] += by_arm[0, 0] != by_arm[1, 0]
        differing["subtasks"] += by_subtask[0, 0] != by_subtask[0, 1]
    assert min(differing.values()) >= 5


def test_eefs_end_their_segments_on_their_own_and_the_first_to_finish_holds_still() -> None:
    _, planner = two_eefs()
    request = planner.request(3, 20)
    wanted, played = [], []
    while request.wanted is not None:
        wanted.append(request.wanted)
        batch = planner.plan_batch(torch.tensor([2]), [request])
        played.append((int(batch.steps[0]), {eef: int(plans.lengths[0]) for eef, plans in batch.eefs.items()}))
    # Lead-in 5 + 1 in the first subtask, 5 later; one waypoint to hold behind each eef's last.
    assert wanted == [[0, 0], [GOES_ON, 1], [1, GOES_ON], [GOES_ON, 2], [GOES_ON, GOES_ON]][: len(wanted)]
    assert played == [
        (19, {"left": 27, "right": 19}),
        (8, {"right": 18}),
        (10, {"left": 25}),
        (14, {"right": 20}),
        (5, {}),
    ]
