"""Generates demonstrations from skills: SkillMimicGen (Garrett et al., "SkillMimicGen", CoRL 2024).

One attempt: reset the slot; then, for each subtask, choose a source demo, move its skill with the subtask's object,
plan a free way to where the skill begins, and play both. While a way is planned the slot is away: its scene stands
still, and the others go on.

    reset ──► choose demo ──► skill, moved with its object ──► way to its first pose ──► play ──► next subtask
                                                               (planner, off the loop)
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.datagen.batch import Attempts, World, eef_spec
from mimicpipe.datagen.choose import DemoChooser
from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.coordinator import check_ties, share_demos
from mimicpipe.datagen.motion import MotionPlanner, MotionRequest
from mimicpipe.datagen.noise import unit_noise
from mimicpipe.datagen.pairs import Pairs
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.pose_noise import PoseNoise
from mimicpipe.datagen.rigid import Floats
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.skill_attempt import EefScript, SkillAttempt
from mimicpipe.datagen.skill_segments import SkillSegments
from mimicpipe.datagen.subtask import DataGenConfig, SubtaskConfigs, check_datagen_config
from mimicpipe.datagen.timing import GOES_ON, Timing
from mimicpipe.datagen.waypoint import RequestPort, WaypointTrajectory, subtask_trajectory
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.protocol import Plan, PlanFailedError
from mimicpipe.pipeline.run_state import RunState

Singles = npt.NDArray[np.float32]

_OTHERS, _DEMOS = 1 << 40, 1 << 24
"""Positions in stream SELECTION of the order in which demos are tried: _OTHERS + number of the subtask * _DEMOS on."""
_CARRIED = 0.02
"""Metres that a hand has gone with what it holds."""
_ALIKE = (0.03, math.cos(0.35))
"""Metres, and cosine of the angle, by which an object may lie otherwise in the hand than it was shown."""
_PER_TURN = 0.01
"""Square metres that weigh as much as a unit of squared difference of rotation matrices: 1 rad is about 14 cm."""


class SkillGenerator:
    """Generates one attempt in one slot; all slots share it.

    Several eefs follow their own subtasks, and wait for each other as the constraints say. A way is planned for one of
    them at a time, which keeps clear of what the others have planned already.

    Args:
        env: the simulator.
        src_demo_datagen_info_pool: source demos, with start signals.
        planner: plans the ways between skills; closed with the generator.
        subtask_configs: {eef: its subtasks}; None is the pool's. They must be those the pool was cut with.
        datagen_cfg: how demos are chosen; None is the default.
        task_constraint_configs: which subtasks of several eefs wait for each other or move together.
        demo_tries: demos to try, one after the other, until there is a way to the skill of one of them.
        lead_held: lead the object in the hand, not the hand, along what was shown: it may lie a little otherwise there.
        pose_noise: errors of the objects' poses that skills are moved to; the fields of `PoseNoise`, None is no error.
            What is in the way, and how an object lies in the hand, is known exactly.

    Raises:
        ConfigError: the task has no start signal, or a constraint that cannot be met.
        SourceDemoError: a demo has no such signal, or not where it is needed.
    """

    def __init__(
        self,
        env: MimicSim,
        src_demo_datagen_info_pool: DataGenInfoPool,
        planner: MotionPlanner,
        subtask_configs: SubtaskConfigs | None = None,
        datagen_cfg: DataGenConfig | None = None,
        task_constraint_configs: Sequence[SubTaskConstraintConfig] = (),
        demo_tries: int = 10,
        lead_held: bool = True,
        pose_noise: Mapping[str, float] | None = None,
    ) -> None:
        pool = src_demo_datagen_info_pool
        self.datagen_cfg = datagen_cfg or DataGenConfig()
        check_datagen_config(self.datagen_cfg)
        if subtask_configs is not None and {e: tuple(c) for e, c in subtask_configs.items()} != pool.subtask_configs:
            raise ConfigError("task.subtasks: the pool's demos were cut with other subtasks; give both the same")
        check_ties(task_constraint_configs, pool.subtask_configs)
        if all(c.subtask_start_signal is None for configs in pool.subtask_configs.values() for c in configs):
            raise ConfigError(
                "generator=skillgen: no subtask of the task has a subtask_start_signal, so there is no way to plan; "
                "name one, or use generator=mimicgen"
            )
        self.env = env
        self.src_demo_datagen_info_pool = pool
        self.subtask_configs = pool.subtask_configs
        self.planner = planner
        self.demo_tries, self.lead_held = demo_tries, lead_held
        self._pose_noise = PoseNoise(**(pose_noise or {}))
        self._specs = [eef_spec(pool, self.datagen_cfg, index) for index in range(len(pool.eef_names))]
        self._segments = {eef: SkillSegments(pool, eef) for eef in pool.eef_names}
        self._timing = Timing(self._specs, task_constraint_configs, env.num_envs)
        self._in_pairs = {part for pair in self._timing.pairs for part in pair.parts}
        self._pairs = Pairs(pool, self._specs, self._timing, env.num_envs, self._segments)
        if self.datagen_cfg.generation_select_src_per_subtask:
            share_demos(self._timing, self._specs)
        cells = 1 + max(int(spec.cell.max()) for spec in self._specs)
        self._chooser = DemoChooser(pool, env.num_envs, cells, self._segments)

    def close(self) -> None:
        """End the planner's workers."""
        self.planner.close()

    async def generate(
        self,
        env_id: int,
        env_reset_queue: RequestPort,
        env_action_queue: RequestPort,
        *,
        attempt: Attempt,
        run: RunState,
        visible: int | None = None,
    ) -> dict[str, Any]:
        """Generate one attempt.

        Args:
            env_id: the slot.
            env_reset_queue: where the reset is asked for.
            env_action_queue: where what has been planned is played.
            attempt: seeds everything that is drawn.
            run: whose slots may be away while a way is planned.
            visible: how many of the pool's demos the attempt may choose from; None is all that are there now.

        Returns:
            "source_demos": [{"eef", "subtask", "demo"}], the demo's name for each skill played, in order.

        Raises:
            PlanFailedError: there is no way to a skill.
        """
        pool = self.src_demo_datagen_info_pool
        visible = await pool.snapshot(env_id, attempt, run) if visible is None else visible
        there = pool.num_datagen_infos
        if not 0 < visible <= there:
            raise PlanFailedError(f"{visible} source demos are wanted, the pool has {there}")
        for segments in self._segments.values():
            segments.update()
        slots, timing = np.asarray([env_id]), self._timing
        self._chooser.forget(slots)
        timing.forget(slots)
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        ids = torch.tensor([env_id], dtype=torch.int64, device=self.env.device)
        this = SkillAttempt(env_id, attempt.seed, attempt.index, visible, run, run.options.seed, ids)
        eefs = [EefScript(spec) for spec in self._specs]
        chosen = run.used_demos[env_id] = list[dict[str, Any]]()
        first: int | None = None
        while not timing.done(slots)[0]:
            wanted = timing.wanted(slots)[0].tolist()
            for eef in [eef for eef in eefs if wanted[eef.spec.index] != GOES_ON]:
                demo = await self._plan_next(this, eef, eefs)
                timing.begin(eef.spec.index, slots, np.asarray([len(eef.targets)]))
                chosen.append({"eef": eef.spec.name, "subtask": eef.next - 1, "demo": pool.demo_names[demo]})
                first = demo if first is None else first
            if first is not None:
                self._let_wait(this, eefs, first)
            plays = timing.playing(slots)[0].tolist()
            steps = int(timing.advance(slots)[0])
            if not steps:
                raise PlanFailedError(f"no eef can ever go on: {timing.describe(env_id)}")
            await self._play(env_id, env_action_queue, eefs, steps, plays)
        if self.datagen_cfg.settle_steps:
            await self._play(env_id, env_action_queue, eefs, self.datagen_cfg.settle_steps, [False] * len(eefs))
        return {"source_demos": chosen}

    def _let_wait(self, this: SkillAttempt, eefs: Sequence[EefScript], demo: int) -> None:
        """An eef that has not begun holds where it is, with a demo's first gripper action."""
        info = self.src_demo_datagen_info_pool.datagen_infos[demo]
        for eef in eefs:
            if eef.last_target is None and not eef.next:
                eef.last_target = self.env.get_robot_eef_pose(eef.spec.name, this.ids)[0]
                eef.last_gripper = info.gripper_action[eef.spec.name][0]
                eef.noise = torch.zeros(0, self.env.noise_dim, device=self.env.device)

    async def _play(
        self, env_id: int, queue: RequestPort, eefs: Sequence[EefScript], steps: int, plays: Sequence[bool]
    ) -> None:
        parts = {eef.spec.name: eef.take(steps, plays=plays[eef.spec.index]) for eef in eefs}
        targets, grippers, noise = ({name: part[k] for name, part in parts.items()} for k in range(3))
        await queue.put((env_id, Plan(targets, grippers, noise)))
        await queue.join()

    async def _plan_next(self, this: SkillAttempt, eef: EefScript, eefs: Sequence[EefScript]) -> int:
        """Let an eef play its next subtask; the demo."""
        failure = PlanFailedError("no demo was tried")
        others = {other.spec.name: other.targets.cpu().numpy() for other in eefs if other is not eef and other.left}
        turns = self._turns(eef, eef.next)
        for demo, turn in ((demo, turn) for demo in self._demos(this, eef) for turn in turns):
            skill = self._skill(this, eef, demo, eef.next, turn)
            try:
                way = await self._way(this, eef, demo, skill, others)
            except PlanFailedError as error:
                failure = error
                continue
            self._chooser.remember(eef.spec, this.row(eef.next), np.asarray([demo]))
            self._write(eef, this.seed, torch.from_numpy(way).to(self.env.device), skill)
            return demo
        raise failure

    def _demos(self, this: SkillAttempt, eef: EefScript) -> Iterator[int]:
        """Demos to try for an eef's next subtask: the one that is chosen, or that an earlier subtask has settled; then
        others. One that another eef has begun with in time with this one is the only one."""
        spec, row, errors = eef.spec, this.row(eef.next), dict[int, Exception]()
        follows = self._pairs.followers(spec, row)
        for _, demo in follows:
            self._chooser.remember(spec, row, demo)
        _, chosen = self._chooser.choose(spec, row, self._world(this), errors)
        if errors:
            raise errors[0]
        first = int(chosen[0])
        yield first
        if not follows:
            yield from [demo for demo in self._order(this, eef) if demo != first][: self.demo_tries - 1]

    def _order(self, this: SkillAttempt, eef: EefScript) -> list[int]:
        """All demos: those first in which the eef stood most alike to the object of the subtask before, which it may
        hold; for the first subtask, by chance."""
        pool, spec, row = self.src_demo_datagen_info_pool, eef.spec, this.row(eef.next)
        before = self.subtask_configs[spec.name][eef.next - 1].object_ref if eef.next else None
        if before is None:
            offset = _OTHERS + int(spec.draw[eef.next]) * _DEMOS
            draws = rng.uniforms(this.seed, rng.Stream.SELECTION, this.visible, offset=offset)[0]
            return np.argsort(draws, kind="stable").tolist()
        held = poses.invert(self.env.get_object_poses(this.ids)[before][0])
        now = poses.compose(held, self.env.get_robot_eef_pose(spec.name, this.ids)[0])

        def unlike(demo: int) -> float:
            begin = int(self._segments[spec.name].of_segments(row.seeds, row.subtask, np.asarray([demo]))[0, 0])
            info = pool.datagen_infos[demo]
            shown = poses.compose(poses.invert(info.object_poses[before][begin]), info.eef_pose[spec.name][begin])
            apart = ((shown - now) ** 2).tolist()
            return sum(apart[r][3] for r in range(3)) + _PER_TURN * sum(sum(apart[r][:3]) for r in range(3))

        return sorted(range(this.visible), key=unlike)

    def _world(self, this: SkillAttempt) -> World:
        names = self.src_demo_datagen_info_pool.object_names
        attempts = Attempts(*(np.asarray([number]) for number in (this.attempt, this.seed, this.run_seed)))
        return World(self.env, this.ids, names, attempts, pose_noise=self._pose_noise)

    async def _way(
        self, this: SkillAttempt, eef: EefScript, demo: int, skill: WaypointTrajectory, others: Mapping[str, Singles]
    ) -> Singles:
        """(T, 4, 4) to where a skill begins; none where the subtask before has led there."""
        name = eef.spec.name
        if self.subtask_configs[name][eef.next].subtask_start_signal is None:
            return np.empty((0, 4, 4), dtype=np.float32)
        request = MotionRequest(
            eef=name,
            seed=this.seed,
            number=this.asked,
            start=self.env.get_robot_eef_pose(name, this.ids)[0].cpu().numpy(),
            goal=skill[0].pose.cpu().numpy(),
            gripper=(skill[0].gripper_action if eef.last_gripper is None else eef.last_gripper).cpu().numpy(),
            state=self.env.get_state(this.ids)[0].cpu().numpy(),
            skill=skill.poses().cpu().numpy(),
            acts_on=self.subtask_configs[name][eef.next].object_ref,
            later=self._later(this, eef, demo),
            others=others,
        )
        this.asked += 1
        with this.run.away(this.slot):
            return await self.planner.plan(request)

    def _later(self, this: SkillAttempt, eef: EefScript, demo: int) -> tuple[tuple[Singles, ...], ...]:
        """The demo's later skills that share it, as far as their objects are not moved before by this eef."""
        configs, cell = self.subtask_configs[eef.spec.name], eef.spec.cell
        moved, found = {configs[eef.next].object_ref, None}, []
        for subtask in range(eef.next + 1, len(configs)):
            config = configs[subtask]
            if cell[subtask] != cell[eef.next] or (eef.spec.index, subtask) in self._in_pairs:
                break
            if config.object_ref not in moved and config.subtask_start_signal is not None:
                skills = (self._skill(this, eef, demo, subtask, turn) for turn in self._turns(eef, subtask))
                found.append(tuple(skill.poses().cpu().numpy() for skill in skills))
            moved.add(config.object_ref)
        return tuple(found)

    def _turns(self, eef: EefScript, subtask: int) -> range:
        """Turns of a subtask's object to try; two eefs that move together do not turn it."""
        together = (eef.spec.index, subtask) in self._in_pairs
        return range(1 if together else self.subtask_configs[eef.spec.name][subtask].object_turns)

    def _skill(self, this: SkillAttempt, eef: EefScript, demo: int, subtask: int, turn: int) -> WaypointTrajectory:
        """A demo's skill of one of an eef's subtasks, moved to where the object is now; `turn` is how it is turned."""
        pool, spec = self.src_demo_datagen_info_pool, eef.spec
        config, joins, row = self.subtask_configs[spec.name][subtask], self.datagen_cfg, this.row(subtask)
        begin, end = self._segments[spec.name].of_segments(row.seeds, row.subtask, np.asarray([demo]))[:, 0].tolist()
        start = eef.last_target
        if start is None or not joins.generation_interpolate_from_last_target_pose:
            start = self.env.get_robot_eef_pose(spec.name, this.ids)[0]
        object_now = np.zeros((3, 4, 0))
        if config.object_ref is not None:
            object_now = self._world(this).object_poses(spec.objects[subtask : subtask + 1], row.rows)
        ends, motion = np.asarray([[begin], [end]]), None
        if (spec.index, subtask) in self._in_pairs:
            ((_, moved),) = self._pairs.motions(spec, row, np.asarray([demo]), *ends, object_now)
            motion = _pose(moved, start)
        is_planned_to = config.subtask_start_signal is not None
        return subtask_trajectory(
            pool.datagen_infos[demo],
            spec.name,
            (begin, end),
            replace(config, num_interpolation_steps=0) if is_planned_to else config,
            object_pose=_turned(_pose(object_now, start), turn, config.object_turns) if object_now.shape[2] else None,
            start_pose=start,
            from_measured_pose=is_planned_to or joins.starts_at_measured_pose(subtask),
            motion=motion,
            grip=self._grip(this, eef, demo, subtask, begin) if subtask == eef.next else None,
        )

    def _grip(self, this: SkillAttempt, eef: EefScript, demo: int, subtask: int, begin: int) -> Tensor | None:
        """The hand's pose, in its own frame, that leads what it holds as the demo did; None if it holds nothing.

        It holds the object of the subtask before, if that has come to the skill's start with the hand in the demo, and
        lies in the hand much as it did there.
        """
        name, configs = eef.spec.name, self.subtask_configs[eef.spec.name]
        held = configs[subtask - 1].object_ref if subtask else None
        if (
            not self.lead_held
            or held in (None, configs[subtask].object_ref)
            or (eef.spec.index, subtask) in self._in_pairs
        ):
            return None
        info, row = self.src_demo_datagen_info_pool.datagen_infos[demo], this.row(subtask)
        boundaries = self.src_demo_datagen_info_pool.boundaries[name]
        before = int(boundaries.of_segments(row.seeds, row.subtask, np.asarray([demo]))[0, 0])
        hand, body = info.eef_pose[name], info.object_poses[held]
        taken, shown = (poses.compose(poses.invert(hand[t]), body[t]) for t in (before, begin))
        moved = float(poses.vector_norm((hand[begin] - hand[before])[None, :3, 3]))
        now = self.env.get_robot_eef_pose(name, this.ids)[0], self.env.get_object_poses(this.ids)[held][0]
        lies = poses.compose(poses.invert(now[0]), now[1])
        if moved < _CARRIED or not (_alike(taken, shown) and _alike(shown, lies)):
            return None
        return poses.compose(shown, poses.invert(lies))

    def _write(self, eef: EefScript, seed: int, way: Tensor, skill: WaypointTrajectory) -> None:
        """Let an eef play a way (T, 4, 4), the gripper held, and then a skill."""
        config, device = self.subtask_configs[eef.spec.name][eef.next], self.env.device
        grippers = skill.gripper_actions()
        held = grippers[0] if eef.last_gripper is None else eef.last_gripper
        sigma = torch.full((len(way),), config.action_noise if config.apply_noise_during_interpolation else 0.0)
        amplitude = torch.cat((sigma, skill.noise()))
        seeds, steps = np.asarray([seed], dtype=np.int64), len(amplitude)
        unit = torch.from_numpy(unit_noise(seeds, eef.spec.index, eef.planned, steps, self.env.noise_dim)[0])
        eef.targets = torch.cat((way, skill.poses()))
        eef.grippers = torch.cat((held.expand(len(way), -1), grippers))
        eef.noise = (amplitude[:, None] * unit).to(device)
        eef.planned += steps
        eef.next += 1


def _pose(pose: Floats, like: Tensor) -> Tensor:
    """(4, 4) of (3, 4, 1), with the dtype and device of another pose."""
    full = torch.eye(4, dtype=like.dtype, device=like.device)
    full[:3] = torch.from_numpy(pose[:, :, 0]).to(like)
    return full


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two poses (4, 4) are less than `_ALIKE` apart."""
    turn = (one[:3, :3] * other[:3, :3]).sum()
    return float(poses.vector_norm((one - other)[None, :3, 3])) < _ALIKE[0] and float(turn) > 1.0 + 2.0 * _ALIKE[1]


def _turned(pose: Tensor, turn: int, turns: int) -> Tensor:
    """A pose (4, 4) turned about its own z axis by `turn` of so many equal parts of a full turn."""
    if not turn:
        return pose
    angle = 2.0 * math.pi * turn / turns
    about_z = torch.eye(4, dtype=pose.dtype, device=pose.device)
    about_z[0, 0] = about_z[1, 1] = math.cos(angle)
    about_z[1, 0] = math.sin(angle)
    about_z[0, 1] = -about_z[1, 0]
    return poses.compose(pose, about_z)
