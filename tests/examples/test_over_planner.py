import pytest
from example_runs import assert_same_episodes, attempts

OVER = ["generator=skillgen", "planner=over", "recorder=npz", "preview=false"]


@pytest.mark.parametrize("env", ["kinematic", "mujoco"])
def test_it_leads_to_the_skills_of_either_env(run, env):
    rows = attempts(run(*OVER, f"env={env}", "task=pick", "num_demos=4", "env.num_envs=4", "max_attempts=5"))
    assert sum(row["success"] for row in rows) >= 4


def test_num_envs_changes_nothing(run):
    assert_same_episodes(*(run(*OVER, "env=kinematic", "num_demos=4", f"env.num_envs={n}") for n in (1, 4)))


def test_a_goal_above_its_ceiling_is_a_failed_plan_that_says_so(run):
    rows = attempts(run(*OVER, "env=kinematic", "planner.ceiling=0.01", "max_attempts=2", "num_demos=2"))
    assert [row["reason"] for row in rows] == ["plan_failed"] * 2
    assert all(row["detail"].endswith("above ceiling=0.01") for row in rows)
