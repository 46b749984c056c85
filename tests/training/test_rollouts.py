"""Playing policies through the pipeline: what ends an episode, who is asked when, the same episodes in any batch."""

from dataclasses import replace

import hydra.version
import pytest
import torch
from scripted_policy import CLOSED, PickPolicy

from experiments.harness import compose
from mimicpipe.errors import ConfigError, RequestError
from mimicpipe.rng import attempt_seeds
from mimicpipe.training.rollouts import EvalSettings, build_env, check_fresh, eval_config, evaluate

HOLD = 10
SETTINGS = EvalSettings(episodes=5, max_steps=80)


@pytest.fixture(scope="module")
def config():
    hydra.version.setbase("1.3")
    return compose("env=kinematic", "tracker=none", "recorder=none")


@pytest.fixture(params=[1, 3, 8])
def env(request, config):
    made = build_env(eval_config(config, {"env.num_envs": str(request.param)}))
    yield made
    made.close()


def told(played):
    return [(o.attempt, o.seed, o.success, o.reason, o.length) for o in played.outcomes]


def test_an_episode_ends_when_success_has_held(env):
    policy = PickPolicy()
    played = evaluate(env, policy, HOLD, SETTINGS)
    assert [o.reason for o in played.outcomes] == ["success"] * 5
    assert [o.attempt for o in played.outcomes] == list(range(5))
    assert all(CLOSED + HOLD <= o.length < SETTINGS.max_steps for o in played.outcomes)
    longer = evaluate(env, PickPolicy(), HOLD + 4, SETTINGS)
    assert [o.length for o in longer.outcomes] == [o.length + 4 for o in played.outcomes]


def test_one_call_for_all_slots_and_none_after_the_end(env):
    policy = PickPolicy()
    played = evaluate(env, policy, HOLD, SETTINGS)
    assert all(slots == sorted(set(slots)) for slots, _ in policy.calls)
    assert sum(len(slots) for slots, _ in policy.calls) == sum(o.length for o in played.outcomes)
    if env.num_envs >= SETTINGS.episodes:  # all begin together, so there are no more calls than the longest has steps
        assert len(policy.calls) == max(o.length for o in played.outcomes)


def test_what_is_lost_again_is_no_success(env):
    played = evaluate(env, PickPolicy(lets_go=CLOSED + 9), HOLD, SETTINGS)
    assert [(o.reason, o.length) for o in played.outcomes] == [("success_not_held", SETTINGS.max_steps)] * 5
    summary = played.summary()
    assert (summary["successes"], summary["reasons"]) == (0, {"success_not_held": 5})
    assert summary["wilson_95"][0] == 0.0
    assert summary["mean_length_of_successes"] is None


def test_too_few_steps_are_not_successful(env):
    played = evaluate(env, PickPolicy(), HOLD, replace(SETTINGS, max_steps=CLOSED))
    assert [(o.reason, o.length) for o in played.outcomes] == [("not_successful", CLOSED)] * 5


def test_success_in_the_last_step_counts(config):
    env = build_env(eval_config(config, {"env.num_envs": "2"}))
    try:
        (length,) = {o.length for o in evaluate(env, PickPolicy(), HOLD, replace(SETTINGS, episodes=1)).outcomes}
        at_the_limit = evaluate(env, PickPolicy(), HOLD, replace(SETTINGS, episodes=1, max_steps=length))
        one_less = evaluate(env, PickPolicy(), HOLD, replace(SETTINGS, episodes=1, max_steps=length - 1))
    finally:
        env.close()
    assert [o.reason for o in at_the_limit.outcomes] == ["success"]
    assert [o.reason for o in one_less.outcomes] == ["success_not_held"]


def test_an_action_that_is_not_finite_is_the_policys_error(config):
    class Broken(PickPolicy):
        def act(self, slots, seeds, steps, observations):
            return super().act(slots, seeds, steps, observations) * torch.nan

    env = build_env(eval_config(config, {"env.num_envs": "3"}))
    try:
        with pytest.raises(RequestError, match="not finite"):
            evaluate(env, Broken(), HOLD, SETTINGS)
    finally:
        env.close()


def test_scenes_of_the_data_are_refused():
    with pytest.raises(ConfigError, match="--seed 3: the dataset was generated with this seed"):
        check_fresh(EvalSettings(seed=3), [1, 3], ())
    scene = int(attempt_seeds(7, 41))
    with pytest.raises(ConfigError, match="--seed 7"):
        check_fresh(EvalSettings(episodes=100, seed=7), [3], [scene])
    check_fresh(EvalSettings(episodes=41, seed=7), [3], [scene])  # the 41 scenes before it are new


def test_keys_of_the_simulator_are_checked(config):
    assert eval_config(config, {}).env["num_envs"] == 64
    assert eval_config(config, {"task.variant": "D1"}).task["variant"] == "D1"
    with pytest.raises(ConfigError, match=r"env\.num_envs"):
        eval_config(config, {"env.num_envs": "many"})
