import pytest
from example_runs import assert_same_episodes, attempts

CUSTOM = ["generator=custom", "recorder=npz"]


@pytest.mark.parametrize(("env", "task"), [("kinematic", "stack"), ("mujoco", "pick")])
def test_it_makes_demos(run, env, task):
    folder = run(*CUSTOM, f"env={env}", f"task={task}", "num_demos=4", "env.num_envs=4", "max_attempts=8")
    rows = attempts(folder)
    assert sum(row["success"] for row in rows) == 4
    assert {row["reason"] for row in rows} <= {"success", "not_successful", "success_not_held"}
    assert [source["subtask"] for source in rows[0]["source_demos"]] == [0, 1]


def test_num_envs_changes_nothing(run):
    runs = [run(*CUSTOM, "env=kinematic", "num_demos=6", f"env.num_envs={n}") for n in (1, 8)]
    assert_same_episodes(*runs)
    lengths = [[row["length"] for row in attempts(folder)][:6] for folder in runs]
    assert lengths[0] == lengths[1]
