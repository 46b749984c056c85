import numpy as np
import pytest
import torch
from example_runs import attempts, episodes

from examples.place_task import MARK, MARK_RADIUS, PlaceTask
from mimicpipe.envs.tasks.base import TaskView
from mimicpipe.errors import ConfigError


@pytest.mark.parametrize("env", ["kinematic", "mujoco"])
def test_it_runs_in_both_envs(run, env):
    folder = run("task=place", f"env={env}", "pool=scripted", "recorder=npz", "num_demos=3", "env.num_envs=4")
    assert sum(row["success"] for row in attempts(folder)) == 3
    recorded = episodes(folder)
    assert len(recorded) == 3
    for episode in recorded:
        cube = episode["observation.environment_state"]
        assert np.linalg.norm(cube[0, :2] - MARK) > 2 * MARK_RADIUS
        assert np.linalg.norm(cube[-1, :2] - MARK) < MARK_RADIUS
        assert episode["action"][-1, -1] >= 0, "the gripper is open"


def test_success_needs_the_mark_the_table_still_and_open_fingers():
    task = PlaceTask("D1")
    pose = task.sample_object_poses(np.arange(5))["cube"]
    speed, width = torch.zeros(5), torch.full((5,), 0.08)
    view = TaskView({"cube": pose}, {"cube": speed}, {"panda": torch.eye(4).expand(5, 4, 4)}, {"panda": width})
    assert not task.success(view).any()
    pose[:, :3, 3] = torch.tensor([*MARK, 0.02])
    assert task.success(view).all()
    pose[0, 0, 3] += 1.1 * MARK_RADIUS
    pose[1, 2, 3] += 0.01
    width[2] = 0.05
    speed[3] = 0.1
    assert task.success(view).tolist() == [False] * 4 + [True]


def test_an_unknown_variant_is_refused():
    with pytest.raises(ConfigError, match="task place has D0, D1"):
        PlaceTask("D2")
