"""A batched env without physics, and random source demos for it: eefs go where they are told, a closed one carries."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.envs.base import Feature, MimicEnv
from mimicpipe.rng import Seeds, Stream, uniforms

REACH = 0.05


class ArmEnv(MimicEnv):
    """Slots with some eefs and objects, each a free pose. An eef's action is position, axis-angle vector and gripper.

    An eef whose gripper action is negative carries each object within REACH of it. Success: object 0 above z = 0.5.
    """

    def __init__(
        self,
        num_envs: int,
        eef_names: Sequence[str] = ("arm",),
        object_names: Sequence[str] = ("cube",),
        gripper_dim: int = 1,
    ) -> None:
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.fps = 20
        self.eef_names = tuple(eef_names)
        self.object_names = tuple(object_names)
        self.gripper_dim, self.noise_dim = gripper_dim, 6
        self.width = 6 + gripper_dim
        self.action_dim = self.width * len(self.eef_names)
        self.task_description = "lift the cube"
        self.observation_features = {"observation.state": Feature("float32", (16 * len(self.eef_names),))}
        self.action_feature = Feature("float32", (self.action_dim,))
        self.eefs = torch.eye(4).repeat(len(self.eef_names), num_envs, 1, 1)
        self.objects = torch.eye(4).repeat(len(self.object_names), num_envs, 1, 1)
        self.steps = torch.zeros(num_envs, dtype=torch.float64)

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        parts = len(self.eef_names) + len(self.object_names)
        drawn = torch.from_numpy(uniforms(seeds, Stream.SCENE, 6 * parts)).float().view(-1, parts, 6)
        place, vector = drawn[..., :3] - 0.5, (drawn[..., 3:] - 0.5) * 2.0
        # Objects lie on a table, turned about z; eefs are above it.
        place[:, : len(self.eef_names), 2] += 1.0
        place[:, len(self.eef_names) :, 2] *= 0.1
        vector[:, len(self.eef_names) :, :2] = 0.0
        pose = poses.make_pose(place, poses.matrix_from_axis_angle(vector)).transpose(0, 1)
        self.eefs[:, env_ids] = pose[: len(self.eef_names)]
        self.objects[:, env_ids] = pose[len(self.eef_names) :]
        self.steps[env_ids] = 0

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        ids = self.all_ids() if env_ids is None else env_ids
        for index, target in enumerate(self.action_to_target_eef_pose(actions[ids]).values()):
            before = self.eefs[index, ids]
            closed = actions[ids, index * self.width + 6] < 0
            for number in range(len(self.object_names)):
                carried = self.objects[number, ids]
                near = poses.vector_norm(carried[:, :3, 3] - before[:, :3, 3])[:, 0] < REACH
                moved = poses.compose(target, poses.compose(poses.invert(before), carried))
                self.objects[number, ids] = torch.where((closed & near)[:, None, None], moved, carried)
            self.eefs[index, ids] = target
        self.steps[ids] += 1

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        ids = self.all_ids() if env_ids is None else env_ids
        return {"observation.state": self.eefs[:, ids].transpose(0, 1).flatten(1)}

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        pose = self.eefs[self.eef_names.index(eef_name)]
        return pose.clone() if env_ids is None else pose[env_ids]

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        ids = self.all_ids() if env_ids is None else env_ids
        return {name: self.objects[index, ids] for index, name in enumerate(self.object_names)}

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        parts = []
        for eef in self.eef_names:
            pose = target_eef_pose[eef]
            wanted = torch.cat((pose[:, :3, 3], poses.axis_angle_from_matrix(pose[:, :3, :3])), dim=1)
            if action_noise is not None and eef in action_noise:
                wanted = wanted + action_noise[eef]
            parts += [wanted, gripper_action[eef]]
        return torch.cat(parts, dim=1)

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        targets = {}
        for index, eef in enumerate(self.eef_names):
            part = actions[:, index * self.width : index * self.width + 6]
            targets[eef] = poses.make_pose(part[:, :3], poses.matrix_from_axis_angle(part[:, 3:]))
        return targets

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        return {
            eef: actions[..., index * self.width + 6 : (index + 1) * self.width]
            for index, eef in enumerate(self.eef_names)
        }

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        success = self.success()
        return {"lifted": success if env_ids is None else success[env_ids]}

    def success(self) -> Tensor:
        return self.objects[0, :, 2, 3] > 0.5

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        ids = self.all_ids() if env_ids is None else env_ids
        bodies = torch.cat((self.eefs[:, ids], self.objects[:, ids])).transpose(0, 1).flatten(1).double()
        return torch.cat((bodies, self.steps[ids, None]), dim=1)

    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        ids = self.all_ids() if env_ids is None else env_ids
        bodies = state[:, :-1].float().view(len(ids), -1, 4, 4).transpose(0, 1)
        self.eefs[:, ids] = bodies[: len(self.eef_names)]
        self.objects[:, ids] = bodies[len(self.eef_names) :]
        self.steps[ids] = state[:, -1]


def random_poses(generator: np.random.Generator, *shape: int, spread: float = 0.3) -> Tensor:
    """Poses (*shape, 4, 4) float32 around the origin, rotated by up to about 3 rad."""
    pos = torch.from_numpy(generator.normal(0, spread, (*shape, 3))).float()
    vector = torch.from_numpy(generator.uniform(-1.7, 1.7, (*shape, 3))).float()
    return poses.make_pose(pos, poses.matrix_from_axis_angle(vector))


def random_demo(env: ArmEnv, seed: int, signal_steps: Mapping[str, int], length: int) -> SourceDemo:
    """A demo of `length` steps with unrelated random poses at each, whose signals go up at the given steps."""
    generator = np.random.default_rng(seed)

    def each(names: Sequence[str]) -> dict[str, Tensor]:
        return {name: random_poses(generator, length) for name in names}

    info = DatagenInfo(
        eef_pose=each(env.eef_names),
        object_poses=each(env.object_names),
        subtask_term_signals={name: torch.arange(length) >= step for name, step in signal_steps.items()},
        target_eef_pose=each(env.eef_names),
        gripper_action={
            eef: torch.from_numpy(generator.normal(size=(length, env.gripper_dim))).float() for eef in env.eef_names
        },
    )
    return SourceDemo(name=f"demo_{seed}", info=info, actions=torch.zeros(length, env.action_dim))


@cache
def pick_demo(seed: int, eef_names: tuple[str, ...] = ("arm",)) -> SourceDemo:
    """A demonstration of lifting the cube with the first eef, recorded from an ArmEnv; the others wander off."""
    env = ArmEnv(1, eef_names)
    env.reset(torch.tensor([0]), np.asarray([seed]))
    cube = env.get_object_poses()["cube"]
    above = cube.clone()
    above[:, 2, 3] += 0.9
    targets, grippers = [], []
    start = env.get_robot_eef_pose(env.eef_names[0])
    for goal, closed, steps in ((cube, 1.0, 12 + seed % 4), (cube, -1.0, 3), (above, -1.0, 14)):
        for step in range(1, steps + 1):
            targets.append(poses.interpolate(start, goal, torch.tensor([step / steps])))
            grippers.append(torch.full((1, 1), closed))
        start = goal
    frames: dict[str, list[Tensor]] = {name: [] for name in (*eef_names, "cube", "grasped", "action")}
    for target, gripper in zip(targets, grippers, strict=True):
        wanted = {eef: target if eef == eef_names[0] else wandered(env, eef) for eef in eef_names}
        grips = {eef: gripper if eef == eef_names[0] else torch.ones(1, 1) for eef in eef_names}
        action = env.target_eef_pose_to_action(wanted, grips)
        for eef in eef_names:
            frames[eef].append(torch.stack((env.get_robot_eef_pose(eef)[0], wanted[eef][0])))
        frames["cube"].append(env.get_object_poses()["cube"][0])
        near = poses.vector_norm(env.get_robot_eef_pose(eef_names[0])[0, :3, 3] - cube[0, :3, 3]) < 1e-3
        frames["grasped"].append(near[0] & (gripper[0, 0] < 0))
        frames["action"].append(action[0])
        env.step(action)
    assert bool(env.success()[0])
    stacked = {name: torch.stack(values) for name, values in frames.items()}
    info = DatagenInfo(
        eef_pose={eef: stacked[eef][:, 0] for eef in eef_names},
        object_poses={"cube": stacked["cube"]},
        subtask_term_signals={"grasp": stacked["grasped"]},
        target_eef_pose={eef: stacked[eef][:, 1] for eef in eef_names},
        gripper_action=env.actions_to_gripper_actions(stacked["action"]),
    )
    return SourceDemo(name=f"demo_{seed}", info=info, actions=stacked["action"])


def wandered(env: ArmEnv, eef: str) -> Tensor:
    """A little way along x."""
    pose = env.get_robot_eef_pose(eef)
    pose[:, 0, 3] += 0.01
    return pose
