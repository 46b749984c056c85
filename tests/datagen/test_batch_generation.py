"""One coroutine for all slots, against one for each: the same attempts, whatever becomes of them."""

from dataclasses import replace
from typing import Any

import pytest
from arm_env import ArmEnv, pick_demo
from generation_runs import PICK, assert_same, make, run

from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.pool import DataGenInfoPool


class AloneGenerator(DataGenerator):
    """Has a `generate` of its own, so each slot has its coroutine."""

    async def generate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return await super().generate(*args, **kwargs)


def lost_at(env: Any) -> Any:
    """`env.finite` that finds nothing finite where the cube lies beyond a line: for some attempts, in any slot."""
    return lambda env_ids=None: env.get_object_poses(env_ids)["cube"][:, 1, 3] < 0.02


@pytest.mark.parametrize("num_envs", [3, 7])
@pytest.mark.parametrize("case", ["all well", "cut off", "not finite", "no demo"])
def test_slots_in_batches_or_each_alone_do_the_same(num_envs: int, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both = []
    for kind in (DataGenerator, AloneGenerator):
        generator = make(num_envs, kind, demos=0 if case == "no demo" else 6)
        assert generator.in_batches == (kind is DataGenerator)
        if case == "not finite":
            monkeypatch.setattr(generator.env, "finite", lost_at(generator.env))
        both.append(run(generator, attempts=12, max_episode_steps=20 if case == "cut off" else 600))
    assert_same(*both)
    reasons = {outcome.reason for outcome in both[0][0]}
    expected = {"all well": "success", "cut off": "timeout", "not finite": "nonfinite", "no demo": "plan_failed"}
    assert expected[case] in reasons
    assert len(both[0][0]) == 12


@pytest.mark.parametrize("strict", [True, False])
def test_an_exception_of_a_strategy_ends_a_run_in_batches_as_any_other(strict: bool) -> None:
    def lost(context: Any) -> Any:
        raise LookupError("no such demo")

    env = ArmEnv(3)
    pool = DataGenInfoPool(
        env, {"arm": [replace(PICK[0], selection_strategy=lost, selection_strategy_kwargs={}), PICK[1]]}
    )
    pool.add_demos([pick_demo(0)])
    generator = DataGenerator(env, pool)
    assert generator.in_batches
    with pytest.raises(LookupError, match="no such demo"):
        run(generator, attempts=100, strict=strict)
