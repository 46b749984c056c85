"""A generator of one's own, one action at a time: it steers to the object by feedback, then plays a segment."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.waypoint import RequestPort, WaypointTrajectory, subtask_trajectory
from mimicpipe.pipeline.episode import Attempt

NEAR = 0.01
"""Metres from a segment's first pose at which it is played."""
STRIDE = 0.02
"""Metres a control step, while steering."""
PATIENCE = 80
"""Steps of steering at most."""


class CustomDataGenerator(DataGenerator):
    """For envs with one eef; pool and subtasks are those of `DataGenerator`."""

    async def generate(
        self,
        env_id: int,
        success_term: Any,  # noqa: ARG002 - the pipeline judges
        env_reset_queue: RequestPort,
        env_action_queue: RequestPort,
        *,
        attempt: Attempt,
        **_: Any,
    ) -> dict[str, Any]:
        """Generate one attempt in slot `env_id`."""
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()

        eef = self.env.eef_names[0]
        pool = self.src_demo_datagen_info_pool
        async with pool.asyncio_lock:  # look, then leave: a queue must not be awaited in here
            demo = int(rng.integers([attempt.seed], rng.Stream.SELECTION, 1, 0, pool.num_datagen_infos - 1)[0, 0])
            name, segments = pool.demo_names[demo], self.randomize_subtask_boundaries(attempt.seed)[eef][demo]

        played, sources = 0, []
        for subtask, (begin, end) in enumerate(segments.tolist()):
            trajectory = self._segment(env_id, eef, demo, subtask, (begin, end))
            first = trajectory[0]
            for _step in range(PATIENCE):
                action, distance = self._steer(env_id, eef, first.pose, first.gripper_action)
                if distance < NEAR:
                    break
                await env_action_queue.put((env_id, action))
                await env_action_queue.join()
                played += 1
            result = await self.execute_trajectory(
                env_id, trajectory, env_action_queue, attempt=attempt, first_step=played
            )
            played += result["length"]
            sources.append({"eef": eef, "subtask": subtask, "demo": name})
        return {"source_demos": sources, "metadata": {"planned_by": type(self).__name__}}

    def _segment(self, env_id: int, eef: str, demo: int, subtask: int, segment: tuple[int, int]) -> WaypointTrajectory:
        """A source segment, moved to where the subtask's object is now."""
        slot = torch.tensor([env_id], device=self.env.device)
        config = replace(self.subtask_configs[eef][subtask], num_interpolation_steps=0, num_fixed_steps=0)
        object_pose = None if config.object_ref is None else self.env.get_object_poses(slot)[config.object_ref][0]
        return subtask_trajectory(
            self.src_demo_datagen_info_pool.datagen_infos[demo],
            eef,
            segment,
            config,
            object_pose=object_pose,
            start_pose=self.env.get_robot_eef_pose(eef, slot)[0],
            from_measured_pose=True,
        )

    def _steer(self, env_id: int, eef: str, goal: Tensor, gripper: Tensor) -> tuple[Tensor, float]:
        """The action (A,) of one step towards a pose (4, 4), and how far away that is, metres."""
        slot = torch.tensor([env_id], device=self.env.device)
        pose = self.env.get_robot_eef_pose(eef, slot)
        distance = float(poses.vector_norm(goal[None, :3, 3] - pose[:, :3, 3]))
        part = torch.tensor([min(1.0, STRIDE / max(distance, 1e-6))], device=self.env.device)
        target = poses.interpolate(pose, goal[None].contiguous(), part)
        return self.env.target_eef_pose_to_action({eef: target}, {eef: gripper[None]}, None, slot)[0], distance
