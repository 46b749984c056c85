"""Generators and a sink that pipeline tests share."""

import torch

from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Attempt, Episode, Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.protocol import Plan
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.poses import make_pose


class MemorySink:
    """Keeps committed episodes."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def try_commit(self, episode: Episode) -> bool:
        self.commit(episode)
        return True

    def commit(self, episode: Episode) -> None:
        self.episodes.append(episode)


class PlanGenerator:
    """Plans straight to the goal in one request and stays; every third attempt aims beside it."""

    def __init__(self, env, steps: int = 30, fail_every: int = 3) -> None:
        self.env, self.steps, self.fail_every = env, steps, fail_every

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt: Attempt):
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        goal = self.env.get_object_poses(torch.tensor([env_id]))["goal"]
        if attempt.index % self.fail_every == self.fail_every - 1:
            goal = goal + make_pose(torch.tensor([[0.3, 0.0, 0.0]]), torch.zeros(3, 3))
        # Attempts of different lengths, so that slots finish out of order.
        steps = self.steps + attempt.index % 5
        plan = Plan({"point": goal.expand(steps, 4, 4)}, {"point": torch.ones(steps, 1)})
        await env_action_queue.put((env_id, plan))
        await env_action_queue.join()
        return {"source_demos": [{"eef": "point", "subtask": 0, "demo": 0}]}


class StepGenerator:
    """The style of Isaac Lab Mimic: one action at a time, computed from the latest observation."""

    def __init__(self, env) -> None:
        self.env = env

    async def generate(self, env_id, success_term, env_reset_queue, env_action_queue, **kwargs):
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        for _ in range(30):
            state = self.env.obs_buf["observation.state"][env_id]
            action = torch.cat((state[3:6] - state[:3], torch.ones(1)))
            await env_action_queue.put((env_id, action))
            await env_action_queue.join()


async def run_to_end(env, generator, *, num_demos=10, options=None, sink=None, failed_sink=None, **limits):
    """Run a generator on an env; returns (state, outcomes, stop reason)."""
    outcomes: list[Outcome] = []
    run = RunState(
        env,
        BudgetLimits(num_demos, **limits),
        options or RunOptions(stall_timeout_s=50.0),  # on a busy machine Numba alone takes 20 s, the first time
        sink=sink,
        failed_sink=failed_sink,
        on_outcome=outcomes.append,
    )
    reason = await generate(run, generator)
    return run, outcomes, reason
