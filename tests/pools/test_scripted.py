"""The scripted experts: they succeed, vary, are the same at every num_envs, and record what happened."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.datagen.checks import check_info, rising_edge
from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.base import TaskView
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.experts import Move, Scene, draw_habits, grasp, place, stay
from mimicpipe.pools.script_player import ScriptPlayer
from mimicpipe.pools.scripted import (
    HOLD_STEPS,
    ScriptedPool,
    collect_scripted_demos,
    expert_for,
    load_scripted,
    perform,
)
from mimicpipe.pools.scripts import expert_names

EEF = "panda"
TASKS = {"pick": PickTask, "stack": StackTask}
# D1's scenes are drawn from a wider region, which contains that of D0.
VARIANTS = pytest.mark.parametrize("variant", [pytest.param("D0", marks=pytest.mark.slow), "D1"])


def _seeds(count: int, run_seed: int = 3) -> rng.Seeds:
    return rng.attempt_seeds(run_seed, np.arange(count))


def _tensors(demo: SourceDemo) -> dict[str, Tensor]:
    """Everything recorded, flat."""
    info = demo.info
    assert demo.initial_state is not None
    flat = {"actions": demo.actions, "initial_state": demo.initial_state, **demo.observations}
    for group in ("eef_pose", "object_poses", "target_eef_pose", "gripper_action", "subtask_term_signals"):
        flat |= {f"{group}/{name}": value for name, value in getattr(info, group).items()}
    return flat


def _same(a: SourceDemo, b: SourceDemo) -> bool:
    left, right = _tensors(a), _tensors(b)
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


# -- success


@VARIANTS
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    "kwargs", [{"lag": 0.4}, *(pytest.param(k, marks=pytest.mark.slow) for k in ({}, {"control": "ik_abs"}))]
)
def test_experts_succeed_without_physics(name: str, variant: str, kwargs: dict[str, Any]) -> None:
    env = KinematicEnv(TASKS[name](variant), 60, **kwargs)
    demos = perform(env, expert_for(env), _seeds(60))
    assert all(demo.success for demo in demos)
    lengths = [demo.info.length for demo in demos]
    assert min(lengths) > 50
    assert 70 < np.mean(lengths) < 170


@VARIANTS
@pytest.mark.parametrize("name", TASKS)
def test_experts_succeed_with_physics(name: str, variant: str) -> None:
    env = MujocoEnv(TASKS[name](variant), 24)
    demos = perform(env, expert_for(env), _seeds(24))
    env.close()
    assert sum(demo.success for demo in demos) >= 23


# -- what is recorded


@pytest.mark.parametrize("name", TASKS)
def test_replayed_actions_lead_through_the_recorded_poses(name: str) -> None:
    env = KinematicEnv(TASKS[name](), 4)
    demos = collect_scripted_demos(env, 2, seed=0, observations=True).demos
    for demo in demos:
        check_info(demo.info, demo.name, demo.actions.shape[0])
        assert demo.initial_state is not None
        env.set_state(demo.initial_state[None], torch.tensor([1]))
        held = 0
        for step in range(demo.info.length):
            for key, value in env.observe(torch.tensor([1])).items():
                assert torch.equal(value[0], demo.observations[key][step])
            assert torch.equal(env.get_robot_eef_pose(EEF)[1], demo.info.eef_pose[EEF][step])
            for box, pose in env.get_object_poses().items():
                assert torch.equal(pose[1], demo.info.object_poses[box][step])
            for signal, value in env.get_subtask_term_signals().items():
                assert bool(value[1]) == bool(demo.info.subtask_term_signals[signal][step])
            action = demo.actions[step].expand(4, -1)
            target = env.action_to_target_eef_pose(action)[EEF][1]
            assert torch.equal(target, demo.info.target_eef_pose[EEF][step])
            assert torch.equal(demo.info.gripper_action[EEF][step], demo.actions[step, 6:])
            env.step(action, torch.tensor([1]))
            held = held + 1 if bool(env.success()[1]) else 0
        assert held >= HOLD_STEPS


def test_signals_rise_once_the_cube_is_off_the_table() -> None:
    env = KinematicEnv(StackTask(), 5)
    for demo in load_scripted(env, 5, seed=1):
        first = rising_edge(demo.info.subtask_term_signals["grasp"], demo.name)
        height = demo.info.object_poses["cubeA"][:, 2, 3]
        assert height[first].item() > 0.025
        assert height[:first].max().item() < 0.031
        assert demo.info.gripper_action[EEF][first].item() == GRIPPER_CLOSE


def test_demos_without_observations_have_none() -> None:
    demos = load_scripted(KinematicEnv(PickTask(), 2), 2, seed=0)
    assert [demo.name for demo in demos] == ["demo_0", "demo_1"]
    assert all(not demo.observations for demo in demos)


# -- determinism and variation


@pytest.mark.parametrize("env_type", [KinematicEnv, MujocoEnv])
def test_demos_are_the_same_at_every_num_envs(env_type: type[KinematicEnv] | type[MujocoEnv]) -> None:
    collections = []
    for num_envs in (1, 7):
        env = env_type(StackTask("D1"), num_envs)
        collections.append(collect_scripted_demos(env, 3, seed=5, observations=True))
        env.close()
    first = collections[0]
    for other in collections[1:]:
        assert other.seeds == first.seeds
        assert other.tried == first.tried
        assert all(_same(a, b) for a, b in zip(first.demos, other.demos, strict=True))


def test_other_seeds_are_other_demos() -> None:
    env = KinematicEnv(PickTask(), 3)
    a, b = load_scripted(env, 3, seed=0), load_scripted(env, 3, seed=1)
    assert not any(_same(x, y) for x in a for y in (*b, *(z for z in a if z is not x)))


def test_demos_never_share_a_scene_with_the_runs_attempts() -> None:
    env = KinematicEnv(PickTask(), 8)
    seeds = collect_scripted_demos(env, 8, seed=0).seeds
    assert not set(seeds) & set(rng.attempt_seeds(0, np.arange(100_000)).tolist())


def test_habits_vary_between_demos_of_one_scene() -> None:
    """Same cube, other habits: the way to it, its speed and the pauses differ as a person's would."""
    env = KinematicEnv(PickTask(), 1)
    env.reset(env.all_ids(), _seeds(1))
    state = env.get_state()
    lengths, tops = set(), []
    for habit_seed in _seeds(8, run_seed=9):
        env.set_state(state)
        player = ScriptPlayer(expert_for(env)[EEF], np.array([habit_seed]), HOLD_STEPS, 20, env.get_robot_eef_pose(EEF))
        for step in range(300):
            command = player.act(env.get_robot_eef_pose(EEF), env.get_object_poses())
            if bool(player.done.all()):
                lengths.add(step)
                break
            env.step(env.target_eef_pose_to_action({EEF: command.target}, {EEF: command.gripper}))
        assert env.success().all()
        tops.append(env.get_object_poses()["cube"][0, 2, 3].item())
    assert len(lengths) >= 5
    assert max(tops) - min(tops) > 0.01


