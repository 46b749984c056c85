"""Several control steps in one go: the bits of single steps, whatever the env, the scene and the control."""

import numpy as np
import pytest
import torch

from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.pipeline.protocol import Waypoints
from mimicpipe.rng import attempt_seeds

SLOTS = np.array([3, 0, 4])  # slot 3 takes more steps than slot 4; 1 and 2 stand still
SIZES = [3, 3, 2, 1]
MUJOCO = [
    (MujocoEnv, "pick", {}),
    (MujocoEnv, "stack", {"control": "ik_abs"}),
    (MujocoEnv, "drawer_cleanup", {}),
    (MujocoEnv, "bimanual_threading", {}),
]
ALL = [*MUJOCO, (KinematicEnv, "pick", {}), (KinematicEnv, "stack", {"lag": 0.3})]


def name_of(scene):
    env_class, task, arguments = scene
    return "-".join([env_class.__name__, task, *map(str, arguments.values())])


@pytest.fixture(scope="module", params=ALL, ids=name_of)
def envs(request):
    """Two of the same kind."""
    env_class, task, arguments = request.param
    made = [env_class(task_classes()[task](), 5, **arguments) for _ in range(2)]
    yield made
    for env in made:
        env.close()


only_mujoco = pytest.mark.parametrize("envs", MUJOCO, ids=name_of, indirect=True, scope="module")


def waypoints_of(env, noisy):
    """Targets a little off each slot's own pose, and more so with each step; rows as `start_stretch` takes them."""
    generator = torch.Generator().manual_seed(0)
    rows = np.concatenate([SLOTS[:size] for size in SIZES])
    steps = torch.from_numpy(np.repeat(np.arange(len(SIZES)), SIZES))
    targets, grippers, noise = {}, {}, {}
    for eef in env.eef_names:
        targets[eef] = env.get_robot_eef_pose(eef)[rows]
        targets[eef][:, 2, 3] -= 0.01 * (1 + steps) * torch.rand(len(rows), generator=generator)
        grippers[eef] = torch.where(torch.rand(len(rows), 1, generator=generator) < 0.5, -1.0, 1.0)
        noise[eef] = 0.05 * torch.randn(len(rows), 6, generator=generator)
    return targets, grippers, noise if noisy else None


@pytest.mark.parametrize("noisy", [False, True])
def test_a_stretch_is_its_steps(envs, noisy):
    ahead, by_step = envs
    for env in envs:
        env.reset(env.all_ids(), attempt_seeds(7, range(5)))
    targets, grippers, noise = waypoints_of(ahead, noisy)
    at_rest = ahead.get_state()
    end = ahead.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, noise))
    assert torch.equal(ahead.get_state(), at_rest), "the states before are shown until it is over"
    met = end()

    seen, success = met.observe(), met.success()
    first = 0
    for size in SIZES:
        rows, slots = slice(first, first + size), torch.from_numpy(SLOTS[:size])
        part = [{eef: value[rows] for eef, value in given.items()} for given in (targets, grippers, noise or {})]
        action = by_step.target_eef_pose_to_action(part[0], part[1], part[2] or None, slots)
        assert torch.equal(met.actions[rows], action)
        for name, value in by_step.observe(slots).items():
            assert torch.equal(seen[name][rows], value), name
        ids = slots.sort().values
        by_step.step(torch.zeros(5, by_step.action_dim).index_copy(0, slots, action), ids)
        assert torch.equal(success[rows], by_step.success()[slots])
        first += size
    assert torch.equal(ahead.get_state(), by_step.get_state())
    for eef in ahead.eef_names:
        assert torch.equal(ahead.get_robot_eef_pose(eef), by_step.get_robot_eef_pose(eef))


def test_resting_slots_may_be_reset_and_looked_at_meanwhile(envs):
    ahead, other = envs
    for env in envs:
        env.reset(env.all_ids(), attempt_seeds(8, range(5)))
    targets, grippers, _ = waypoints_of(ahead, noisy=False)
    resting = torch.tensor([1, 2])
    end = ahead.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))
    ahead.reset(resting, attempt_seeds(9, range(2)))
    shown = ahead.get_object_poses(resting)
    end()
    other.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))()
    other.reset(resting, attempt_seeds(9, range(2)))
    assert torch.equal(ahead.get_state(), other.get_state())
    for name, pose in other.get_object_poses(resting).items():
        assert torch.equal(shown[name], pose)


@only_mujoco
def test_a_slot_that_has_diverged_stays_alone_and_an_impossible_target_is_named(envs):
    env = envs[0]
    env.reset(env.all_ids(), attempt_seeds(7, range(5)))
    targets, grippers, _ = waypoints_of(env, noisy=False)
    expected = env.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))().observe()

    env.reset(env.all_ids(), attempt_seeds(7, range(5)))
    state = env.get_state()
    state[0, 1] = float("nan")
    env.set_state(state)
    seen = env.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))().observe()
    others = np.concatenate([SLOTS[:size] for size in SIZES]) != 0
    for name, value in expected.items():
        assert torch.equal(seen[name][others], value[others]), name
    assert env.finite().tolist() == [False, True, True, True, True]

    env.reset(env.all_ids(), attempt_seeds(7, range(5)))
    eef = env.eef_names[0]
    targets[eef][-1, 0, 3] = float("nan")
    with pytest.raises(ValueError, match="action of slot 3 asks for no finite motion"):
        env.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))()


@only_mujoco
def test_every_thread_ends_its_share_whatever_another_meets(envs):
    env = envs[0]
    env.reset(env.all_ids(), attempt_seeds(7, range(5)))
    targets, grippers, _ = waypoints_of(env, noisy=False)
    targets[env.eef_names[0]][0, 0, 3] = float("nan")  # of the slot that stands first, in the first step
    end = env.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))
    with pytest.raises(RuntimeError, match="end it before the next"):
        env.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))
    with pytest.raises(ValueError, match="action of slot 3 asks for no finite motion"):
        end()
    targets, grippers, _ = waypoints_of(env, noisy=False)
    assert env.start_stretch(SLOTS, SIZES, lambda: Waypoints(targets, grippers, None))().actions.isfinite().all()


def test_who_looks_at_every_step_gets_every_step(envs):
    env_class = type(envs[0])

    class Watched(env_class):
        """May change what a step is."""

    assert envs[0].longest_stretch > 1
    made = Watched(task_classes()["pick"](), 2)
    assert made.longest_stretch == 1
    made.close()
