import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from arm_env import ArmEnv, random_demo

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.pool import DataGenInfoPool, PoolLock
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import ConfigError, SourceDemoError

CONFIGS = {"arm": [SubTaskConfig("cube", "grasp", subtask_term_offset_range=(-2, 3)), SubTaskConfig("bowl")]}


def make_env() -> ArmEnv:
    return ArmEnv(2, object_names=("cube", "cup", "bowl"), gripper_dim=2)


def make_demo(seed: int = 0, length: int = 30) -> SourceDemo:
    return random_demo(make_env(), seed, {"grasp": 12}, length)


def make_pool(**kwargs) -> DataGenInfoPool:
    return DataGenInfoPool(make_env(), CONFIGS, **kwargs)


def nan_at_3(demo: SourceDemo) -> None:
    demo.info.target_eef_pose["arm"][3, 0, 3] = torch.nan


def mirrored(demo: SourceDemo) -> None:
    demo.info.object_poses["cube"][5, :3, 0] *= -1


def shorter(demo: SourceDemo) -> None:
    demo.info.object_poses["bowl"] = demo.info.object_poses["bowl"][:-1]


def wide_gripper(demo: SourceDemo) -> None:
    demo.info.gripper_action["arm"] = torch.zeros(30, 3)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: d.info.eef_pose.clear(), "eef_pose/arm: no such end effector; the demo has none"),
        (lambda d: d.info.target_eef_pose.clear(), "target_eef_pose/arm: no such end effector"),
        (lambda d: d.info.gripper_action.clear(), "gripper_action/arm: no such end effector"),
        (lambda d: d.info.object_poses.pop("bowl"), "object_pose/bowl: no such object; the demo has cube, cup"),
        (lambda d: d.info.subtask_term_signals.clear(), "subtask_term_signals/grasp: no such signal"),
        (lambda d: d.info.subtask_term_signals["grasp"].zero_(), "subtask_term_signals/grasp: the signal never goes"),
        (nan_at_3, "target_eef_pose/arm: NaN or infinity at step 3"),
        (mirrored, "object_pose/cube: the pose at step 5 is no rigid transform"),
        (shorter, "object_pose/bowl: shape (29, 4, 4)"),
        (wide_gripper, "gripper_action/arm: 3 numbers a step, the env's gripper takes 2"),
        (lambda d: d.info.subtask_term_signals.update(grasp=torch.arange(30) >= 27), "the demo has 30 steps, but with"),
    ],
)
def test_a_demo_that_cannot_be_used_is_named_and_leaves_the_pool_as_it_was(
    spoil: Callable[[SourceDemo], object], words: str
) -> None:
    pool = make_pool()
    pool.add_demos([make_demo(1)])
    demo = make_demo(7)
    spoil(demo)
    with pytest.raises(SourceDemoError) as error:
        pool.add_demos([demo])
    assert str(error.value).startswith(f"demo_7: {words}") or words in str(error.value)
    assert "\n" not in str(error.value)
    assert pool.num_datagen_infos == 1
    assert pool.subtask_boundaries["arm"].tolist() == [[[0, 13], [13, 30]]]
    pool.add_demos([make_demo(2)])
    check_tables(pool, [make_demo(1), make_demo(2)])


def test_an_object_no_subtask_refers_to_may_be_missing() -> None:
    pool, demo = make_pool(), make_demo()
    del demo.info.object_poses["cup"]
    pool.add_demos([demo])
    assert pool.object_names == ("cube", "bowl")


def check_tables(pool: DataGenInfoPool, demos: list[SourceDemo]) -> None:
    """The timeline holds every demo's trajectories."""
    for demo, start in zip(demos, pool.start_times, strict=True):
        length = demo.info.length
        times = np.arange(start, start + length)
        expected = torch.cat(
            (demo.info.target_eef_pose["arm"][:, :3].flatten(1), demo.info.gripper_action["arm"]), dim=1
        )
        assert np.array_equal(pool.timeline.rows("target/arm", times), expected.T.numpy())
        assert np.array_equal(pool.timeline["target/arm"][:, times], expected.T.numpy())
        assert np.array_equal(pool.timeline.rows("eef/arm", times), demo.info.eef_pose["arm"].flatten(1).T.numpy())
        for part, name in enumerate(pool.object_names):
            rows = pool.timeline.rows("objects", times, np.asarray(part), len(pool.object_names))
            assert np.array_equal(rows, demo.info.object_poses[name].flatten(1).T.numpy())
            relative = torch.linalg.inv(demo.info.object_poses[name]) @ demo.info.eef_pose["arm"]
            rows = pool.timeline.rows("in_object/arm", times, np.asarray(part), len(pool.object_names))
            np.testing.assert_allclose(rows, relative.flatten(1).T.numpy(), atol=1e-5)


