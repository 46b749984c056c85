"""One attempt of several eefs that wait for each other, played step by step: what the coordinator must equal."""

from dataclasses import dataclass, field, replace

import torch
from reference import ReferenceAttempt, in_float64
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.datagen.constraints import SubTaskConstraintConfig
from mimicpipe.datagen.waypoint import Waypoint
from mimicpipe.pipeline.protocol import PlanBatch

Part = tuple[str, int]
Scene = tuple[dict[str, Tensor], dict[str, Tensor]]
"""{eef: (4, 4)}, {object: (4, 4)}."""


@dataclass
class Steps:
    """What each eef is told in each step, as the playheads would have it."""

    rows: dict[str, Tensor] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)

    def load(self, batch: PlanBatch, row: int) -> None:
        for eef, plans in batch.eefs.items():
            for index in (plans.rows == row).nonzero().flatten().tolist():
                self.rows[eef], self.at[eef] = plans.waypoints[index, : int(plans.lengths[index])], 0

    def play(self, steps: int) -> list[dict[str, Tensor]]:
        played = []
        for _ in range(steps):
            played.append({eef: rows[min(self.at[eef], len(rows) - 1)] for eef, rows in self.rows.items()})
            self.at = {eef: at + 1 for eef, at in self.at.items()}
        return played


