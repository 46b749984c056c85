"""`planner=linear`: straight to the goal, position and rotation together, whatever is in between."""

import math

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe import poses
from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.envs.base import MimicEnv
from mimicpipe.planners.pacing import fractions, turn_between


class LinearPlanner:
    """Interpolates the eef's pose; it needs no model of anything, so it serves every env.

    Args:
        env: the simulator.
        max_speed: of the eef, m/s.
        max_turn: of the eef, rad/s.
        settle_steps: steps to wait at the goal.
    """

    def __init__(self, env: MimicEnv, max_speed: float = 0.25, max_turn: float = 1.5, settle_steps: int = 2) -> None:
        self._fps = env.fps
        self._max_speed, self._max_turn, self._settle_steps = max_speed, max_turn, settle_steps

    async def plan(self, request: MotionRequest) -> npt.NDArray[np.float32]:
        """See `MotionPlanner.plan`; there is always a way."""
        start, goal = request.start, request.goal
        way = math.dist(start[:3, 3].tolist(), goal[:3, 3].tolist())
        duration = max(way / self._max_speed, turn_between(start[:3, :3], goal[:3, :3]) / self._max_turn)
        share = torch.from_numpy(fractions(duration, self._fps))
        steps = len(share)
        ends = (torch.from_numpy(pose).double().expand(steps, 4, 4) for pose in (start, goal))
        targets = poses.interpolate(*ends, share).float().numpy()
        targets[-1] = goal
        return np.concatenate((targets, np.repeat(goal[None], self._settle_steps, axis=0)))

    def close(self) -> None:
        """Nothing to end."""