def test_targets_move_smoothly() -> None:
    env = KinematicEnv(StackTask("D1"), 20)
    for demo in load_scripted(env, 20, seed=2):
        target = demo.info.target_eef_pose[EEF][:, :3, 3]
        speed = poses.vector_norm(target[1:] - target[:-1])[:, 0]
        assert speed.max().item() < 0.04  # 0.8 m/s: no jumps, far from the clip of 0.05 a step
        assert (speed[1:] - speed[:-1]).abs().max().item() < 0.012


# -- goals


def _pose(x: float, y: float, z: float, yaw: float) -> Tensor:
    rot = poses.matrix_from_axis_angle(torch.tensor([[0.0, 0.0, yaw]]))
    return poses.make_pose(torch.tensor([[x, y, z]]), rot)


def _scene(**objects: Tensor) -> Scene:
    eef = poses.make_pose(torch.tensor([[0.4, 0.0, 0.3]]), torch.diag(torch.tensor([1.0, -1.0, -1.0]))[None])
    return Scene(eef, eef, objects)


CUBE_A, CUBE_B = StackTask().objects


@pytest.mark.parametrize("quarter", [0, 1, 2, 3])
@pytest.mark.parametrize("yaw", [-0.7, -0.2, 0.0, 0.4, 0.78])
def test_grasp_takes_the_nearest_of_the_cubes_symmetric_yaws(quarter: int, yaw: float) -> None:
    scene = _scene(cubeA=_pose(0.5, 0.1, 0.02, yaw + quarter * np.pi / 2))
    goal = grasp(CUBE_A)(scene, draw_habits(_seeds(1), torch.device("cpu")))
    x_axis = goal[0, :3, 0]
    torch.testing.assert_close(x_axis, torch.tensor([np.cos(yaw), np.sin(yaw), 0.0]).float(), atol=1e-5, rtol=0)
    assert goal[0, 2, 2].item() == -1.0
    assert (goal[0, :3, 3] - torch.tensor([0.5, 0.1, 0.02])).norm().item() < 0.011


