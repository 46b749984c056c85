"""`pool=growing`: which episodes become source demos, who sees them, and that it does not depend on num_envs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import run_main

from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.errors import SourceDemoError
from mimicpipe.pipeline.episode import Attempt, Outcome
from mimicpipe.pools.growing import CustomDataGenInfoPool, GrowingPool
from mimicpipe.preflight import BUNDLED_DEMOS

pytestmark = pytest.mark.timeout(180)
SUBTASKS = {"panda": [SubTaskConfig("cube", "grasp"), SubTaskConfig("cube")]}
RULE = ("pool=growing", "pool.max_demos=2", "pool.every=3", "pool.delay=7", "env=kinematic", "recorder=none")


def rows(tmp_path: Path, name: str, *overrides: str) -> list[dict[str, Any]]:
    folder = tmp_path / name
    assert run_main(["tracker=none", "num_demos=40", *RULE, *overrides, f"hydra.run.dir={folder}"], tmp_path) == 0
    found = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "slot"} for row in found]


def test_the_same_attempts_at_every_num_envs(tmp_path):
    one, many = rows(tmp_path, "one", "env.num_envs=1"), rows(tmp_path, "many", "env.num_envs=12")
    assert one == many
    taken = set()
    for row in one:
        for source in row["source_demos"]:
            if source["demo"].startswith("attempt_"):
                given_by = int(source["demo"].removeprefix("attempt_"))
                assert given_by < row["attempt"] - 7
                assert one[given_by]["success"]
                taken.add(given_by)
    successes = [row["attempt"] for row in one if row["success"]]
    assert len(taken) >= 4
    assert all((successes.index(a) + 1) % 3 == 0 for a in taken), "no demo is like another here: every third is taken"


@pytest.fixture
def pool() -> GrowingPool:
    return GrowingPool(
        KinematicEnv(PickTask(), 2), SUBTASKS, BUNDLED_DEMOS / "pick.hdf5", max_demos=3, every=2, limit=5, delay=4
    )


def settle(pool: GrowingPool, attempt: int, *, success: bool = True, shift: float = 0.0) -> None:
    """The pool's first demo again, with its cube a little further."""
    outcome = Outcome(attempt, 0, 0, success, "success" if success else "timeout", 1)
    if success:
        demo = pool.demos[0]
        columns = {f"datagen_info.eef_pose.{name}": pose for name, pose in demo.info.eef_pose.items()}
        columns |= {f"datagen_info.target_eef_pose.{n}": pose for n, pose in demo.info.target_eef_pose.items()}
        columns |= {f"datagen_info.gripper_action.{n}": action for n, action in demo.info.gripper_action.items()}
        signals = demo.info.subtask_term_signals
        columns |= {f"datagen_info.subtask_term_signals.{n}": signal for n, signal in signals.items()}
        moved = demo.info.object_poses["cube"].clone()
        moved[:, 0, 3] += shift
        columns["datagen_info.object_pose.cube"] = moved
        pool.succeeded(outcome, torch.zeros(4), demo.actions, columns)
    pool.settled(outcome)


def test_the_rule_is_a_rate_a_distance_and_a_limit(pool):
    settle(pool, 0, shift=1.0)
    assert pool.num_datagen_infos == 3, "the first of two successes"
    settle(pool, 1, success=False)
    settle(pool, 2, shift=0.01)
    assert pool.num_datagen_infos == 3, "too near to a demo that is there"
    settle(pool, 3, shift=1.0)
    assert list(pool.demo_names)[3:] == ["attempt_3"]
    assert not torch.equal(pool.datagen_infos[3].object_poses["cube"], pool.datagen_infos[0].object_poses["cube"])
    settle(pool, 4, shift=2.0)
    settle(pool, 5, shift=3.0)
    settle(pool, 6, shift=4.0)
    settle(pool, 7, shift=5.0)
    assert list(pool.demo_names)[3:] == ["attempt_3", "attempt_5"], "the limit"


def test_a_success_that_cannot_be_cut_is_noted_and_left_out(pool):
    demo = pool.demos[0]
    demo.info.subtask_term_signals["grasp"] = torch.zeros(demo.info.length, dtype=torch.bool)
    settle(pool, 0, shift=1.0)
    settle(pool, 1, shift=1.0)
    assert pool.num_datagen_infos == 3
    assert "attempt_1: subtask_term_signals/grasp: the signal never goes 0→1" in pool.skipped[0]


def test_an_attempt_waits_for_those_it_may_learn_from(pool):
    class Run:
        def __init__(self) -> None:
            self.left: list[int] = []

        def away(self, slot: int):
            from contextlib import nullcontext

            self.left.append(slot)
            return nullcontext()

    run: Any = Run()

    async def main() -> list[int]:
        for attempt in range(4):
            settle(pool, attempt, shift=1.0 + attempt)
        assert await pool.snapshot(0, Attempt(8, 0), run) == 5
        assert run.left == []
        waits = asyncio.create_task(pool.snapshot(1, Attempt(9, 0), run))
        await asyncio.sleep(0)
        assert run.left == [1]
        settle(pool, 4, success=False)
        return [await waits, *[await pool.snapshot(0, Attempt(k, 0), run) for k in range(9)]]

    found = asyncio.run(main())
    # Attempts 1 and 3 have given demos 3 and 4; attempt k sees what came before k - 4.
    assert found == [5, 3, 3, 3, 3, 3, 3, 4, 4, 5]


def test_a_custom_source_is_added_under_the_lock():
    class Renamed(CustomDataGenInfoPool):
        def _convert_source_to_episode(self, source):
            assert self.asyncio_lock.locked()
            return super()._convert_source_to_episode(source)

    env = KinematicEnv(PickTask(), 1)
    source = GrowingPool(env, SUBTASKS, BUNDLED_DEMOS / "pick.hdf5", max_demos=1).demos[0]
    custom = Renamed(env, SUBTASKS)
    asyncio.run(custom.add_from_custom_source(source))
    assert list(custom.demo_names) == [source.name]
    source.info.eef_pose.clear()
    with pytest.raises(SourceDemoError):
        asyncio.run(custom.add_from_custom_source(source))
    assert custom.num_datagen_infos == 1
