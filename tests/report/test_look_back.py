import numpy as np
import pytest
import torch

from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.recorders.none import NullRecorder
from mimicpipe.report import look_back
from mimicpipe.report.look_back import play, start_positions
from mimicpipe.report.sample import FAILURES_SHOWN, SHOWN, EpisodeSample, Take, chosen, takes_of_dataset
from mimicpipe.rng import attempt_seeds


def make_env(num_envs):
    return KinematicEnv(StackTask(variant="D1"), num_envs)


def actions_for(env, seed, steps):
    noise = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (steps, env.action_dim)))
    return noise.to(torch.float32)


def recorded(seeds, lengths):
    """Takes of random episodes, and the last states that they came to when they were first played."""
    env, takes, ends = make_env(1), [], []
    for number, (seed, length) in enumerate(zip(seeds, lengths, strict=True)):
        env.reset(env.all_ids(), np.array([seed]))
        take = Take(number, True, "success", env.get_state()[0].clone(), actions_for(env, seed, length))
        for action in take.actions:
            env.step(action[None])
        takes.append(take)
        ends.append(env.get_state()[0].numpy().copy())
    return takes, ends


@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_an_episode_is_played_as_it_was(num_envs):
    takes, ends = recorded([3, 4, 5], [6, 1, 9])
    played = play(make_env(num_envs), takes, 60.0)
    assert [episode.frames for episode in played] == [7, 2, 10]
    for episode, end in zip(played, ends, strict=True):
        assert np.array_equal(episode.states[0], episode.take.initial_state.numpy())
        assert np.array_equal(episode.states[-1], end)
        assert {len(path) for path in (*episode.eefs.values(), *episode.objects.values())} == {episode.frames}


def test_no_time_is_a_beginning_only():
    takes, _ = recorded([3], [50])
    (episode,) = play(make_env(1), takes, 0.0)
    assert episode.frames == 1


def test_where_time_runs_out_only_whole_episodes_are_shown(monkeypatch):
    takes, _ = recorded([3, 4, 5], [6, 30, 9])
    env, now = make_env(2), [0.0]
    monkeypatch.setattr(look_back.time, "monotonic", lambda: now[0])
    step = env.step

    def slow(*arguments):
        now[0] += 1.0
        step(*arguments)

    monkeypatch.setattr(env, "step", slow)
    assert [(episode.take.attempt, episode.frames) for episode in play(env, takes, 12.5)] == [(0, 7)]


@pytest.mark.parametrize("num_envs", [1, 3, 16])
def test_objects_start_where_the_attempts_seeds_put_them(num_envs):
    seeds = attempt_seeds(7, range(8)).tolist()
    env = make_env(8)
    env.reset(env.all_ids(), np.array(seeds))
    found = start_positions(make_env(num_envs), seeds, 60.0)
    assert set(found) == {"cubeA", "cubeB"}
    for name, pose in env.get_object_poses().items():
        assert np.array_equal(found[name].astype(np.float32), pose[:, :3, 3].numpy())
    assert start_positions(make_env(2), [], 60.0)["cubeA"].shape == (0, 3)


def make_sample():
    env = make_env(2)
    run = RunState(env, BudgetLimits(100), RunOptions(), sink=NullRecorder())
    sample = EpisodeSample(run)
    return env, run, sample


def outcome(attempt, success, length=2):
    return Outcome(attempt, attempt % 2, 0, success, "success" if success else "timeout", length)


@pytest.mark.parametrize("order", [range(40), reversed(range(40)), [7 * k % 40 for k in range(40)]])
def test_the_sample_is_the_first_of_each_kind_in_whatever_order_they_finish(order):
    env, run, sample = make_sample()
    assert run.rollout is not None
    run.initial_state = env.get_state()
    for attempt in order:
        slot = attempt % 2
        run.rollout.restart(torch.tensor([slot]))
        for step in range(2):
            run.rollout.append(torch.tensor([slot]), {"action": torch.full((1, env.action_dim), 10.0 * attempt + step)})
        assert run.on_finished is not None
        run.on_finished(slot, outcome(attempt, success=attempt % 4 != 0))
    takes = sample.takes(1000)
    assert [take.attempt for take in takes] == [1, 2, 3, 5, 0, 4, 8, 12]
    for take in takes:
        assert take.actions[:, 0].tolist() == [10.0 * take.attempt, 10.0 * take.attempt + 1]
    assert [take.attempt for take in sample.takes(4)] == [1, 2, 3, 0]


def test_as_many_as_there_are():
    _, _, sample = make_sample()
    assert sample.takes(10) == []
    many = [Take(k, True, "success", torch.zeros(1), torch.zeros(1, 1)) for k in range(20)]
    assert [take.attempt for take in chosen(many)] == list(range(SHOWN))
    failed = [Take(k, False, "timeout", torch.zeros(1), torch.zeros(1, 1)) for k in range(20)]
    assert len(chosen(failed)) == FAILURES_SHOWN


def test_episodes_of_a_dataset_end_as_they_were_recorded(finished_run):
    from mimicpipe.build import build_env
    from mimicpipe.tools.saved_run import dataset_roots, saved_config

    config = saved_config(finished_run)
    roots = dataset_roots(finished_run, config)
    env = build_env(config)
    for root, success in zip(roots, (True, False), strict=True):
        takes = takes_of_dataset(root)
        assert takes
        assert {take.success for take in takes} == {success}
        for episode in play(env, takes, 60.0):
            assert episode.frames == len(episode.take.actions) + 1
            env.set_state(torch.from_numpy(episode.states[-1])[None], torch.tensor([0]))
            assert bool(env.success()[0]) == success or not success
    env.close()
