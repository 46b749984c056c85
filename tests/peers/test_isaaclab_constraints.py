"""Two arms that wait for each other and move together, against Isaac Lab Mimic 3.0.0 on the same env and demos.

An arm's *course* is its sequence of target poses and gripper actions without repetitions, which are its waiting.
Courses must be equal in every case; where an arm waits in the middle of its segment, so must the steps be.
"""

import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo  # ty: ignore[import-not-found]
from peer_cases import written
from torch import Tensor

from experiments.harness import Parts, compose, run_pipeline
from mimicpipe import rng
from mimicpipe.datagen.constraints import SubTaskConstraintConfig, SubTaskConstraintType
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.pools.hdf5 import Hdf5Pool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the peer's imports use what torch has deprecated
    reason = "the extra isaaclab is not installed: make isaaclab"
    pytest.importorskip("isaaclab_mimic.datagen.generation", reason=reason)

from experiments.throughput.peer_loop import adapter_for, peer_module, run_peer

pytestmark = [pytest.mark.isaaclab, pytest.mark.timeout(600)]

TOLERANCE = 1e-5
ARMS, OBJECTS = ("left", "right"), ("cube", "cup")
ATTEMPTS, DEMOS = 2, 4
SIGNALS, LENGTH = {"left_0": 14, "right_0": 23}, 45


@pytest.fixture(autouse=True)
def _hydra_1_3():
    import hydra.version

    hydra.version.setbase("1.3")