def test_grasp_turns_where_a_neighbour_leaves_the_fingers_no_room() -> None:
    habits = draw_habits(_seeds(1), torch.device("cpu"))
    # Fingers open along y: a cube at its side there is in their way, one along x is not.
    beside = _scene(cubeA=_pose(0.5, 0.0, 0.02, 0.0), cubeB=_pose(0.5, 0.065, 0.025, 0.0))
    ahead = _scene(cubeA=_pose(0.5, 0.0, 0.02, 0.0), cubeB=_pose(0.565, 0.0, 0.025, 0.0))
    assert abs(grasp(CUBE_A, (CUBE_B,))(beside, habits)[0, 0, 0].item()) < 1e-6
    assert grasp(CUBE_A, (CUBE_B,))(ahead, habits)[0, 0, 0].item() == 1.0


def test_place_makes_up_for_how_the_cube_lies_in_the_hand() -> None:
    scene = _scene(cubeA=_pose(0.405, 0.003, 0.304, 0.1), cubeB=_pose(0.6, -0.1, 0.025, 0.3))
    goal = place(CUBE_A, CUBE_B)(scene, draw_habits(_seeds(1), torch.device("cpu")))
    in_hand = poses.compose(poses.invert(scene.eef), scene.objects["cubeA"])
    carried = poses.compose(goal, in_hand)[0, :3, 3]
    torch.testing.assert_close(carried, torch.tensor([0.6, -0.1, 0.072]), atol=1e-6, rtol=0)


def test_a_script_waits_for_a_late_arm_but_not_for_ever() -> None:
    moves = (Move(grasp(CUBE_A), GRIPPER_OPEN, pause=(2, 2)), Move(stay, GRIPPER_CLOSE, pause=(0, 0)))
    scene = _scene(cubeA=_pose(0.41, 0.0, 0.29, 0.0))
    player = ScriptPlayer(moves, _seeds(1), 0, 20, scene.eef)
    grippers = []
    while not bool(player.done.all()):
        command = player.act(scene.eef, dict(scene.objects))  # an arm that never moves
        grippers.append(command.gripper.item())
        assert len(grippers) < 100
    assert grippers.count(GRIPPER_OPEN) > 20
    assert grippers[-2] == GRIPPER_CLOSE


# -- refusals


class _Unknown(PickTask):
    name = "juggle"


class _Impossible(PickTask):
    def success(self, view: TaskView) -> Tensor:
        return torch.zeros_like(super().success(view))


def test_an_expert_is_looked_up_by_task() -> None:
    assert set(expert_names()) >= set(task_classes())  # an example registers one of its own
    with pytest.raises(ConfigError, match=r"no expert for task juggle; there are .*pick, .*stack"):
        load_scripted(KinematicEnv(_Unknown(), 1), 1, seed=0)
    env = KinematicEnv(PickTask(), 1)
    del env.task
    with pytest.raises(ConfigError, match=r"does not say what its task is"):
        load_scripted(env, 1, seed=0)


def test_an_expert_that_fails_is_given_up_with_its_count() -> None:
    with pytest.raises(SourceDemoError, match=r"succeeded in 0 of 5 scenes; 1 demos were asked for"):
        load_scripted(KinematicEnv(_Impossible(), 4), 1, seed=0)


def test_pool_takes_at_most_max_demos_and_checks_signals() -> None:
    env = KinematicEnv(PickTask(), 4)
    subtasks = {EEF: [SubTaskConfig(object_ref="cube", subtask_term_signal="grasp"), SubTaskConfig(object_ref="cube")]}
    assert len(ScriptedPool(num_demos=3, seed=0, max_demos=2).load(env, subtasks).demos) == 2
    wrong = {EEF: [SubTaskConfig(object_ref="cube", subtask_term_signal="stir"), SubTaskConfig(object_ref="cube")]}
    with pytest.raises(SourceDemoError, match=r"no signal stir.*it has grasp"):
        ScriptedPool(num_demos=1).load(env, wrong)