@dataclass
class WaitingAttempt(ReferenceAttempt):
    """The reference of planning, with constraints; every step of every eef is looked at."""

    constraints: list[SubTaskConstraintConfig] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    script: dict[str, list[Waypoint]] = field(default_factory=dict)
    drawn: dict[str, Tensor] = field(default_factory=dict)
    played: dict[str, int] = field(default_factory=dict)
    held: dict[str, Waypoint] = field(default_factory=dict)
    motions: dict[int, Tensor] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)
    together: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for eef in self.pool.eef_names:
            self.begun[eef] = self.ended[eef] = self.played[eef] = 0
            self.script[eef] = []

    # ---- what holds now

    def is_in(self, part: Part) -> bool:
        return self.begun[part[0]] == part[1] + 1 and self.ended[part[0]] == part[1]

    def left(self, eef: str) -> int:
        return len(self.script[eef]) - self.played[eef]

    def pair_of(self, part: Part) -> tuple[int, Part] | None:
        for number, constraint in enumerate(self.constraints):
            both = constraint.eef_subtask_constraint_tuple
            if constraint.is_coordination and part in both:
                return number, both[1 - both.index(part)]
        return None

    def stopped(self, eef: str) -> bool:
        part = (eef, self.ended[eef])
        for constraint in self.constraints:
            first, second = constraint.eef_subtask_constraint_tuple
            steps = constraint.sequential_min_time_diff
            holds = not constraint.is_coordination and second == part and steps >= 0
            if holds and self.ended[first[0]] <= first[1] and self.left(eef) <= min(steps, len(self.script[eef]) - 1):
                return True
        pair = self.pair_of(part)
        if pair is None:
            return False
        number, other = pair
        steps = self.together[number]
        there = self.ended[other[0]] > other[1] or (self.is_in(other) and self.left(other[0]) <= steps)
        return self.left(eef) <= steps and not there

    def may_begin(self, eef: str, *, alone: bool = False) -> bool:
        part = (eef, self.begun[eef])
        if self.ended[eef] != part[1] or part[1] == len(self.configs(eef)):
            return False
        for constraint in self.constraints:
            first, second = constraint.eef_subtask_constraint_tuple
            before = not constraint.is_coordination and constraint.sequential_min_time_diff == -1 and second == part
            if before and self.ended[first[0]] <= first[1]:
                return False
        pair = self.pair_of(part)
        if alone or pair is None or not self.constraints[pair[0]].coordination_synchronize_start:
            return True
        return self.begun[pair[1][0]] == pair[1][1] and self.may_begin(pair[1][0], alone=True)

    @property
    def all_done(self) -> bool:
        return all(self.ended[eef] == len(self.configs(eef)) for eef in self.pool.eef_names)

    # ---- one step

    def end_segments(self) -> None:
        for _ in self.pool.eef_names:
            for eef in self.pool.eef_names:
                if self.begun[eef] > self.ended[eef] and not self.left(eef) and not self.stopped(eef):
                    self.ended[eef] += 1

    def begin_segments(self, scene: Scene | None) -> bool:
        """Whether any did; None for the scene: none may."""
        beginning = [eef for eef in self.pool.eef_names if self.may_begin(eef)]
        assert not beginning or scene is not None, "the planner has not been asked"
        for eef in beginning:
            assert scene is not None
            plan = self.plan_segment(
                self.pool.eef_names.index(eef), eef, self.begun[eef], scene[0][eef].double(), scene[1]
            )
            self.held[eef] = self.script[eef][-1] if self.script[eef] else plan.trajectory[0]
            self.script[eef], self.drawn[eef] = list(plan.trajectory), plan.noise
            self.played[eef] = 0
            self.begun[eef] += 1
        return bool(beginning)

    def step(self) -> dict[str, tuple[Waypoint, Tensor | None]] | None:
        """{eef: (waypoint, its noise)}; None for an eef that has not moved yet; None if no eef plays."""
        told: dict[str, tuple[Waypoint, Tensor | None]] = {}
        playing = [
            eef
            for eef in self.pool.eef_names
            if self.begun[eef] > self.ended[eef] and self.left(eef) and not self.stopped(eef)
        ]
        for eef in self.pool.eef_names:
            at = self.played[eef]
            if eef in playing:
                told[eef] = (self.script[eef][at], self.drawn[eef][at])
            elif self.script[eef]:
                told[eef] = (self.script[eef][at - 1] if at else self.held[eef], None)
        for eef in playing:
            self.played[eef] += 1
        self.end_segments()
        return told if playing else None

    # ---- coordinated segments

    def plan_segment(self, index, eef, subtask, eef_pose, object_poses):
        pair = self.pair_of((eef, subtask))
        if pair is None:
            return super().plan_segment(index, eef, subtask, eef_pose, object_poses)
        number, other = pair
        if number in self.motions:
            demo = self.shared[number]
            self.keep(index, subtask, demo)
        else:
            config = self.configs(eef)[subtask]
            now = None if config.object_ref is None else object_poses[config.object_ref].double()
            demo = self.choose_for_pair(index, eef, subtask, eef_pose, now)
            self.shared[number] = demo
            self.motions[number] = self.motion(number, eef, subtask, demo, now)
            lengths = [
                self.boundary(self.pool.eef_names.index(e), e, s + 1, demo)
                - self.boundary(self.pool.eef_names.index(e), e, s, demo)
                for e, s in ((eef, subtask), other)
            ]
            self.together[number] = min(lengths)
        return self.moved_segment(index, eef, subtask, demo, eef_pose, self.motions[number])

    def keep(self, index: int, subtask: int, demo: int) -> None:
        if not self.config.generation_select_src_per_subtask:
            self.demos[index if self.config.generation_select_src_per_arm else 0, 0] = demo

    def choose_for_pair(self, index, eef, subtask, eef_pose, now) -> int:
        if self.config.generation_select_src_per_subtask:
            return self.run_strategy(index, eef, subtask, eef_pose, now)
        return self.choose(index, eef, subtask, eef_pose, now)

    def motion(self, number: int, eef: str, subtask: int, demo: int, now: Tensor | None) -> Tensor:
        config, name = self.constraints[number], self.configs(eef)[subtask].object_ref
        info = in_float64(self.pool.datagen_infos[demo])
        begin = self.boundary(self.pool.eef_names.index(eef), eef, subtask, demo)
        moved, scheme = torch.eye(4, dtype=torch.float64), config.coordination_scheme
        centre = info.target_eef_pose[eef][begin, :3, 3]
        if name is not None and now is not None:
            source = info.object_poses[name][begin]
            if scheme == "transform":
                moved = now @ torch.linalg.inv(source)
            elif scheme == "translate":
                moved[:3, 3] = now[:3, 3] - source[:3, 3]
            centre = (moved @ source)[:3, 3]
        drawn = rng.uniforms([self.seed], rng.Stream.COORDINATION, 6, offset=6 * number)[0]
        shift = torch.from_numpy((2 * drawn[:3] - 1) * config.coordination_scheme_pos_noise_scale)
        vector = torch.from_numpy((2 * drawn[3:] - 1) * config.coordination_scheme_rot_noise_scale)
        turn = poses.make_pose(torch.zeros(3, dtype=torch.float64), poses.matrix_from_axis_angle(vector))
        there, back = torch.eye(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
        there[:3, 3], back[:3, 3] = centre + shift, -centre
        return there @ turn @ back @ moved

    def moved_segment(self, index, eef, subtask, demo, eef_pose, motion):
        info, config = in_float64(self.pool.datagen_infos[demo]), self.configs(eef)[subtask]
        moved = replace(
            info,
            eef_pose={name: motion @ pose for name, pose in info.eef_pose.items()},
            target_eef_pose={name: motion @ pose for name, pose in info.target_eef_pose.items()},
        )
        as_it_is = replace(config, object_ref=None, selection_strategy="random", selection_strategy_kwargs={})
        return self.joined(index, eef, subtask, demo, eef_pose, moved, as_it_is, None)
