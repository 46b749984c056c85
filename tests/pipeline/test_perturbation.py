"""Perturbed execution: what is executed, what is recorded, and that both are functions of the attempt alone."""

import asyncio
from collections import defaultdict

import numpy as np
import pytest
import torch
from generators import MemorySink, PlanGenerator, StepGenerator
from hypothesis import given, settings
from hypothesis import strategies as st
from point_env import PointEnv

from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.perturbation import Perturbation, PerturbationConfig
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.rng import attempt_seeds

OFTEN = PerturbationConfig(probability=0.8, window=10, steps=(2, 4), scale=0.05)


class TapedEnv(PointEnv):
    """Remembers what was executed, by the attempt's seed."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.tape: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        self.seed_of: dict[int, int] = {}

    def reset(self, env_ids, seeds) -> None:
        super().reset(env_ids, seeds)
        self.seed_of.update(zip(env_ids.tolist(), np.asarray(seeds).tolist(), strict=True))

    def step(self, actions, env_ids=None) -> None:
        for slot in range(self.num_envs) if env_ids is None else env_ids.tolist():
            self.tape[self.seed_of[slot]].append(actions[slot].clone())
        super().step(actions, env_ids)


def run(num_envs: int, config: PerturbationConfig | None, kind=PlanGenerator) -> tuple[TapedEnv, list[Episode]]:
    env, sink = TapedEnv(num_envs), MemorySink()

    async def main() -> None:
        limits, options = BudgetLimits(10**6, max_attempts=12), RunOptions(stall_timeout_s=50.0)
        state = RunState(env, limits, options, sink=sink, failed_sink=sink, perturbation=config)
        await generate(state, kind(env))

    asyncio.run(main())
    return env, sink.episodes


@pytest.mark.parametrize("kind", [PlanGenerator, StepGenerator])
def test_the_clean_action_is_recorded_and_the_disturbed_one_executed(kind) -> None:
    env, episodes = run(3, OFTEN, kind)
    disturbed_steps, all_steps = 0, 0
    for episode in episodes:
        recorded, executed = episode.columns["action"], torch.stack(env.tape[episode.outcome.seed])
        assert recorded.shape == executed.shape
        state = episode.columns["observation.state"]
        # The recorded action leads to the goal from wherever the point is, also from beside its course.
        if kind is StepGenerator or episode.outcome.attempt % 3 != 2:
            torch.testing.assert_close(recorded[:, :3], state[:, 3:6] - state[:, :3], rtol=0, atol=1e-6)
        apart = (executed - recorded)[:, :3].abs().amax(dim=1) > 1e-6
        perturbation = Perturbation(env, OFTEN)
        steps = np.arange(len(recorded))
        rows, noise = perturbation.directions(np.full(len(steps), episode.outcome.seed), steps)
        assert apart.nonzero().flatten().tolist() == rows.tolist()
        torch.testing.assert_close((executed - recorded)[rows, :3], torch.from_numpy(noise), rtol=0, atol=1e-6)
        assert torch.equal(executed[:, 3], recorded[:, 3])
        disturbed_steps, all_steps = disturbed_steps + len(rows), all_steps + len(steps)
    assert 0.1 < disturbed_steps / all_steps < 0.4
    assert any(episode.outcome.success for episode in episodes)


@pytest.mark.parametrize("num_envs", [4, 12])
def test_the_same_bits_at_every_num_envs(num_envs: int) -> None:
    for one, other in zip(run(1, OFTEN)[1], run(num_envs, OFTEN)[1], strict=True):
        assert one.outcome.success == other.outcome.success
        assert all(torch.equal(one.columns[name], other.columns[name]) for name in one.columns)


def test_no_probability_is_no_perturbation() -> None:
    assert RunState(PointEnv(1), BudgetLimits(1), RunOptions(), perturbation=PerturbationConfig()).perturbation is None
    for one, other in zip(run(2, None)[1], run(2, PerturbationConfig())[1], strict=True):
        assert all(torch.equal(one.columns[name], other.columns[name]) for name in one.columns)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.integers(0, 2**62), st.integers(1, 30), st.data())
def test_a_window_has_one_disturbance_in_one_direction(seed: int, window: int, data: st.DataObject) -> None:
    low = data.draw(st.integers(1, window))
    high = data.draw(st.integers(low, window))
    config = PerturbationConfig(probability=1.0, window=window, steps=(low, high), scale=1.0)
    steps, seeds = np.arange(4 * window), np.full(4 * window, attempt_seeds(seed, 0))
    rows, noise = Perturbation(PointEnv(1), config).directions(seeds, steps)
    for number in range(4):
        inside = (rows // window) == number
        assert low <= inside.sum() <= high
        assert (np.diff(rows[inside]) == 1).all()
        assert (noise[inside] == noise[inside][:1]).all()
    alone = [Perturbation(PointEnv(1), config).directions(seeds[:1], steps[k : k + 1]) for k in range(4 * window)]
    assert [k for k in range(4 * window) if len(alone[k][0])] == rows.tolist()
    assert np.array_equal(np.concatenate([found[1] for found in alone]), noise)
