"""`planner=rrt`: ways without collision on env=mujoco, found by RRT-Connect in processes of their own."""

import logging
import os

import numpy as np
import numpy.typing as npt

from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.protocol import PlanFailedError
from mimicpipe.planners.arm import Arm
from mimicpipe.planners.collision import Scenes
from mimicpipe.planners.joint_motion import Settings
from mimicpipe.planners.workers import TooSlowError, Workers

_log = logging.getLogger("mimicpipe")


class RrtPlanner:
    """Plans around what is in the way, the object in the hand included; see `joint_motion` and `collision`.

    A plan is a function of its request: searches are limited by iterations, and the limit in seconds is a last resort,
    for a process that hangs. An attempt that it fails is not the same on another machine, so a warning says so.

    Args:
        env: a MujocoEnv.
        workers: processes; None is one for every two cores.
        max_speed: of the eef, m/s.
        max_turn: of the eef, rad/s.
        joint_speed: share of the joints' own speed limits.
        clearance: distance to keep from everything, metres.
        max_iterations: extensions of the trees until a way counts as not there.
        goal_tries: arm postures to look for at the goal.
        shortcuts: attempts to cut a corner.
        settle_steps: steps to wait at the goal.
        timeout_s: seconds a request may take.

    Raises:
        ConfigError: another env.
    """

    def __init__(
        self,
        env: MimicEnv,
        workers: int | None = None,
        max_speed: float = 0.3,
        max_turn: float = 2.0,
        joint_speed: float = 0.5,
        clearance: float = 0.005,
        max_iterations: int = 600,
        goal_tries: int = 12,
        shortcuts: int = 120,
        settle_steps: int = 2,
        timeout_s: float = 30.0,
    ) -> None:
        if not isinstance(env, MujocoEnv):
            raise ConfigError("planner=rrt: needs the collision model of env=mujoco; use planner=linear with this env")
        scenes = Scenes(
            env.model,
            {arm.name: Arm(arm.prefix, arm.base) for arm in env.arms},
            tuple(item.name for item in env.task.objects),
        )
        settings = Settings(
            env.fps, max_speed, max_turn, joint_speed, clearance, max_iterations, goal_tries, shortcuts, settle_steps
        )
        self._timeout_s = timeout_s
        count = workers or max(1, len(os.sched_getaffinity(0)) // 2)
        self.workers = Workers(min(count, env.num_envs), (scenes, settings), timeout_s)

    async def plan(self, request: MotionRequest) -> npt.NDArray[np.float32]:
        """See `MotionPlanner.plan`.

        Raises:
            PlanFailedError: there is no way, none was found, or it took too long.
            WorkerLostError: two processes have died over this request.
            RuntimeError: a process has raised something; with its traceback.
        """
        try:
            kind, content = await self.workers.ask(request)
        except TooSlowError:
            message = (
                f"planning took longer than planner.timeout_s={self._timeout_s:g}; another machine may find a way, so "
                "this attempt is not reproducible: raise the limit, or lower planner.max_iterations"
            )
            _log.warning("attempt with seed %d: %s", request.seed, message)
            raise PlanFailedError(message) from None
        if kind == "no way":
            raise PlanFailedError(content)
        if kind == "error":
            raise RuntimeError(f"a planner process has failed\n{content}")
        return content

    def close(self) -> None:
        """End the processes; requests in progress are given up."""
        self.workers.close()
