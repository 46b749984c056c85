"""A pool of one's own: demos of the pick task that a straight-line expert makes in the run's env."""

import numpy as np
import torch

from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pools.base import ReadResult

OPEN, CLOSE = 1.0, -1.0


class StraightPickPool:
    """Goes above the cube, down, closes, and lifts."""

    def __init__(self, demos: int = 3, height: float = 0.12, max_demos: int | None = None, on_error: str = "raise"):
        self.demos = demos
        self.height = height

    def load(self, env: MimicEnv, subtask_configs: SubtaskConfigs) -> ReadResult:
        return ReadResult([self._demo(env, index) for index in range(self.demos)])

    def _demo(self, env: MimicEnv, index: int) -> SourceDemo:
        slot = torch.tensor([0])
        env.reset(slot, np.array([10_000 + index]))
        cube = env.get_object_poses(slot)["cube"][0, :3, 3].clone()
        above, lifted = cube + torch.tensor([0.0, 0.0, 0.08]), cube + torch.tensor([0.0, 0.0, self.height])
        legs = [(above, OPEN, 12), (cube, OPEN, 8), (cube, CLOSE, 8), (lifted, CLOSE, 12), (lifted, CLOSE, 14)]
        rows: dict[str, list[torch.Tensor]] = {
            name: [] for name in ("eef", "cube", "grasp", "target", "grip", "action")
        }
        state = env.get_state(slot)[0].clone()
        goal = env.get_robot_eef_pose("panda", slot)[0].clone()
        for end, grip, steps in legs:
            start = goal[:3, 3].clone()
            for step in range(1, steps + 1):
                goal = goal.clone()
                goal[:3, 3] = start + (end - start) * step / steps
                action = env.target_eef_pose_to_action(
                    {"panda": goal[None]}, {"panda": torch.tensor([[grip]])}, env_ids=slot
                )
                rows["eef"].append(env.get_robot_eef_pose("panda", slot)[0].clone())
                rows["cube"].append(env.get_object_poses(slot)["cube"][0].clone())
                rows["grasp"].append(env.get_subtask_term_signals(slot)["grasp"][0].clone())
                rows["target"].append(goal)
                rows["grip"].append(torch.tensor([grip]))
                rows["action"].append(action[0].clone())
                env.step(torch.cat([action] * env.num_envs), slot)
        stacked = {name: torch.stack(values) for name, values in rows.items()}
        info = DatagenInfo(
            eef_pose={"panda": stacked["eef"]},
            object_poses={"cube": stacked["cube"]},
            subtask_term_signals={"grasp": stacked["grasp"]},
            target_eef_pose={"panda": stacked["target"]},
            gripper_action={"panda": stacked["grip"]},
        )
        return SourceDemo(f"straight_{index}", info, stacked["action"], initial_state=state)


class LeavingGenerator:
    """A generator that ends the program in the middle of an attempt."""

    async def generate(self, env_id: int, **_others: object) -> dict:
        raise SystemExit(3)
