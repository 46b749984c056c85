"""The pick task of `envs.tasks.pick` as an Isaac Lab Mimic environment on Newton physics: its configuration.

The robot is the Panda of env=mujoco (`assets/panda.usda`, see `panda_usd`), with the same servos, physics step and
control rate. Nothing is fetched from Isaac Lab's asset server.
"""

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg, AssetBaseCfg, RigidObjectCfg
from isaaclab.controllers.differential_ik_cfg import DifferentialIKControllerCfg
from isaaclab.envs import ManagerBasedRLEnvCfg, mdp
from isaaclab.envs.mdp.actions.actions_cfg import BinaryJointPositionActionCfg, DifferentialInverseKinematicsActionCfg
from isaaclab.envs.mimic_env_cfg import MimicEnvCfg, SubTaskConfig
from isaaclab.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg, TerminationTermCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg, NewtonShapeCfg
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg

from mimicpipe.envs.isaaclab import pick_terms
from mimicpipe.envs.isaaclab.annotations import AnnotatedRecorderCfg
from mimicpipe.envs.isaaclab.panda_usd import PANDA_USD
from mimicpipe.envs.mujoco.ik import REST_POSTURE
from mimicpipe.envs.mujoco.panda import (
    ARM_DAMPING,
    ARM_JOINTS,
    ARM_KP,
    ARM_TORQUE,
    FINGER_JOINTS,
    FINGER_SPEED,
    GRASP_OFFSET,
    GRIP_FORCE,
    HAND_BODY,
    MAX_FINGER,
)
from mimicpipe.envs.tasks.pick import PickTask

_BOX = PickTask.objects[0]
_FINGERS = list(FINGER_JOINTS)
_FINGER_KP = 500.0
"""N/m. Chosen: the fingers have no coupling here, so their servos must not saturate on a 4 cm cube (10 N at 20 mm);
then a displaced pair is drawn back to the middle."""
_TABLE = 0.05
"""Thickness of the slab that is the table and the ground, metres."""
ACTION_NOISE = 0.0015
"""Standard deviation of action noise, metres and radians: the position part of env=mujoco's."""


@configclass
class PickSceneCfg(InteractiveSceneCfg):
    """The arm, the cube and a slab whose top is z = 0."""

    table = AssetBaseCfg(
        prim_path="/World/table",
        init_state=AssetBaseCfg.InitialStateCfg(pos=(0.0, 0.0, -_TABLE / 2)),
        spawn=sim_utils.CuboidCfg(size=(100.0, 100.0, _TABLE), collision_props=sim_utils.UsdPhysicsCollisionCfg()),
    )
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(usd_path=str(PANDA_USD), rigid_props=[MujocoRigidBodyCfg(gravcomp=1.0)]),
        init_state=ArticulationCfg.InitialStateCfg(
            joint_pos=dict(zip(ARM_JOINTS, REST_POSTURE.tolist(), strict=True)) | dict.fromkeys(_FINGERS, MAX_FINGER)
        ),
        actuators={
            "arm": ImplicitActuatorCfg(
                joint_names_expr=list(ARM_JOINTS),
                stiffness=dict(zip(ARM_JOINTS, ARM_KP, strict=True)),
                damping=dict(zip(ARM_JOINTS, ARM_DAMPING, strict=True)),
                joint_effort_limit=dict(zip(ARM_JOINTS, ARM_TORQUE, strict=True)),
            ),
            "hand": ImplicitActuatorCfg(
                joint_names_expr=_FINGERS,
                stiffness=_FINGER_KP,
                damping=GRIP_FORCE / FINGER_SPEED,
                joint_effort_limit=GRIP_FORCE,
            ),
        },
    )
    cube = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Cube",
        init_state=RigidObjectCfg.InitialStateCfg(pos=(0.5, 0.0, _BOX.half_size[2])),
        spawn=sim_utils.CuboidCfg(
            size=(2 * _BOX.half_size[0], 2 * _BOX.half_size[1], 2 * _BOX.half_size[2]),
            rigid_props=sim_utils.UsdPhysicsRigidBodyCfg(),
            mass_props=sim_utils.MassCfg(mass=_BOX.mass),
            collision_props=sim_utils.UsdPhysicsCollisionCfg(),
        ),
    )


@configclass
class PickActionsCfg:
    """Differential IK of the grasp point, and a gripper that opens for values >= 0."""

    arm_action = DifferentialInverseKinematicsActionCfg(
        asset_name=pick_terms.ROBOT,
        joint_names=list(ARM_JOINTS),
        body_name=HAND_BODY,
        controller=DifferentialIKControllerCfg(command_type="pose", use_relative_mode=True, ik_method="dls"),
        scale=1.0,
        body_offset=DifferentialInverseKinematicsActionCfg.OffsetCfg(pos=(0.0, 0.0, GRASP_OFFSET)),
    )
    gripper_action = BinaryJointPositionActionCfg(
        asset_name=pick_terms.ROBOT,
        joint_names=_FINGERS,
        open_command_expr=dict.fromkeys(_FINGERS, MAX_FINGER),
        close_command_expr=dict.fromkeys(_FINGERS, 0.0),
    )


