"""Constants of arms and bodies as Warp structs on the device."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from mimicpipe.envs.actions import NOISE_DIM, POSITION_SCALE, ROTATION_SCALE
from mimicpipe.envs.mujoco import ik, kinematics
from mimicpipe.envs.mujoco.arms import SERVOS, Arm
from mimicpipe.envs.mujoco.frames import Frames
from mimicpipe.envs.mujoco.panda import DH_A, DH_D, DH_TWIST, HAND_YAW, MAX_FINGER
from mimicpipe.envs.mujoco_warp.rotations import ArmModel
from mimicpipe.envs.mujoco_warp.view_kernels import BodyColumns


def arm_models(arms: Sequence[Arm], control: str, device: wp.Device) -> list[ArmModel]:
    """One struct for each arm."""
    dh = wp.array(np.column_stack([DH_A, DH_D, DH_TWIST]), dtype=wp.float64, device=device)
    limits = np.column_stack([ik.LOWER, ik.UPPER, ik.REST_POSTURE])
    on_device = wp.array(limits, dtype=wp.float64, device=device)
    models = []
    for index, arm in enumerate(arms):
        model = ArmModel()
        model.first, model.action, model.servo = arm.first, arm.action.start, SERVOS * index
        model.base, model.base_pos = wp.mat33d(*arm.base[:, :3].ravel()), wp.vec3d(*arm.base[:, 3])
        model.dh, model.limits = dh, on_device
        model.tool = wp.vec3d(np.cos(HAND_YAW), np.sin(HAND_YAW), kinematics.EEF_OFFSET)
        model.rest_gain, model.damping, model.most = ik.REST_GAIN, ik.DAMPING_SQ, ik.MAX_STEP
        model.max_finger = MAX_FINGER
        model.position_scale, model.rotation_scale = POSITION_SCALE, ROTATION_SCALE
        model.absolute = int(control == "ik_abs")
        assert arm.gripper - arm.action.start == NOISE_DIM + model.absolute
        models.append(model)
    return models


def body_columns(frames: Frames, state_width: int, device: wp.Device) -> BodyColumns:
    """Where the bodies of a task are in a row of state whose fixtures begin at column `state_width`."""

    def ints(values: npt.NDArray[np.integer]) -> wp.array:
        return wp.array(values.astype(np.int32), dtype=int, device=device)

    columns = BodyColumns()
    columns.objects, columns.speeds = ints(frames.object_columns), ints(frames.speed_columns)
    columns.fixtures, columns.fixture = frames.fixture_width // 7, state_width
    columns.owner, columns.hinge = ints(frames.owner), ints(np.asarray(frames.hinge, dtype=np.int32))
    columns.geometry = wp.array(frames.geometry.astype(np.float64), dtype=wp.float64, device=device)
    columns.joints = ints(frames.joint_columns)
    return columns
