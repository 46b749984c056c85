"""One attempt planned slot by slot and step by step, in float64: what the batched planner must equal."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from mimicpipe import rng
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.datagen.noise import ActionNoise
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.datagen.waypoint import Waypoint, WaypointTrajectory, subtask_trajectory

GOES_ON = -1


@dataclass
class EefPlan:
    """What one eef is to do next."""

    trajectory: WaypointTrajectory
    noise: Tensor
    """(T, noise_dim)."""


@dataclass
class ReferenceAttempt:
    """The state of one attempt; `plan` is called whenever a segment has ended."""

    pool: DataGenInfoPool
    config: DataGenConfig
    seed: int
    visible: int
    noise_dim: int
    chosen: list[tuple[int, int, int]] = field(default_factory=list)
    demos: dict[tuple[int, int], int] = field(default_factory=dict)
    subtask: dict[str, int] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    last: dict[str, Waypoint] = field(default_factory=dict)
    noises: dict[str, ActionNoise] = field(default_factory=dict)

    def configs(self, eef: str) -> tuple[SubTaskConfig, ...]:
        return self.pool.subtask_configs[eef]

    def plan(self, eef_poses: dict[str, Tensor], object_poses: dict[str, Tensor]) -> tuple[int, dict[str, EefPlan]]:
        """Steps to play and the new plans, given where things are: {name: (4, 4)}."""
        plans = {}
        for index, eef in enumerate(self.pool.eef_names):
            subtask = self.subtask.get(eef, -1)
            if self.pending.get(eef, 0) or subtask == len(self.configs(eef)) - 1:
                continue
            self.subtask[eef] = subtask + 1
            plans[eef] = self.plan_segment(index, eef, subtask + 1, eef_poses[eef].double(), object_poses)
            self.pending[eef] = len(plans[eef].trajectory)
        steps = min(left for left in self.pending.values() if left)
        for eef, left in self.pending.items():
            self.pending[eef] = max(left - steps, 0)
        return steps + (self.config.settle_steps if self.done else 0), plans

    @property
    def done(self) -> bool:
        at_last = all(self.subtask[eef] == len(self.configs(eef)) - 1 for eef in self.pool.eef_names)
        return at_last and not any(self.pending.values())

    def plan_segment(
        self, index: int, eef: str, subtask: int, eef_pose: Tensor, object_poses: dict[str, Tensor]
    ) -> EefPlan:
        config = self.configs(eef)[subtask]
        object_pose = None if config.object_ref is None else object_poses[config.object_ref].double()
        demo = self.choose(index, eef, subtask, eef_pose, object_pose)
        info = in_float64(self.pool.datagen_infos[demo])
        return self.joined(index, eef, subtask, demo, eef_pose, info, config, object_pose)

    def joined(
        self,
        index: int,
        eef: str,
        subtask: int,
        demo: int,
        eef_pose: Tensor,
        info: DatagenInfo,
        config: SubTaskConfig,
        object_pose: Tensor | None,
    ) -> EefPlan:
        """The segment of a demo that was chosen, as `info` and `config` have it, with its noise; it is the last now."""
        self.chosen.append((index, subtask, demo))
        from_last = subtask > 0 and self.config.generation_interpolate_from_last_target_pose
        trajectory = subtask_trajectory(
            info,
            eef,
            (self.boundary(index, eef, subtask, demo), self.boundary(index, eef, subtask + 1, demo)),
            config,
            object_pose=object_pose,
            start_pose=self.last[eef].pose if from_last else eef_pose,
            from_measured_pose=subtask == 0 or self.config.generation_transform_first_robot_pose,
        )
        self.last[eef] = trajectory.last_waypoint
        source = self.noises.setdefault(
            eef, ActionNoise(self.seed, self.pool.eef_names, self.noise_dim, torch.device("cpu"))
        )
        noise = torch.cat([source.draw({eef: waypoint.noise})[eef] for waypoint in trajectory])
        return EefPlan(trajectory, noise)

    def boundary(self, eef_index: int, eef: str, number: int, demo: int) -> int:
        segments = self.pool.subtask_boundaries[eef][demo]
        configs = self.configs(eef)
        if number == 0:
            base, (low, high) = 0, configs[0].first_subtask_start_offset_range
        else:
            base, (low, high) = int(segments[number - 1, 1]), configs[number - 1].subtask_term_offset_range
        if low == high:
            return base + low
        position = eef_index * 2**48 + number * 2**32 + demo
        draw = float(rng.uniforms([self.seed], rng.Stream.OFFSETS, 1, offset=position)[0, 0])
        return base + low + int(draw * (high - low + 1))

    def choose(self, index: int, eef: str, subtask: int, eef_pose: Tensor, object_pose: Tensor | None) -> int:
        who = index if self.config.generation_select_src_per_arm else 0
        when = subtask if self.config.generation_select_src_per_subtask else 0
        if (who, when) not in self.demos:
            self.demos[who, when] = self.run_strategy(index, eef, subtask, eef_pose, object_pose)
        return self.demos[who, when]

    def run_strategy(self, index: int, eef: str, subtask: int, eef_pose: Tensor, object_pose: Tensor | None) -> int:
        config = self.configs(eef)[subtask]
        position = sum(len(self.configs(name)) for name in self.pool.eef_names[:index]) + subtask
        draw = float(rng.uniforms([self.seed], rng.Stream.SELECTION, 1, offset=position)[0, 0])
        if config.selection_strategy == "random":
            return int(draw * self.visible)
        weights = {"pos_weight": 1.0, "rot_weight": 1.0, "nn_k": 3} | dict(config.selection_strategy_kwargs)
        distances = []
        for demo in range(self.visible):
            info = in_float64(self.pool.datagen_infos[demo])
            begin = self.boundary(index, eef, subtask, demo)
            assert config.object_ref is not None
            assert object_pose is not None
            source_object = info.object_poses[config.object_ref][begin]
            if config.selection_strategy == "nearest_neighbor_object":
                a, b = source_object, object_pose
            else:
                a, b = object_pose @ torch.linalg.inv(source_object) @ info.eef_pose[eef][begin], eef_pose
            angle = torch.acos(((torch.trace(a[:3, :3] @ b[:3, :3].T) - 1) / 2).clamp(-1, 1))
            distance = weights["pos_weight"] * (a[:3, 3] - b[:3, 3]).norm() + weights["rot_weight"] * angle
            distances.append(float(distance))
        near = sorted(range(self.visible), key=distances.__getitem__)[: int(weights["nn_k"])]
        return near[int(draw * len(near))]


def in_float64(info: DatagenInfo) -> DatagenInfo:
    return replace(
        info,
        eef_pose={name: pose.double() for name, pose in info.eef_pose.items()},
        object_poses={name: pose.double() for name, pose in info.object_poses.items()},
        target_eef_pose={name: pose.double() for name, pose in info.target_eef_pose.items()},
    )
