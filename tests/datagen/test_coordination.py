"""Eefs that wait for each other and move together: against a step-by-step reference, and in other batches."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo, random_poses
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from waiting import Steps, WaitingAttempt

from mimicpipe.datagen import coordinator
from mimicpipe.datagen.constraints import SubTaskConstraintConfig, SubTaskConstraintType, check_constraints
from mimicpipe.datagen.planner import SegmentRequest, SubtaskPlanner
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.errors import ConfigError, RequestError
from mimicpipe.pipeline.protocol import PlanFailedError
from mimicpipe.rng import attempt_seeds

EEFS, OBJECTS = ("left", "right", "third"), ("cube", "cup")


@dataclass(frozen=True)
class Setup:
    """A random task of several eefs with constraints."""

    subtasks: dict[str, list[SubTaskConfig]]
    config: DataGenConfig
    constraints: list[SubTaskConstraintConfig]
    signal_steps: list[dict[str, int]]
    lengths: list[int]

    def build(self, num_envs: int) -> tuple[ArmEnv, SubtaskPlanner, DataGenInfoPool]:
        env = ArmEnv(num_envs, tuple(self.subtasks), OBJECTS)
        pool = DataGenInfoPool(env, self.subtasks)
        demos = enumerate(zip(self.signal_steps, self.lengths, strict=True))
        pool.add_demos([random_demo(env, seed, steps, length) for seed, (steps, length) in demos])
        return env, SubtaskPlanner(env, pool, self.config, self.constraints), pool

    @property
    def object_refs(self) -> dict[str, list[str | None]]:
        return {eef: [config.object_ref for config in configs] for eef, configs in self.subtasks.items()}


@st.composite
def constraints_for(draw: st.DrawFn, counts: dict[str, int]) -> list[SubTaskConstraintConfig]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        first, second = draw(st.permutations(list(counts)))[:2]
        pair = (first, draw(st.integers(0, counts[first] - 1))), (second, draw(st.integers(0, counts[second] - 1)))
        more: dict[str, Any]
        if draw(st.booleans()):
            more = {"sequential_min_time_diff": draw(st.sampled_from([-1, -1, 0, 1, 4, 12, 100]))}
            kind = SubTaskConstraintType.SEQUENTIAL
        else:
            kind = SubTaskConstraintType.COORDINATION
            more = {
                "coordination_scheme": draw(st.sampled_from(["replay", "transform", "translate"])),
                "coordination_scheme_pos_noise_scale": draw(st.sampled_from([0.0, 0.05])),
                "coordination_scheme_rot_noise_scale": draw(st.sampled_from([0.0, 0.3])),
                "coordination_synchronize_start": draw(st.booleans()),
            }
        found.append(SubTaskConstraintConfig(pair, kind, **more))
    return found


def refused(constraints: list[SubTaskConstraintConfig], refs: dict[str, list[str | None]]) -> str | None:
    try:
        check_constraints(constraints, refs)
    except ConfigError as error:
        return str(error)
    return None


@st.composite
def setups(draw: st.DrawFn, allowed: bool = True) -> Setup:
    subtasks: dict[str, list[SubTaskConfig]] = {}
    for eef in EEFS[: draw(st.integers(2, 3))]:
        count = draw(st.integers(1, 3))
        subtasks[eef] = [
            SubTaskConfig(
                object_ref=draw(st.sampled_from([*OBJECTS, *OBJECTS, None])),
                subtask_term_signal=f"{eef}_{i}",
                first_subtask_start_offset_range=(0, 2) if i == 0 else (0, 0),
                subtask_term_offset_range=(0, 0) if i == count - 1 else (-1, 2),
                action_noise=draw(st.sampled_from([0.0, 0.1])),
                num_interpolation_steps=draw(st.integers(0, 3)),
                num_fixed_steps=draw(st.integers(0, 2)),
            )
            for i in range(count)
        ]
    constraints = draw(constraints_for({eef: len(configs) for eef, configs in subtasks.items()}))
    if allowed:
        refs = {eef: [config.object_ref for config in configs] for eef, configs in subtasks.items()}
        while refused(constraints, refs):  # what is left of them after the bad ones
            constraints = constraints[:-1]
        assume(constraints)
    config = DataGenConfig(*(draw(st.booleans()) for _ in range(4)), settle_steps=draw(st.sampled_from([0, 3])))
    signal_steps, lengths = [], []
    for _ in range(draw(st.integers(1, 4))):
        steps = {}
        for eef, configs in subtasks.items():
            at = 0
            for index in range(len(configs)):
                at += draw(st.integers(8, 16))
                steps[f"{eef}_{index}"] = at
        signal_steps.append(steps)
        lengths.append(max(steps.values()) + draw(st.integers(4, 8)))
    return Setup(subtasks, config, constraints, signal_steps, lengths)


def move_everything(env: ArmEnv, seed: int, slot: int) -> None:
    generator = np.random.default_rng(seed)
    env.eefs[:, slot] = random_poses(generator, len(env.eef_names))
    env.objects[:, slot] = random_poses(generator, len(env.object_names))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(setups(), st.integers(0, 2**32))
def test_every_step_equals_the_reference(setup: Setup, seed: int) -> None:
    env, planner, pool = setup.build(1)
    attempt = int(attempt_seeds(seed, 0))
    request = planner.request(attempt, len(setup.lengths))
    reference = WaitingAttempt(
        pool, setup.config, attempt, len(setup.lengths), env.noise_dim, constraints=setup.constraints
    )
    heads, calls = Steps(), 0
    while request.wanted is not None:
        calls += 1
        assert calls < 60
        move_everything(env, seed + calls, 0)
        scene = (
            {eef: env.get_robot_eef_pose(eef)[0] for eef in env.eef_names},
            {name: pose[0].double() for name, pose in env.get_object_poses().items()},
        )
        batch = planner.plan_batch(torch.tensor([0]), [request])
        assert not batch.errors
        heads.load(batch, 0)
        steps = int(batch.steps[0]) - (setup.config.settle_steps if request.wanted is None else 0)
        reference.begin_segments(scene)
        for index, told in enumerate(heads.play(steps)):
            assert not (index and reference.begin_segments(None))
            expected = reference.step()
            assert expected is not None
            assert set(told) == set(env.eef_names)
            for eef, row in told.items():
                if eef not in expected:  # it has not begun, and waits where it was when the attempt began
                    continue
                waypoint, noise = expected[eef]
                torch.testing.assert_close(row[:16].view(4, 4).double(), waypoint.pose, rtol=0, atol=2e-6)
                assert torch.equal(row[16:17], waypoint.gripper_action.float())
                assert torch.equal(row[17:], torch.zeros(6) if noise is None else noise)
    assert reference.all_done
    assert request.chosen == reference.chosen


@settings(deadline=None, derandomize=True, max_examples=8)
@given(setups(), st.integers(2, 16), st.integers(0, 2**32))
def test_an_attempt_has_the_same_bits_in_every_slot_and_batch(setup: Setup, num_envs: int, seed: int) -> None:
    attempts = list(range(10))
    alone = play(setup, attempts, 1, np.random.default_rng(0))
    together = play(setup, attempts, num_envs, np.random.default_rng(seed))
    for attempt in attempts:
        assert together[attempt].chosen == alone[attempt].chosen
        assert len(together[attempt].told) == len(alone[attempt].told)
        for one, other in zip(together[attempt].told, alone[attempt].told, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[eef], other[eef]) for eef in one)


@dataclass
class Played:
    """What an attempt was told, step by step."""

    told: list[dict[str, torch.Tensor]]
    chosen: list[tuple[int, int, int]]


def play(setup: Setup, attempts: list[int], num_envs: int, order: np.random.Generator) -> dict[int, Played]:
    """Play attempts in slots, in random batches."""
    env, planner, _ = setup.build(num_envs)
    seeds = dict(zip(attempts, attempt_seeds(1, attempts).tolist(), strict=True))
    queue, running = list(attempts), dict[int, tuple[int, SegmentRequest, Steps]]()
    played = {attempt: Played([], []) for attempt in attempts}
    while queue or running:
        for slot in range(num_envs):
            if slot not in running and queue:
                attempt = queue.pop(0)
                running[slot] = (attempt, planner.request(seeds[attempt], len(setup.lengths)), Steps())
        asking = sorted(slot for slot in running if order.random() < 0.7) or [min(running)]
        for slot in asking:
            attempt = running[slot][0]
            move_everything(env, 1000 * attempt + len(played[attempt].told), slot)
        batch = planner.plan_batch(torch.tensor(asking), [running[slot][1] for slot in asking])
        assert not batch.errors
        for row, slot in enumerate(asking):
            attempt, request, heads = running[slot]
            heads.load(batch, row)
            played[attempt].told += heads.play(int(batch.steps[row]))
            if request.wanted is None:
                played[attempt].chosen = request.chosen
                del running[slot]
    return played


@settings(deadline=None, derandomize=True, max_examples=40)
@given(setups(allowed=False), st.integers(0, 2**32))
def test_what_is_refused_as_endless_does_not_end_and_nothing_else(setup: Setup, seed: int) -> None:
    why = refused(setup.constraints, setup.object_refs)
    assume(why is None or "can never be met" in why)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator, "check_constraints", lambda *_: None)
        env, planner, _ = setup.build(1)
    move_everything(env, seed, 0)
    request = planner.request(seed, len(setup.lengths))
    error: Exception | None = None
    for _ in range(60):
        batch = planner.plan_batch(torch.tensor([0]), [request])
        error = batch.errors.get(0)
        if request.wanted is None or error is not None:
            break
    if why is None:
        assert request.wanted is None
        assert error is None
    else:
        assert isinstance(error, PlanFailedError)
        assert "no eef can ever go on" in str(error)
        assert " waits for " in str(error)


# ---- by hand

BOTH = {
    "left": [SubTaskConfig("cube", "left_0", num_interpolation_steps=2), SubTaskConfig("cube")],
    "right": [SubTaskConfig("cup", "right_0", num_interpolation_steps=1), SubTaskConfig("cup")],
}
SIGNALS, LENGTH = {"left_0": 9, "right_0": 19}, 40
"""Segments of left: 10 and 30 steps, of right: 20 and 20; lead-in 2 + 1 and 5, 1 + 1 and 5."""


def planned(
    *constraints: SubTaskConstraintConfig, subtasks: Any = None, demos: int = 3, config: DataGenConfig | None = None
) -> tuple[ArmEnv, SubtaskPlanner, DataGenInfoPool]:
    env = ArmEnv(2, ("left", "right"), OBJECTS)
    quiet = {eef: [replace(c, action_noise=0.0) for c in configs] for eef, configs in (subtasks or BOTH).items()}
    pool = DataGenInfoPool(env, quiet)
    pool.add_demos([random_demo(env, seed, SIGNALS, LENGTH) for seed in range(demos)])
    env.reset(torch.arange(2), attempt_seeds(0, np.arange(2)))
    return env, SubtaskPlanner(env, pool, config or DataGenConfig(), constraints), pool


def told(planner: SubtaskPlanner, seed: int = 3, visible: int = 3) -> list[dict[str, torch.Tensor]]:
    request, heads, steps = planner.request(seed, visible), Steps(), []
    while request.wanted is not None:
        batch = planner.plan_batch(torch.tensor([1]), [request])
        assert not batch.errors
        heads.load(batch, 0)
        steps += heads.play(int(batch.steps[0]))
    return steps


def moves(steps: list[dict[str, torch.Tensor]], eef: str) -> list[int]:
    """Steps in which an eef's target is another than in the step before."""
    return [
        i for i in range(len(steps)) if i == 0 or not torch.equal(steps[i][eef][:16], steps[i - 1][eef][:16])
    ]  # fmt: skip


