"""Scenes of env=mujoco to plan in."""

from functools import cache

import numpy as np
import torch

from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.planners.arm import Arm
from mimicpipe.planners.collision import Scenes
from mimicpipe.planners.joint_motion import Settings
from mimicpipe.rng import attempt_seeds

SETTINGS = Settings(
    fps=20, max_speed=0.3, max_turn=2.0, joint_speed=0.5, clearance=0.005, max_iterations=1500, goal_tries=8,
    shortcuts=60, settle_steps=2,
)  # fmt: skip
NOTHING = np.empty((0, 4, 4), dtype=np.float32)


@cache
def env() -> MujocoEnv:
    return MujocoEnv(StackTask(variant="D1"), 1)


def scenes_of(env: MujocoEnv) -> Scenes:
    objects = tuple(item.name for item in env.task.objects)
    return Scenes(env.model, {arm.name: Arm(arm.prefix, arm.base) for arm in env.arms}, objects)


def scene(seed: int) -> None:
    env().reset(env().all_ids(), attempt_seeds(seed, np.arange(1)))


def put(name: str, position) -> None:
    """Move an object, upright."""
    state = env().get_state()
    column = 1 + int(env().model.joint(f"{name}_joint").qposadr[0])
    state[0, column : column + 3] = torch.tensor(position, dtype=torch.float64)
    state[0, column + 3 : column + 7] = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    env().set_state(state)


def request(
    goal, *, gripper: float = 1.0, seed: int = 5, number: int = 0, skill=NOTHING, acts_on=None, later=()
) -> MotionRequest:
    return MotionRequest(
        eef="panda",
        seed=seed,
        number=number,
        start=env().get_robot_eef_pose("panda")[0].numpy(),
        goal=np.asarray(goal, dtype=np.float32),
        gripper=np.array([gripper], dtype=np.float32),
        state=env().get_state()[0].numpy(),
        skill=skill,
        acts_on=acts_on,
        later=later,
    )


def above(name: str, height: float) -> np.ndarray:
    """The hand as it is now, over an object."""
    goal = env().get_robot_eef_pose("panda")[0].double().numpy()
    goal[:3, 3] = env().get_object_poses()[name][0, :3, 3].double().numpy()
    goal[2, 3] += height
    return goal
