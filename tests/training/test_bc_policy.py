"""The small policy in the simulator: the same episodes at every num_envs, to the last bit."""

from dataclasses import replace

import hydra.version
import pytest
import torch

from experiments.harness import compose
from mimicpipe.training.bc_policy import BcPolicy
from mimicpipe.training.fit import BcSettings
from mimicpipe.training.inputs import InputEncoder
from mimicpipe.training.network import new_layers
from mimicpipe.training.rollouts import EvalSettings, build_env, eval_config, evaluate

SETTINGS = BcSettings(hidden=24, depth=2, chunk=5, executed=3, modes=4)


@pytest.fixture(scope="module")
def config():
    hydra.version.setbase("1.3")
    return compose("env=kinematic", "tracker=none", "recorder=none")


def policy_for(env, settings=SETTINGS, seed=0):
    encoder = InputEncoder({name: feature.names for name, feature in env.observation_features.items()})
    made = new_layers(settings.widths(encoder.width, env.action_dim), [torch.Generator().manual_seed(seed)])
    ones = torch.ones(encoder.width).numpy()
    scale = torch.full((env.action_dim,), 0.2).numpy()
    layers = [(weight[0].numpy(), bias[0, 0].numpy()) for weight, bias in made]
    return BcPolicy(encoder, layers, (0.1 * ones, ones), (0.0 * scale, scale), settings)


class Watched:
    def __init__(self, policy):
        self.policy, self.actions = policy, {}

    def act(self, slots, seeds, steps, observations):
        actions = self.policy.act(slots, seeds, steps, observations)
        for seed, step, action in zip(seeds.tolist(), steps.tolist(), actions, strict=True):
            self.actions[seed, step] = action.numpy().tobytes()
        return actions


def played(config, num_envs, settings=SETTINGS):
    env = build_env(eval_config(config, {"env.num_envs": str(num_envs)}))
    try:
        policy = Watched(policy_for(env, settings))
        evaluate(env, policy, 10, EvalSettings(episodes=6, max_steps=11))
        return policy.actions
    finally:
        env.close()


def test_actions_do_not_depend_on_the_number_of_slots(config):
    one = played(config, 1)
    assert len(one) == 6 * 11
    assert played(config, 4) == one
    assert played(config, 6) == one


def test_a_chunk_is_played_and_then_it_looks_again(config):
    env = build_env(eval_config(config, {"env.num_envs": "2"}))
    try:
        policy = policy_for(env)
        looked = []
        inner = policy._chunks
        policy._chunks = lambda seen, seeds, steps: looked.append(steps.tolist()) or inner(seen, seeds, steps)
        evaluate(env, policy, 10, EvalSettings(episodes=2, max_steps=8))
    finally:
        env.close()
    assert looked == [[0, 0], [3, 3], [6, 6]]


def test_modes_are_drawn_by_the_attempts_numbers(config):
    assert played(config, 2) != played(config, 2, replace(SETTINGS, modes=1))
