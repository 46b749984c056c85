"""What holds for every task that comes with the package, on env=mujoco."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from task_views import at, view

from mimicpipe.datagen.constraints import check_constraints, parse_constraints
from mimicpipe.datagen.subtask import SubTaskConfig, check_subtask_configs
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.envs.tasks.placement import TABLE_CENTRE
from mimicpipe.errors import ConfigError
from mimicpipe.rng import attempt_seeds

CONF = Path(__file__).parents[2] / "conf" / "task"
TASKS = task_classes()
NEW = sorted(set(TASKS) - {"pick", "stack"})
CASES = [(name, variant) for name, cls in TASKS.items() for variant in cls.variants]


def config(name: str) -> dict:
    return yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TASKS)
def test_class_and_yaml_say_the_same(name: str) -> None:
    task, node = TASKS[name](), config(name)
    assert node["_target_"] == f"{type(task).__module__}.{type(task).__name__}"
    assert (node["name"], tuple(node["variants"]), node["needs_contact"]) == (name, task.variants, task.needs_contact)
    assert node["variant"] == task.variant == "D0"
    subtasks = {eef: [SubTaskConfig(**item) for item in items] for eef, items in node["subtasks"].items()}
    check_subtask_configs(subtasks, task.eef_names, task.body_names)
    zero = {item: at(0.0, 0.0, 0.0) for item in task.body_names}
    hands = dict.fromkeys(task.eef_names, zero[task.body_names[0]])
    signals = task.subtask_term_signals(view(zero, hands, 0.0, joints=_joints(name)))
    assert {s.subtask_term_signal for each in subtasks.values() for s in each} - {None} == set(signals)
    starts = task.subtask_start_signals(view(zero, hands, 0.0, joints=_joints(name)))
    assert {s.subtask_start_signal for each in subtasks.values() for s in each} - {None} == set(starts)
    refs = {eef: [s.object_ref for s in each] for eef, each in subtasks.items()}
    check_constraints(parse_constraints(node.get("constraints", [])), refs)
    with pytest.raises(ConfigError, match=r"task.variant=D7: task .* has D0, D1"):
        TASKS[name](variant="D7")


def _joints(name: str) -> dict[str, float]:
    return {part.name: part.start for part in TASKS[name]().parts}


@pytest.mark.parametrize(("name", "variant"), CASES)
@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 2**40), data=st.data())
def test_a_scene_depends_on_its_seed_alone_and_stands_on_the_table(name, variant, seed, data) -> None:
    task = TASKS[name](variant=variant)
    seeds = attempt_seeds(seed, np.arange(20))
    rows = data.draw(st.permutations(range(20)))[: data.draw(st.integers(1, 20))]
    whole, part = task.sample_object_poses(seeds), task.sample_object_poses(seeds[rows])
    assert set(whole) == {body.name for body in (*task.objects, *task.fixtures)}
    for body, pose in whole.items():
        assert torch.equal(pose[rows], part[body])
        assert pose.dtype == torch.float64
        assert (pose[:, 0, 3] - TABLE_CENTRE[0]).abs().max() <= 0.4
        assert (pose[:, 1, 3] - TABLE_CENTRE[1]).abs().max() <= 0.4
        np.testing.assert_allclose(torch.linalg.det(pose[:, :3, :3]), 1.0, atol=1e-9)
    for joint, positions in task.sample_joint_positions(seeds).items():
        low, high = next(item.limits for item in task.parts if item.name == joint)
        assert ((low <= positions) & (positions <= high)).all()


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_scenes_start_at_rest_unsolved_and_without_overlap(name: str, variant: str) -> None:
    """Half a second with the arm held still: nothing moves far, nothing is solved, no signal has risen."""
    env = MujocoEnv(TASKS[name](variant=variant), 8)
    env.reset(env.all_ids(), attempt_seeds(6, np.arange(8)))
    before = env.get_object_poses()
    assert not env.success().any()
    assert not any(signal.any() for signal in env.get_subtask_term_signals().values())
    hold = torch.tensor(([0.0] * 6 + [1.0]) * len(env.eef_names)).expand(8, env.action_dim)
    for _ in range(10):
        env.step(hold)
    for body, pose in env.get_object_poses().items():
        assert (pose[:, :3, 3] - before[body][:, :3, 3]).abs().max().item() < 0.006, body
        assert (pose[:, :3, :3] - before[body][:, :3, :3]).abs().max().item() < 0.12, body
    assert not env.success().any()
    env.close()


@pytest.mark.parametrize("name", NEW)
def test_slots_are_the_same_at_num_envs_1_and_4(name: str) -> None:
    seeds = attempt_seeds(7, np.arange(4))
    four = MujocoEnv(TASKS[name](), 4)
    four.reset(four.all_ids(), seeds)
    one = MujocoEnv(TASKS[name](), 1)
    one.reset(one.all_ids(), seeds[2:3])
    for step in range(20):
        action = torch.tensor([0.3 * math.sin(step), 0.5, -0.8, 0.1, 0.0, 0.2, -1.0 if step > 10 else 1.0])
        action = action.repeat(len(one.eef_names))
        four.step(action.expand(4, one.action_dim))
        one.step(action.expand(1, one.action_dim))
    assert torch.equal(one.get_state()[0], four.get_state()[2])
    for key, value in one.observe().items():
        assert torch.equal(value[0], four.observe()[key][2])
    one.close()
    four.close()


@pytest.mark.parametrize("name", TASKS)
def test_nonsense_is_no_success(name: str) -> None:
    broken = {body: torch.full((1, 4, 4), torch.nan) for body in TASKS[name]().body_names}
    hands = dict.fromkeys(TASKS[name]().eef_names, at(0.5, 0.0, 0.1))
    assert not TASKS[name]().success(view(broken, hands, 0.08, joints=_joints(name))).any()