@configclass
class _TermsCfg(ObservationGroupCfg):
    def __post_init__(self) -> None:
        self.enable_corruption = False
        self.concatenate_terms = False


@configclass
class PolicyCfg(_TermsCfg):
    """What a policy sees."""

    joint_pos = ObservationTermCfg(func=pick_terms.joint_pos)
    gripper_pos = ObservationTermCfg(func=pick_terms.gripper_pos)
    eef_pos = ObservationTermCfg(func=pick_terms.eef_pos)
    eef_quat = ObservationTermCfg(func=pick_terms.eef_quat)
    cube_pos = ObservationTermCfg(func=pick_terms.cube_pos)
    cube_quat = ObservationTermCfg(func=pick_terms.cube_quat)


@configclass
class SubtaskTermsCfg(_TermsCfg):
    """Signals of the subtasks."""

    grasp = ObservationTermCfg(func=pick_terms.grasp)
    reach = ObservationTermCfg(func=pick_terms.reach)


@configclass
class PickObservationsCfg:
    """Groups as Isaac Lab's Mimic environments have them."""

    policy: PolicyCfg = PolicyCfg()
    subtask_terms: SubtaskTermsCfg = SubtaskTermsCfg()


@configclass
class PickTerminationsCfg:
    """When an episode ends, outside of data generation."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    success = TerminationTermCfg(func=pick_terms.picked)


@configclass
class PickEventsCfg:
    """What a reset does."""

    reset_all = EventTermCfg(func=mdp.reset_scene_to_default, mode="reset")
    reset_scene = EventTermCfg(func=pick_terms.reset_scene, mode="reset", params={"variant": "D0"})


def newton_cfg(njmax: int, nconmax: int) -> NewtonCfg:
    """Physics as in env=mujoco: steps of 5 ms, elliptic cones; contacts so stiff that a finger sinks in less than 1 mm.

    Args:
        njmax: most constraint rows of a slot.
        nconmax: most contacts of a slot.
    """
    return NewtonCfg(
        num_substeps=2,
        use_cuda_graph=True,  # which a CPU ignores
        default_shape_cfg=NewtonShapeCfg(ke=1e4, kd=200.0),
        solver_cfg=MJWarpSolverCfg(
            integrator="implicitfast", cone="elliptic", impratio=10.0, njmax=njmax, nconmax=nconmax,
            iterations=20, ls_iterations=50,
        ),
    )  # fmt: skip


@configclass
class PickIkRelEnvCfg(ManagerBasedRLEnvCfg, MimicEnvCfg):
    """Actions are pose changes: metres, and radians as an axis-angle vector."""

    # Newton's slots are worlds of their own, so all may stand at one place; then a slot's numbers do not depend on it.
    scene: PickSceneCfg = PickSceneCfg(num_envs=16, env_spacing=0.0, replicate_physics=True)
    observations: PickObservationsCfg = PickObservationsCfg()
    actions: PickActionsCfg = PickActionsCfg()
    terminations: PickTerminationsCfg = PickTerminationsCfg()
    events: PickEventsCfg = PickEventsCfg()
    commands = None
    rewards = None
    curriculum = None

    def __post_init__(self) -> None:
        self.decimation = 5
        self.episode_length_s = 30.0
        self.sim.dt = 0.01
        self.sim.physics = newton_cfg(njmax=120, nconmax=40)
        self.mimic_recorder_config = AnnotatedRecorderCfg()
        datagen = self.datagen_config
        datagen.name = PickTask.name
        datagen.generation_guarantee = True
        datagen.generation_keep_failed = False
        datagen.generation_num_trials = 10
        datagen.generation_select_src_per_subtask = False
        datagen.generation_transform_first_robot_pose = False
        datagen.generation_interpolate_from_last_target_pose = True
        self.subtask_configs[pick_terms.EEF] = [
            _subtask("reach", "grasp", (5, 10), "Grasp the cube.", "Lift the cube."),
            _subtask(None, None, (0, 0), "Lift the cube.", ""),
        ]


@configclass
class SkillSubTaskConfig(SubTaskConfig):
    """One more field than Isaac Lab's, for generator=skillgen."""

    subtask_start_signal: str | None = None
    """Signal from which on the skill may begin."""


def _subtask(
    start: str | None, end: str | None, offset: tuple[int, int], description: str, following: str
) -> SkillSubTaskConfig:
    """One of the two, with the values of conf/task/pick.yaml."""
    return SkillSubTaskConfig(
        object_ref=pick_terms.CUBE,
        subtask_start_signal=start,
        subtask_term_signal=end,
        subtask_term_offset_range=offset,
        selection_strategy="nearest_neighbor_object",
        selection_strategy_kwargs={"nn_k": 3},
        action_noise=ACTION_NOISE,
        num_interpolation_steps=5,
        num_fixed_steps=0,
        apply_noise_during_interpolation=False,
        description=description,
        next_subtask_description=following,
    )


@configclass
class PickIkAbsEnvCfg(PickIkRelEnvCfg):
    """Actions are poses: metres, and an xyzw quaternion."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.actions.arm_action.controller = DifferentialIKControllerCfg(
            command_type="pose", use_relative_mode=False, ik_method="dls"
        )
