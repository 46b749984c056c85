"""Generates demonstrations: MimicGen's algorithm (Mandlekar et al., CoRL 2023) in Isaac Lab Mimic's words.

One attempt: reset the slot; then, for each subtask, take a segment of a source demo, move it with the subtask's object,
and play it after an interpolation. `generate` asks for all of it with one `put` and one `join`; the planner plans each
segment when the one before has been played, for all slots that are there at the same time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.noise import unit_noise
from mimicpipe.datagen.planner import SubtaskPlanner
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.pose_noise import PoseNoise
from mimicpipe.datagen.requests import Ints, SegmentTable
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.subtask import DataGenConfig, SubtaskConfigs
from mimicpipe.datagen.waypoint import RequestPort, WaypointTrajectory
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.protocol import Plan
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.rng import Seeds

Trajectory = WaypointTrajectory | Plan | Mapping[str, WaypointTrajectory]
"""What `execute_trajectory` plays: a plan, {eef: trajectory}, or one trajectory where the env has one eef."""


class DataGenerator:
    """Generates one attempt in one slot; all slots share it.

    Args:
        env: the simulator.
        src_demo_datagen_info_pool: source demos.
        subtask_configs: {eef: its subtasks}; None is the pool's. They must be those the pool was cut with.
        datagen_cfg: how segments are chosen and joined; None is the default.
        task_constraint_configs: which subtasks of several eefs wait for each other or move together.
        pose_noise: errors of the objects' poses that the generator sees; the fields of `PoseNoise`, None is no error.
    """

    def __init__(
        self,
        env: MimicSim,
        src_demo_datagen_info_pool: DataGenInfoPool,
        subtask_configs: SubtaskConfigs | None = None,
        datagen_cfg: DataGenConfig | None = None,
        task_constraint_configs: Sequence[SubTaskConstraintConfig] = (),
        pose_noise: Mapping[str, float] | None = None,
    ) -> None:
        pool = src_demo_datagen_info_pool
        if subtask_configs is not None:
            given = {eef: tuple(configs) for eef, configs in subtask_configs.items()}
            if given != pool.subtask_configs:
                raise ConfigError("task.subtasks: the pool's demos were cut with other subtasks; give both the same")
        self.env = env
        self.src_demo_datagen_info_pool = pool
        self.subtask_configs = pool.subtask_configs
        self.datagen_cfg = datagen_cfg or DataGenConfig()
        self.task_constraint_configs = tuple(task_constraint_configs)
        noise = PoseNoise(**(pose_noise or {}))
        self.planner = SubtaskPlanner(env, pool, self.datagen_cfg, self.task_constraint_configs, noise)

    async def generate(
        self,
        env_id: int,
        success_term: Any,  # noqa: ARG002 - the pipeline judges; generators that step one by one read it
        env_reset_queue: RequestPort,
        env_action_queue: RequestPort,
        *,
        attempt: Attempt,
        visible: int | None = None,
        run: RunState | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Generate one attempt.

        Args:
            env_id: the slot.
            success_term: not used here.
            env_reset_queue: where the reset is asked for.
            env_action_queue: where segments are asked for.
            attempt: seeds everything that is drawn.
            visible: how many of the pool's demos the attempt may choose from; None is what the pool's `snapshot` says.
            run: the run; its seed is what `balanced` selection orders the demos by.

        Returns:
            "source_demos": [{"eef", "subtask", "demo"}], the demo's name for each segment played, in order.
        """
        pool = self.src_demo_datagen_info_pool
        count = await pool.snapshot(env_id, attempt, run) if visible is None else visible
        request = self.planner.request(attempt.seed, count, attempt.index, 0 if run is None else run.options.seed)
        # The reset is served first. Nothing happens between the two, so there is no need to wait for it.
        await env_reset_queue.put(env_id)
        await env_action_queue.put((env_id, request))
        try:
            await env_action_queue.join()
        finally:
            sources = self._named(request.chosen)
            if run is not None:
                run.used_demos[env_id] = sources
        return {"source_demos": sources}

    @property
    def in_batches(self) -> bool:
        """Whether attempts can be begun by `begin`: `generate` is the one above, and the pool makes nobody wait."""
        snapshot = type(self.src_demo_datagen_info_pool).snapshot
        return type(self).generate is DataGenerator.generate and snapshot is DataGenInfoPool.snapshot

    def begin(self, slots: Ints, attempts: Ints, seeds: Seeds, run: RunState) -> SegmentTable:
        """What `generate` asks for, for attempts (K,) that begin in slots (K,); see `BatchGenerator`."""
        count = self.src_demo_datagen_info_pool.num_datagen_infos
        return self.planner.begin(slots, seeds, count, attempts, run.options.seed)

    def source_demos(self, slots: Ints) -> list[list[dict[str, Any]]]:
        """(K,) what `generate` would return as "source_demos" of the attempts in slots (K,)."""
        return [self._named(chosen) for chosen in self.planner.table.chosen_in(slots)]

    def _named(self, chosen: Sequence[tuple[int, int, int]]) -> list[dict[str, Any]]:
        names, eefs = self.src_demo_datagen_info_pool.demo_names, self.src_demo_datagen_info_pool.eef_names
        return [{"eef": eefs[e], "subtask": s, "demo": names[d]} for e, s, d in chosen]

    async def execute_trajectory(
        self,
        env_id: int,
        trajectory: Trajectory,
        env_action_queue: RequestPort,
        env_reset_queue: RequestPort | None = None,
        *,
        attempt: Attempt | None = None,
        first_step: int = 0,
    ) -> dict[str, Any]:
        """Play a trajectory that is known from start to end, in one request.

        Args:
            env_id: the slot.
            trajectory: what to play; an eef that is done earlier holds its last waypoint.
            env_action_queue: where the plan is put and awaited.
            env_reset_queue: reset the slot first; None plays from where it is.
            attempt: seeds the action noise; needed if a waypoint has any.
            first_step: control steps of the attempt already played; noise goes on from there.

        Returns:
            "source_demos": [], for the caller to fill, and "length": control steps played.
        """
        plan = trajectory if isinstance(trajectory, Plan) else self._plan(trajectory, attempt, first_step)
        if env_reset_queue is not None:
            await env_reset_queue.put(env_id)
            await env_reset_queue.join()
        await env_action_queue.put((env_id, plan))
        await env_action_queue.join()
        return {"source_demos": [], "length": max(target.shape[0] for target in plan.targets.values())}

    def randomize_subtask_boundaries(self, seed: int, visible: int | None = None) -> dict[str, npt.NDArray[np.int64]]:
        """{eef: (D, S, 2)} start and end of each segment of each demo, with the offsets of an attempt.

        Args:
            seed: the attempt's seed.
            visible: how many of the pool's demos; None is all.
        """
        pool = self.src_demo_datagen_info_pool
        count = pool.num_datagen_infos if visible is None else visible
        shifted = {}
        for eef, configs in self.subtask_configs.items():
            numbers = np.arange(len(configs) + 1, dtype=np.int64)
            seeds = np.full(len(numbers), seed, dtype=np.int64)
            at = pool.boundaries[eef].of_first_demos(seeds, numbers, count).T
            shifted[eef] = np.stack((at[:, :-1], at[:, 1:]), axis=-1)
        return shifted

    def _plan(
        self,
        trajectory: WaypointTrajectory | Mapping[str, WaypointTrajectory],
        attempt: Attempt | None,
        first_step: int,
    ) -> Plan:
        eefs = tuple(self.env.eef_names)
        by_eef = {eefs[0]: trajectory} if isinstance(trajectory, WaypointTrajectory) else dict(trajectory)
        if set(by_eef) != set(eefs) or not all(len(each) for each in by_eef.values()):
            raise ValueError(
                f"a trajectory for {', '.join(by_eef)}; every eef of the env needs one with at least one waypoint: "
                f"{', '.join(eefs)}"
            )
        noise: dict[str, torch.Tensor] = {}
        amplitudes = {eef: each.noise().numpy() for eef, each in by_eef.items()}
        if any(amplitude.any() for amplitude in amplitudes.values()):
            if attempt is None:
                raise ValueError("the trajectory has action noise; pass attempt=... to seed it, or set it to 0")
            seeds = np.asarray([attempt.seed], dtype=np.int64)
            for eef, amplitude in amplitudes.items():
                unit = unit_noise(seeds, eefs.index(eef), first_step, len(amplitude), self.env.noise_dim)[0]
                noise[eef] = torch.from_numpy(amplitude[:, None] * unit).to(self.env.device)
        return Plan(
            {eef: each.poses() for eef, each in by_eef.items()},
            {eef: each.gripper_actions() for eef, each in by_eef.items()},
            noise,
        )