def between(first: tuple[str, int], second: tuple[str, int], **more: Any) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.SEQUENTIAL, **more)


def together(first: tuple[str, int], second: tuple[str, int], **more: Any) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.COORDINATION, **more)


def test_the_second_begins_after_the_end_of_the_first() -> None:
    free = told(planned()[1])
    steps = told(planned(between(("right", 0), ("left", 1)))[1])
    assert moves(free, "left")[:48] == list(range(48))
    # Left's first segment ends with step 12, right's with step 21; left's second takes 35.
    assert moves(steps, "left") == [*range(13), *range(22, 57)]
    assert moves(steps, "right") == list(range(47))
    assert all(torch.equal(steps[t]["left"][:16], steps[12]["left"][:16]) for t in range(13, 22))


def test_an_eef_that_waits_first_holds_its_pose_and_an_open_gripper_of_the_demo() -> None:
    env, planner, pool = planned(between(("right", 1), ("left", 0)))
    steps = told(planner)
    pose = env.get_robot_eef_pose("left")[1]
    assert len(steps) == 47 + 13 + 35
    for step in steps[:47]:
        torch.testing.assert_close(step["left"][:16].view(4, 4), pose, rtol=0, atol=1e-6)
        assert any(torch.equal(step["left"][16:17], info.gripper_action["left"][0]) for info in pool.datagen_infos)


