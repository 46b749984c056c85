import asyncio

from example_runs import assert_same_episodes, attempts

from examples.growing_pool import MirrorPool
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.preflight import BUNDLED_DEMOS

GROWING = ["generator=growing", "pool=growing_mirrored", "pool.max_demos=3", "env=kinematic", "recorder=npz"]
SUBTASKS = {"panda": [SubTaskConfig("cube", "grasp"), SubTaskConfig("cube")]}


def test_attempt_k_is_made_of_the_first_demos_only_at_every_num_envs(run):
    folder, other = (run(*GROWING, "generator.every=4", "num_demos=30", f"env.num_envs={n}") for n in (16, 3))
    assert_same_episodes(folder, other)
    order = [f"demo_{i}" for i in range(3)] + [f"demo_{i}_mirrored" for i in range(3)]
    rows = attempts(folder)
    for row in rows:
        visible = order[: 3 + row["attempt"] // 4]
        assert all(source["demo"] in visible for source in row["source_demos"])
    assert any(source["demo"].endswith("_mirrored") for row in rows for source in row["source_demos"])


def test_many_may_ask_it_to_grow_at_once():
    pool = MirrorPool(
        KinematicEnv(PickTask(), 1), SUBTASKS, str(BUNDLED_DEMOS / "pick.hdf5"), max_demos=3, on_error="raise"
    )

    async def ask() -> list[int]:
        return await asyncio.gather(*(pool.grow_to(count) for count in (4, 6, 5, 99)))

    assert asyncio.run(ask()) == [4, 6, 5, 6]
    assert list(pool.demo_names) == ["demo_0", "demo_1", "demo_2"] + [f"demo_{i}_mirrored" for i in range(3)]
