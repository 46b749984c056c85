"""What Isaac Lab's managers ask of the pick scene: observations, success, subtask signals, resets.

All look at the task through the predicates of `envs.tasks.pick`, so the task is that of env=mujoco. Quaternions are
Isaac Lab's xyzw; positions are relative to each slot's origin.
"""

from typing import TYPE_CHECKING

import isaaclab.utils.math as isaac_math
import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.envs.mujoco.ik import REST_POSTURE
from mimicpipe.envs.mujoco.panda import GRASP_OFFSET, HAND_BODY, MAX_FINGER
from mimicpipe.envs.tasks.base import TaskView
from mimicpipe.envs.tasks.pick import PickTask

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

EEF = "panda"
ROBOT = "robot"
CUBE = "cube"
_START_NOISE = 0.02 * 3**0.5
"""Half width of the uniform start noise of the arm's joints, radians: as in env=mujoco."""
_START_NOISE_OFFSET = 1 << 20
"""Its position in the SCENE stream, beyond anything the task draws."""


def _eef(env: "ManagerBasedRLEnv") -> tuple[Tensor, Tensor]:
    """Grasp point (N, 3) in the slot's frame and its rotation (N, 4) xyzw."""
    data = env.scene[ROBOT].data
    hand = data.body_names.index(HAND_BODY)
    quat = data.body_link_quat_w.torch[:, hand]
    offset = torch.tensor([0.0, 0.0, GRASP_OFFSET], device=env.device).expand(env.num_envs, 3)
    pos = data.body_link_pos_w.torch[:, hand] + isaac_math.quat_apply(quat, offset)
    return pos - env.scene.env_origins, quat


def eef_pos(env: "ManagerBasedRLEnv") -> Tensor:
    """(N, 3) grasp point between the fingertips, metres."""
    return _eef(env)[0]


def eef_quat(env: "ManagerBasedRLEnv") -> Tensor:
    """(N, 4) hand's rotation, xyzw."""
    return _eef(env)[1]


def joint_pos(env: "ManagerBasedRLEnv") -> Tensor:
    """(N, 7) arm's joints, radians."""
    return env.scene[ROBOT].data.joint_pos.torch[:, :7]


def gripper_pos(env: "ManagerBasedRLEnv") -> Tensor:
    """(N, 2) travel of the fingers, metres; 0 is closed."""
    return env.scene[ROBOT].data.joint_pos.torch[:, 7:9]


def cube_pos(env: "ManagerBasedRLEnv") -> Tensor:
    """(N, 3) cube's centre, metres."""
    return env.scene[CUBE].data.root_pos_w.torch - env.scene.env_origins


def cube_quat(env: "ManagerBasedRLEnv") -> Tensor:
    """(N, 4) cube's rotation, xyzw."""
    return env.scene[CUBE].data.root_quat_w.torch


def task_view(env: "ManagerBasedRLEnv") -> TaskView:
    """The scene as `envs.tasks` look at it."""
    pos, quat = _eef(env)
    cube = env.scene[CUBE].data
    return TaskView(
        object_poses={CUBE: _pose(cube_pos(env), cube_quat(env))},
        object_speeds={CUBE: torch.linalg.vector_norm(cube.root_lin_vel_w.torch, dim=-1)},
        eef_poses={EEF: _pose(pos, quat)},
        gripper_widths={EEF: gripper_pos(env).sum(dim=-1)},
    )


def _pose(pos: Tensor, quat: Tensor) -> Tensor:
    return poses.pose_from_pos_quat(pos, quat.roll(1, dims=-1))


def grasp(env: "ManagerBasedRLEnv") -> Tensor:
    """(N,) bool: the gripped cube has left the table."""
    return PickTask().subtask_term_signals(task_view(env))["grasp"]


def reach(env: "ManagerBasedRLEnv") -> Tensor:
    """(N,) bool: the hand is near the cube."""
    return PickTask().subtask_start_signals(task_view(env))["reach"]


def picked(env: "ManagerBasedRLEnv") -> Tensor:
    """(N,) bool: the task's success at this instant."""
    return PickTask().success(task_view(env))


def reset_scene(env: "ManagerBasedRLEnv", env_ids: Tensor | slice, variant: str = "D0") -> None:
    """Put the cube into the variant's region, and the arm near its rest posture with the gripper open.

    One 62-bit number for each slot is drawn from torch's global generator, as Isaac Lab's own events draw theirs; the
    rest follows from it.
    """
    ids = torch.arange(env.num_envs)[env_ids.cpu() if isinstance(env_ids, Tensor) else env_ids]
    seeds = torch.randint(2**62, (len(ids),)).numpy()
    rows, ids = len(ids), ids.to(env.device)

    robot = env.scene[ROBOT]
    noise = rng.uniforms(seeds, rng.Stream.SCENE, 7, offset=_START_NOISE_OFFSET)
    arm = REST_POSTURE + (2.0 * noise - 1.0) * _START_NOISE
    joints = torch.full((rows, 9), MAX_FINGER, device=env.device)
    joints[:, :7] = torch.from_numpy(arm).to(env.device, torch.float32)
    still = torch.zeros_like(joints)
    robot.write_joint_position_to_sim_index(position=joints, env_ids=ids)
    robot.write_joint_velocity_to_sim_index(velocity=still, env_ids=ids)
    robot.set_joint_position_target_index(target=joints, env_ids=ids)
    robot.set_joint_velocity_target_index(target=still, env_ids=ids)

    cube = env.scene[CUBE]
    pose = PickTask(variant).sample_object_poses(seeds)[CUBE]
    quat = poses.quat_from_matrix(pose[:, :3, :3]).roll(-1, dims=-1)
    world = torch.cat((pose[:, :3, 3], quat), dim=-1).to(env.device, torch.float32)
    world[:, :3] += env.scene.env_origins[ids]
    cube.write_root_pose_to_sim_index(root_pose=world, env_ids=ids)
    cube.write_root_velocity_to_sim_index(root_velocity=torch.zeros(rows, 6, device=env.device), env_ids=ids)
