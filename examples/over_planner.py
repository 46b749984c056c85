"""A planner of one's own: straight up, across at a safe height, straight down."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe import poses
from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pipeline.protocol import PlanFailedError


class OverPlanner:
    """Knows no obstacles, only a height above them; so it serves every env.

    Args:
        env: the simulator.
        height: of the way across, metres above the slot's origin.
        ceiling: highest goal that there is a way to, metres.
        speed: of the eef, m/s.
    """

    def __init__(self, env: MimicEnv, height: float = 0.3, ceiling: float = 1.0, speed: float = 0.25) -> None:
        self._height, self._ceiling, self._stride = height, ceiling, speed / env.fps

    async def plan(self, request: MotionRequest) -> npt.NDArray[np.float32]:
        """Target poses (T, 4, 4), one a control step; the last one is the goal."""
        start, goal = request.start, request.goal
        if goal[2, 3] > self._ceiling:
            raise PlanFailedError(f"the goal is {goal[2, 3]:.2f} m high, above ceiling={self._ceiling:g}")
        above_start, above_goal = start.copy(), goal.copy()
        above_start[2, 3], above_goal[2, 3] = (max(self._height, pose[2, 3]) for pose in (start, goal))
        corners = (start, above_start, above_goal, goal)
        return np.concatenate([self._straight(a, b) for a, b in itertools.pairwise(corners)] + [goal[None]])

    def _straight(self, start: npt.NDArray[np.float32], goal: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        steps = max(1, math.ceil(math.dist(start[:3, 3].tolist(), goal[:3, 3].tolist()) / self._stride))
        share = torch.arange(1, steps + 1, dtype=torch.float64) / steps
        ends = (torch.from_numpy(pose).double().expand(steps, 4, 4) for pose in (start, goal))
        return poses.interpolate(*ends, share).float().numpy()

    def close(self) -> None:
        """Nothing to end."""