@pytest.mark.parametrize("diff", [5, 0, 40, 100])
def test_the_second_waits_with_so_many_waypoints_left(diff: int) -> None:
    subtasks = {**BOTH, "left": [replace(BOTH["left"][0], subtask_term_signal=None, num_interpolation_steps=0)]}
    # Left has one segment of 41 waypoints; right ends later.
    steps = told(planned(between(("right", 1), ("left", 0), sequential_min_time_diff=diff), subtasks=subtasks)[1])
    stop = 41 - min(diff, 40)
    assert moves(steps, "left") == [*range(stop), *range(47, 47 + 41 - stop)]
    assert len(steps) == max(47, 47 + 41 - stop)


def test_the_object_is_looked_for_when_the_subtask_begins() -> None:
    """The peer plans a segment that waits when its eef arrives; the first subtask may move the object meanwhile."""
    env, planner, pool = planned(between(("right", 0), ("left", 0)))
    request, heads = planner.request(3, 3), Steps()
    batch = planner.plan_batch(torch.tensor([1]), [request])
    heads.load(batch, 0)
    env.objects[0, 1] = random_poses(np.random.default_rng(5))
    batch = planner.plan_batch(torch.tensor([1]), [request])
    demo = pool.datagen_infos[request.chosen[0][2]]
    wanted = env.objects[0, 1] @ torch.linalg.inv(demo.object_poses["cube"][0]) @ demo.target_eef_pose["left"][:10]
    torch.testing.assert_close(batch.eefs["left"].targets[0, 3:13], wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scheme", ["replay", "translate", "transform"])
def test_coordinated_segments_are_moved_as_one_and_end_together(scheme: str) -> None:
    constraint = together(("left", 1), ("right", 1), coordination_scheme=scheme)
    env, planner, pool = planned(constraint)
    request = planner.request(3, 3)
    while request.wanted is not None:
        planner.plan_batch(torch.tensor([1]), [request])
    (demo,) = {source for _, subtask, source in request.chosen if subtask == 1}
    info = pool.datagen_infos[demo]
    steps = told(planned(constraint)[1])
    # The shorter of both segments has 20 steps: so many are played together.
    ends = [torch.stack([step[eef][:16].view(4, 4) for step in steps[-20:]]) for eef in ("left", "right")]
    assert all(len(moves(steps[-20:], eef)) == 20 for eef in ("left", "right"))
    source, now = info.object_poses["cube"][10], env.objects[0, 1]
    motion = torch.eye(4)
    if scheme == "transform":
        motion = now @ torch.linalg.inv(source)
    elif scheme == "translate":
        motion[:3, 3] = now[:3, 3] - source[:3, 3]
    for eef, played in zip(("left", "right"), ends, strict=True):
        torch.testing.assert_close(played, motion @ info.target_eef_pose[eef][-20:], rtol=0, atol=1e-5)


def test_noise_moves_both_alike_and_within_its_scale() -> None:
    def offsets(**noise: float) -> list[torch.Tensor]:
        constraint = together(("left", 1), ("right", 1), **noise)
        still = told(planned(together(("left", 1), ("right", 1)))[1])
        moved = told(planned(constraint)[1])
        return [
            moved[-1][eef][:16].view(4, 4) @ torch.linalg.inv(still[-1][eef][:16].view(4, 4))
            for eef in ("left", "right")
        ]

    left, right = offsets(coordination_scheme_pos_noise_scale=0.05)
    torch.testing.assert_close(left, right, rtol=0, atol=1e-5)
    assert 0.001 < left[:3, 3].abs().max() <= 0.0501
    torch.testing.assert_close(left[:3, :3], torch.eye(3), rtol=0, atol=1e-5)
    left, right = offsets(coordination_scheme_rot_noise_scale=0.2)
    torch.testing.assert_close(left, right, rtol=0, atol=1e-5)
    assert 0.001 < (left[:3, :3] - torch.eye(3)).abs().max() < 0.4


def test_a_synchronized_start_is_when_both_have_arrived() -> None:
    steps = told(planned(together(("left", 1), ("right", 1), coordination_synchronize_start=True))[1])
    # Left arrives after 13 steps, right after 22; then both have a lead-in of 5, and right waits for left's last 20.
    assert moves(steps, "left") == [*range(13), *range(22, 57)]
    assert moves(steps, "right") == [*range(22), *range(22, 27), *range(37, 57)]


def test_a_follower_takes_its_partner_s_demo_along() -> None:
    constraint = together(("left", 0), ("right", 1))
    three = {**BOTH, "right": [*BOTH["right"][:1], SubTaskConfig("cup", "late"), SubTaskConfig("cup")]}
    env = ArmEnv(1, ("left", "right"), OBJECTS)
    pool = DataGenInfoPool(env, three)
    pool.add_demos([random_demo(env, seed, {**SIGNALS, "late": 30}, LENGTH) for seed in range(9)])
    differ = 0
    for config in (
        DataGenConfig(generation_select_src_per_arm=True),
        DataGenConfig(generation_select_src_per_arm=True, generation_select_src_per_subtask=True),
    ):
        planner = SubtaskPlanner(env, pool, config, [constraint])
        for seed in attempt_seeds(0, np.arange(8)).tolist():
            request = planner.request(seed, 9)
            while request.wanted is not None:
                assert not planner.plan_batch(torch.tensor([0]), [request]).errors
            demo = {(eef, subtask): source for eef, subtask, source in request.chosen}
            assert demo[0, 0] == demo[1, 1]
            if config.generation_select_src_per_subtask:
                differ += demo[1, 1] != demo[1, 2]
            else:
                assert demo[1, 1] == demo[1, 2]
                differ += demo[1, 0] != demo[1, 1]
    assert differ >= 10


def test_a_wait_without_end_fails_the_attempt_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "check_constraints", lambda *_: None)
    _, planner, _ = planned(between(("left", 0), ("right", 0)), between(("right", 0), ("left", 0)))
    request = planner.request(3, 3)
    batch = planner.plan_batch(torch.tensor([1]), [request])
    assert isinstance(batch.errors[0], PlanFailedError)
    assert str(batch.errors[0]).endswith("left[0] waits for right[0], right[0] waits for left[0]")


def test_a_request_that_is_done_is_refused() -> None:
    _, planner, _ = planned(between(("left", 0), ("right", 0)))
    request = planner.request(3, 3)
    while request.wanted is not None:
        planner.plan_batch(torch.tensor([0]), [request])
    batch = planner.plan_batch(torch.tensor([0, 1]), [request, planner.request(2, 3)])
    assert list(batch.errors) == [0]
    assert isinstance(batch.errors[0], RequestError)
