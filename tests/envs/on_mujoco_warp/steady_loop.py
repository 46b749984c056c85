"""The env loop's steady state by itself: every slot plays a plan, nobody thinks, nothing ends."""

import torch

from mimicpipe.envs.base import MimicEnv
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Episode
from mimicpipe.pipeline.loop import EnvLoop
from mimicpipe.pipeline.protocol import Plan
from mimicpipe.pipeline.run_state import RunOptions, RunState


class Kept:
    """A recorder that keeps episodes in memory."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def try_commit(self, episode: Episode) -> bool:
        """Keep it."""
        self.episodes.append(episode)
        return True

    def commit(self, episode: Episode) -> None:
        """Keep it."""
        self.episodes.append(episode)


def steady_loop(env: MimicEnv, steps: int) -> EnvLoop:
    """A loop whose slots have a plan of so many steps: down towards the table, with noise, closing half way."""
    run = RunState(env, BudgetLimits(num_demos=10**6), RunOptions(), sink=Kept())
    loop = EnvLoop(run)
    for slot in range(env.num_envs):
        targets, grippers, noise = {}, {}, {}
        for eef in env.eef_names:
            pose = env.get_robot_eef_pose(eef)[slot]
            targets[eef] = pose.repeat(steps, 1, 1)
            targets[eef][:, 2, 3] -= 0.003 * torch.arange(1, steps + 1, device=env.device)
            grippers[eef] = torch.where(torch.arange(steps, device=env.device) < steps // 2, 1.0, -1.0)[:, None]
            noise[eef] = torch.full((steps, env.noise_dim), 0.01, device=env.device)
        run.playheads.load_plan(slot, Plan(targets, grippers, noise))
    assert run.rollout is not None
    run.rollout.ensure(steps)
    return loop


def play(loop: EnvLoop, steps: int) -> None:
    """So many control steps of all slots."""
    for _ in range(steps):
        with loop.step():
            pass
