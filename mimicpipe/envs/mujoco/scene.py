"""The scene of one slot, compiled into one MjModel for all slots: table, Panda, the task's bodies, lights, cameras."""

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from mimicpipe.envs.mujoco.arms import prefix_of
from mimicpipe.envs.mujoco.bodies import add_fixture, add_object, surface
from mimicpipe.envs.mujoco.panda import HAND_BODY, TABLE_BIT, add_panda
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.placement import TABLE_CENTRE

TIMESTEP = 0.005
"""Physics step, seconds."""
SUBSTEPS = 10
"""Physics steps in one control step: 20 Hz control."""

FRONT, WRIST = "front", "wrist"


def camera_names(task: Task) -> tuple[str, ...]:
    """Cameras of a task's scene: one in front of it, one on each hand."""
    return (FRONT, *(prefix_of(task, name) + WRIST for name in task.eef_names))


def build_model(task: Task, image_size: tuple[int, int], prisms: bool = False) -> mujoco.MjModel:
    """Compile a task's scene.

    Args:
        task: names its bodies.
        image_size: (height, width) of camera frames; only sizes the off-screen buffer, physics is the same for all.
        prisms: make cylinders that collide of flat sides and feet, for physics that finds one contact of a round one.

    Returns:
        A model whose qpos is: 7 joints and 2 fingers of each arm, the joints of the fixtures' parts, then 7 numbers
        (position, wxyz quaternion) for each of the task's objects. Fixtures are mocap bodies, in the task's order.
    """
    # MuJoCo would write MUJOCO_LOG.TXT into the working folder at the first warning; the env reports divergence itself.
    log = mujoco.MjLogConfig.get()
    log.logto_file = log.logto_console = False
    mujoco.MjLogConfig.set(log)

    spec = mujoco.MjSpec()
    spec.modelname = f"mimicpipe_{task.name}"
    spec.compiler.degree = False
    _set_options(spec)
    spec.visual.global_.offheight, spec.visual.global_.offwidth = image_size
    prefixes = [prefix_of(task, name) for name in task.eef_names]
    for index, (prefix, base) in enumerate(zip(prefixes, task.bases, strict=True)):
        add_panda(spec, prefix, index, base.pos, base.yaw)
    _add_table(spec)
    _add_cameras(spec, prefixes)
    task.add_fixtures(spec)
    for fixture in task.fixtures:
        add_fixture(spec, fixture, prisms)
    for item in task.objects:
        add_object(spec, item, prisms)
    return spec.compile()


def _set_options(spec: mujoco.MjSpec) -> None:
    option = spec.option
    option.timestep = TIMESTEP
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    # Elliptic cones with a high impratio hold a grasp without slip (MuJoCo documentation, "Preventing slip").
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0
    # A diverging slot must show as a non-finite state, not as a silent reset.
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET


def _add_table(spec: mujoco.MjSpec) -> None:
    # A plane: cheaper than a box and its contacts are the same; the 0.8 m plate around it is for the eye.
    spec.worldbody.add_geom(
        name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1.0, 1.0, 0.05], rgba=[0, 0, 0, 0],
        contype=TABLE_BIT, conaffinity=0, **surface(TIMESTEP),
    )  # fmt: skip
    spec.worldbody.add_geom(
        name="table_plate", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.4, 0.4, 0.02], rgba=[0.72, 0.63, 0.52, 1],
        pos=[TABLE_CENTRE[0], TABLE_CENTRE[1], -0.02], contype=0, conaffinity=0,
    )  # fmt: skip


def _add_cameras(spec: mujoco.MjSpec, prefixes: Sequence[str]) -> None:
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.4, 0.4, 0.4]
    spec.visual.headlight.specular = [0.1, 0.1, 0.1]
    spec.worldbody.add_light(pos=[0.8, -0.6, 1.8], dir=[-0.2, 0.4, -1.0], diffuse=[0.5, 0.5, 0.5], castshadow=False)
    spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.75, 0.80, 0.86], rgb2=[0.45, 0.50, 0.57], width=64, height=384,
    )  # fmt: skip
    # Front: from beyond the table towards the robot, the D1 square and the arm in view; of two arms, both.
    eye, target = (1.30, 0.0, 0.75), (0.42, 0.0, 0.16)
    if len(prefixes) > 1:
        eye, target = (1.46, 0.0, 0.93), (0.36, 0.0, 0.21)
    spec.worldbody.add_camera(name=FRONT, pos=eye, fovy=50.0, quat=_look_quat(eye, target))
    # Wrist: in front of the hand, fingertips at the lower edge, as a camera is mounted on the real hand.
    eye, target = (0.075, 0.0, 0.03), (0.03, 0.0, 0.16)
    for prefix in prefixes:
        hand = next(body for body in spec.bodies if body.name == prefix + HAND_BODY)
        hand.add_camera(name=prefix + WRIST, pos=eye, fovy=75.0, quat=_look_quat(eye, target))


def _look_quat(eye: tuple[float, float, float], target: tuple[float, float, float]) -> list[float]:
    """Orientation, wxyz, of a camera at `eye` that looks at `target`, both in one x-z plane; z (or x) points up."""
    back = np.subtract(eye, target) / math.dist(eye, target)
    # MuJoCo cameras look along -z with x to the right and y up.
    right = np.array([0.0, math.copysign(1.0, back[0]), 0.0])
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.column_stack([right, np.cross(back, right), back]).flatten())
    return quat.tolist()