def test_a_pool_grows_past_its_first_allocation_without_losing_a_demo() -> None:
    pool = make_pool()
    demos = [make_demo(seed, length=25 + 7 * (seed % 11)) for seed in range(60)]
    for demo in demos:
        pool.add_demos([demo])
    assert sum(demo.info.length for demo in demos) > 2000
    check_tables(pool, demos)
    assert pool.subtask_boundaries["arm"].shape == (60, 2, 2)
    assert list(pool.demo_names) == [demo.name for demo in demos]
    assert torch.equal(pool.datagen_infos[59].eef_pose["arm"], demos[59].info.eef_pose["arm"])


def test_the_subtasks_must_fit_the_env() -> None:
    with pytest.raises(ConfigError, match=r"task\.subtasks\.arm\[0\]\.object_ref=plate"):
        DataGenInfoPool(make_env(), {"arm": [SubTaskConfig("plate")]})


def test_a_file_is_read_by_the_given_reader(tmp_path: Path) -> None:
    path = tmp_path / "demos.npy"
    np.save(path, np.asarray([3, 1, 2]))
    pool = make_pool(reader=lambda file: [make_demo(int(seed)) for seed in np.load(file)])
    assert pool.load_from_dataset_file(path, ["demo_2", "demo_3"]) == 2
    assert list(pool.demo_names) == ["demo_3", "demo_2"]
    with pytest.raises(SourceDemoError, match="no demo demo_9; the file has demo_3, demo_1, demo_2"):
        pool.load_from_dataset_file(path, ["demo_9"])
    with pytest.raises(SourceDemoError, match=r"demos\.npy: the pool has no reader"):
        make_pool().load_from_dataset_file(path)


def test_bad_demos_can_be_skipped_and_are_noted() -> None:
    bad = make_demo(5)
    nan_at_3(bad)
    pool = make_pool()
    assert pool.add_demos([make_demo(1), bad, make_demo(2)], on_error="skip") == 2
    assert list(pool.demo_names) == ["demo_1", "demo_2"]
    assert len(pool.skipped) == 1
    assert pool.skipped[0].startswith("demo_5: target_eef_pose/arm: NaN")
    with pytest.raises(ValueError, match="on_error='ignore'"):
        pool.add_demos([], on_error="ignore")


def test_episodes_are_added_under_the_lock() -> None:
    async def main() -> None:
        pool = make_pool()
        async with pool.asyncio_lock:
            task = asyncio.create_task(pool.add_episode(make_demo()))
            await asyncio.sleep(0)
            assert pool.num_datagen_infos == 0
        await task
        assert pool.num_datagen_infos == 1

    asyncio.run(main())


@dataclass
class Recording:
    """Somebody's own source format."""

    seed: int


class CustomDataGenInfoPool(DataGenInfoPool):
    """Written as the guide shows it."""

    def _convert_source_to_episode(self, source: Recording) -> SourceDemo:
        return make_demo(source.seed)

    async def add_from_custom_source(self, source: Recording) -> None:
        async with self.asyncio_lock:
            episode = self._convert_source_to_episode(source)
            self._add_episode(episode)


def test_a_pool_of_your_own_adds_episodes_with_the_core() -> None:
    async def main() -> None:
        pool = CustomDataGenInfoPool(make_env(), CONFIGS, asyncio_lock=asyncio.Lock())
        await asyncio.gather(*(pool.add_from_custom_source(Recording(seed)) for seed in range(3)))
        assert list(pool.demo_names) == ["demo_0", "demo_1", "demo_2"]
        check_tables(pool, [make_demo(seed) for seed in range(3)])

    asyncio.run(main())


def test_the_lock_knows_who_holds_it() -> None:
    async def main() -> None:
        lock = PoolLock()
        seen: list[bool] = []

        async def other() -> None:
            seen.append(lock.held_by_current_task())
            async with lock:
                seen.append(lock.held_by_current_task())

        assert not lock.held_by_current_task()
        async with lock:
            assert lock.held_by_current_task()
            task = asyncio.create_task(other())
            await asyncio.sleep(0)
            assert lock.held_by_current_task()
        await task
        assert not lock.held_by_current_task()
        assert seen == [False, True]

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_does_not_own_the_lock() -> None:
    async def main() -> None:
        lock = PoolLock()
        async with lock:
            task = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert lock.held_by_current_task()
        assert not lock.locked()

    asyncio.run(main())
