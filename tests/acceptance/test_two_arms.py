"""Whole runs of tasks of two arms: successful, with the constraints that they need, the same at every num_envs."""

import json
from pathlib import Path

import pytest
from in_process import run_main

from mimicpipe.recorders.digest import digest

pytestmark = pytest.mark.timeout(180)


def run(tmp_path: Path, name: str, *overrides: str) -> tuple[Path, list[dict]]:
    folder = tmp_path / name
    assert run_main([*overrides, "tracker=none", "preview=false", f"hydra.run.dir={folder}"], tmp_path) == 0
    lines = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return folder, [{k: v for k, v in json.loads(line).items() if k != "slot"} for line in lines]


@pytest.mark.parametrize("task", ["bimanual_lift", "bimanual_threading"])
def test_a_run_is_the_same_at_num_envs_1_and_4(tmp_path: Path, task: str) -> None:
    common = (f"task={task}", "task.variant=D1", "num_demos=3", "max_attempts=4", "seed=5")
    one, attempts = run(tmp_path, "one", *common, "env.num_envs=1")
    four, others = run(tmp_path, "four", *common, "env.num_envs=4")
    assert attempts == others
    assert sum(row["success"] for row in attempts) == 3
    assert digest(one / "dataset") == digest(four / "dataset")


def test_a_handover_is_in_order_and_the_right_hand_takes_what_the_left_one_holds_out(tmp_path: Path) -> None:
    _, attempts = run(tmp_path, "run", "task=bimanual_handover", "num_demos=4", "max_attempts=4", "recorder=none")
    assert [row["success"] for row in attempts] == [True] * 4
    for row in attempts:
        order = [(source["eef"], source["subtask"]) for source in row["source_demos"]]
        # The grasp waits for the bar to be held out, letting go for the grasp, the pad for the left hand to be away.
        for first, then in ((("left", 1), ("right", 1)), (("right", 1), ("left", 3)), (("left", 3), ("right", 3))):
            assert order.index(first) < order.index(then)


def test_arms_that_do_not_wait_for_each_other_fail_to_hand_over(tmp_path: Path) -> None:
    """With arms that choose their demos alone, nothing but the constraints keeps their times together."""
    alone = ("task.constraints=[]", "task.datagen.generation_select_src_per_arm=true")
    overrides = ("task=bimanual_handover", "task.variant=D1", "num_demos=4", "max_attempts=4", "recorder=none", *alone)
    _, attempts = run(tmp_path, "run", *overrides)
    assert not any(row["success"] for row in attempts)