class TapedArms(ArmEnv):
    """Remembers every slot's targets since its reset, by the attempt's seed. Its objects are never carried."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, ARMS, OBJECTS)
        self.tape: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._seed_of: dict[int, int] = {}

    def reset(self, env_ids, seeds) -> None:
        super().reset(env_ids, seeds)
        self._seed_of.update(zip(env_ids.tolist(), np.asarray(seeds).tolist(), strict=True))

    def step(self, actions, env_ids=None) -> None:
        before = self.objects.clone()
        for slot in range(self.num_envs) if env_ids is None else env_ids.tolist():
            self.tape[self._seed_of[slot]].append(actions[slot].clone())
        super().step(actions, env_ids)
        self.objects = before

    def executed(self, seed: int) -> dict[str, Tensor]:
        """{arm: (T, 17) target pose and gripper action}."""
        actions = torch.stack(self.tape[seed])
        poses, grippers = self.action_to_target_eef_pose(actions), self.actions_to_gripper_actions(actions)
        return {arm: torch.cat((poses[arm].flatten(1), grippers[arm]), dim=1) for arm in ARMS}


@dataclass(frozen=True)
class Setting:
    """What both are given."""

    demos: Path
    constraints: list[SubTaskConstraintConfig]
    datagen: DataGenConfig
    interpolation: int = 3

    @property
    def subtasks(self) -> dict[str, list[SubTaskConfig]]:
        def subtask(name: str, signal: str | None) -> SubTaskConfig:
            return SubTaskConfig(
                name, signal, selection_strategy="nearest_neighbor_object", selection_strategy_kwargs={"nn_k": 1},
                action_noise=0.0, num_interpolation_steps=self.interpolation,
            )  # fmt: skip

        return {
            "left": [subtask("cube", "left_0"), subtask("cup", None)],
            "right": [subtask("cup", "right_0"), subtask("cube", None)],
        }


def seeds() -> list[int]:
    return rng.attempt_seeds(0, np.arange(ATTEMPTS)).tolist()


def by_mimicpipe(setting: Setting) -> dict[int, dict[str, Tensor]]:
    env = TapedArms(ATTEMPTS)
    budget = (f"num_demos={ATTEMPTS}", f"max_attempts={ATTEMPTS}", "seed=0", f"env.num_envs={ATTEMPTS}")
    config = compose("env=kinematic", "recorder=none", "tracker=none", *budget)
    pool = DataGenInfoPool(env, setting.subtasks)
    pool.add_demos(Hdf5Pool(setting.demos).load(env, setting.subtasks).demos)
    generator = DataGenerator(env, pool, datagen_cfg=setting.datagen, task_constraint_configs=setting.constraints)
    run_pipeline(Parts(config, env, pool, generator))
    return {seed: env.executed(seed) for seed in seeds()}


def delta_of(now: Tensor, then: Tensor) -> Tensor:
    """The motion from one pose to another; the peer calls it `get_delta_object_pose`, and does not have it."""
    return now @ torch.linalg.inv(then)


def by_peer(setting: Setting) -> dict[int, dict[str, Tensor]]:
    env = TapedArms(ATTEMPTS)
    adapter = adapter_for(env, setting.subtasks, setting.datagen, ATTEMPTS, 0, constraints=setting.constraints)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peer_module("isaaclab.utils.math"), "get_delta_object_pose", delta_of, raising=False)
        run_peer(adapter, setting.demos)
    return {seed: env.executed(seed) for seed in seeds()}


@pytest.fixture(scope="module")
def demos(tmp_path_factory) -> Path:
    env = ArmEnv(1, ARMS, OBJECTS)
    made = [
        random_demo(env, seed, {name: step + seed for name, step in SIGNALS.items()}, LENGTH) for seed in range(DEMOS)
    ]
    for demo in made:  # the peer takes gripper actions from the actions
        demo.actions = torch.cat(
            [torch.cat((torch.zeros(LENGTH, 6), demo.info.gripper_action[arm]), dim=1) for arm in ARMS], dim=1
        )
    return written(tmp_path_factory.mktemp("arms") / "arms.hdf5", made)


def constraint(first: tuple[str, int], second: tuple[str, int], **more: Any) -> SubTaskConstraintConfig:
    return SubTaskConstraintConfig((first, second), SubTaskConstraintType.SEQUENTIAL, **more)


def together(scheme: str, **more: Any) -> SubTaskConstraintConfig:
    more["coordination_scheme"] = scheme
    return SubTaskConstraintConfig((("left", 1), ("right", 1)), SubTaskConstraintType.COORDINATION, **more)


PER_ARM = DataGenConfig(generation_select_src_per_arm=True)
CASES: dict[str, tuple[list[SubTaskConstraintConfig], DataGenConfig, bool]] = {
    # constraints, selection, whether every step is the same
    "none": ([], DataGenConfig(), True),
    "none, per arm": ([], PER_ARM, True),
    "with 6 steps left": ([constraint(("right", 0), ("left", 0), sequential_min_time_diff=6)], DataGenConfig(), True),
    "with 30 steps left": ([constraint(("left", 1), ("right", 1), sequential_min_time_diff=30)], PER_ARM, True),
    "with more steps left than there are": (
        [constraint(("right", 0), ("left", 0), sequential_min_time_diff=500)], DataGenConfig(), True,
    ),
    "begins after": ([constraint(("right", 0), ("left", 1))], DataGenConfig(), False),
    "begins after, from the start": ([constraint(("right", 0), ("left", 0))], PER_ARM, False),
    "two constraints": (
        [constraint(("left", 0), ("right", 0), sequential_min_time_diff=4), constraint(("right", 1), ("left", 1))],
        DataGenConfig(), False,
    ),
    **{f"together, {scheme}": ([together(scheme)], DataGenConfig(), False) for scheme in ("replay", "transform")},
    "together, translate, per arm": ([together("translate")], PER_ARM, False),
    "together, transform, per arm": ([together("transform")], PER_ARM, False),
    "together from the start": ([together("transform", coordination_synchronize_start=True)], PER_ARM, False),
}  # fmt: skip


def course(steps: Tensor) -> Tensor:
    """The steps that differ from the one before."""
    new = torch.ones(len(steps), dtype=torch.bool)
    new[1:] = (steps[1:] - steps[:-1]).abs().amax(dim=1) > TOLERANCE
    return steps[new]


@pytest.mark.parametrize("case", CASES)
def test_both_take_the_same_course(case, demos):
    constraints, datagen, exactly = CASES[case]
    setting = Setting(demos, constraints, datagen)
    ours, peers = by_mimicpipe(setting), by_peer(setting)
    for seed in seeds():
        for arm in ARMS:
            one, other = course(ours[seed][arm]), course(peers[seed][arm])
            if case.startswith("begins after, from the start") and arm == "left":
                one = one[1:]  # we hold the pose where the arm is, the peer its first waypoint
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)
            if exactly:
                torch.testing.assert_close(ours[seed][arm], peers[seed][arm], rtol=0, atol=TOLERANCE)


def test_every_case_waits_or_moves_otherwise(demos):
    free = by_mimicpipe(Setting(demos, [], DataGenConfig()))
    for case, (constraints, datagen, _) in CASES.items():
        found = by_mimicpipe(Setting(demos, constraints, datagen))
        both = [(found[seed][arm], free[seed][arm]) for seed in seeds() for arm in ARMS]
        same = all(one.shape == other.shape and torch.equal(one, other) for one, other in both)
        assert same == (case == "none"), case


# ---- where we differ on purpose


def moving(steps: Tensor) -> list[int]:
    return [0, *((steps[1:] - steps[:-1]).abs().amax(dim=1) > TOLERANCE).nonzero().flatten().add(1).tolist()]


def test_we_begin_when_the_first_has_ended_the_peer_one_waypoint_ahead(demos):
    setting = Setting(demos, [constraint(("right", 0), ("left", 1))], DataGenConfig())
    ours, peers = by_mimicpipe(setting), by_peer(setting)
    for seed in seeds():
        assert len(ours[seed]["left"]) == len(peers[seed]["left"]) + 1


def test_we_play_the_end_of_both_at_the_same_time_the_peer_may_be_a_step_apart(demos):
    setting = Setting(demos, [together("replay")], DataGenConfig())
    ours, peers = by_mimicpipe(setting), by_peer(setting)
    apart = []
    for seed in seeds():
        ends = [moving(ours[seed][arm])[-1] for arm in ARMS]
        assert ends[0] == ends[1] == len(ours[seed]["left"]) - 1
        peer_ends = [moving(peers[seed][arm])[-1] for arm in ARMS]
        apart.append(abs(peer_ends[0] - peer_ends[1]))
    assert max(apart) <= 1


def test_a_difference_of_no_steps_holds_up_the_end_in_mimicpipe_only(demos):
    setting = Setting(demos, [constraint(("right", 1), ("left", 0), sequential_min_time_diff=0)], DataGenConfig())
    ours, peers = by_mimicpipe(setting), by_peer(setting)
    for seed in seeds():
        assert len(ours[seed]["left"]) > len(peers[seed]["left"])


@pytest.mark.parametrize("name", ["get_delta_object_pose", "add_uniform_noise_to_pose"])
def test_the_peer_lacks_what_its_scheme_transform_and_its_noise_call(name):
    assert not hasattr(peer_module("isaaclab.utils.math"), name)
