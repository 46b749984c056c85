"""Isaac Lab's own environments without its asset server: the same scene, built of primitives and our Panda."""

from typing import Any

import isaaclab.sim as sim_utils

from mimicpipe.envs.isaaclab.pick_cfg import ACTION_NOISE, PickSceneCfg, newton_cfg

_TABLE = (1.0, 1.4, 0.05)
"""Slab in place of the table, metres; its top is z = 0, and it is under every place a cube is put."""
_BLOCK = 0.0406
"""Side of a block, metres: the cubes' resting height in the environment's configuration is 0.0203."""
_BLOCK_MASS = 0.05
"""kg."""


def franka_stack(cfg: Any) -> None:
    """Change the configuration of a registered Franka cube-stacking environment in place.

    What the scene is made of is replaced, and with it the arm's servos, the solver's settings, the actions' scale and
    their noise; observations, events, success and subtasks stay.
    """
    scene, robot = cfg.scene, PickSceneCfg(num_envs=1, env_spacing=0.0).robot
    scene.replicate_physics = True
    scene.robot.spawn = robot.spawn
    scene.robot.actuators = robot.actuators
    scene.plane.spawn = _fixed((100.0, 100.0, 0.1))
    scene.plane.init_state.pos = (0.0, 0.0, -1.1)
    scene.table.spawn = _fixed(_TABLE)
    scene.table.init_state.pos = (0.5, 0.0, -_TABLE[2] / 2)
    scene.table.init_state.rot = (0.0, 0.0, 0.0, 1.0)
    for name in ("cube_1", "cube_2", "cube_3"):
        getattr(scene, name).spawn = sim_utils.CuboidCfg(
            size=(_BLOCK, _BLOCK, _BLOCK),
            rigid_props=sim_utils.UsdPhysicsRigidBodyCfg(),
            mass_props=sim_utils.MassCfg(mass=_BLOCK_MASS),
            collision_props=sim_utils.UsdPhysicsCollisionCfg(),
        )
    # Half of each change would be made, and noise of 3 cm would push a tower over: as env=mujoco has them.
    cfg.actions.arm_action.scale = 1.0
    for subtask in cfg.subtask_configs["franka"]:
        subtask.action_noise = ACTION_NOISE
    cfg.sim.dt, cfg.decimation = 0.01, 5  # what they are; the physics below is for these
    cfg.sim.physics = newton_cfg(njmax=300, nconmax=100)
    cfg.sim.physics.solver_cfg.use_mujoco_contacts = False  # of these a tower of blocks shakes by millimetres


def _fixed(size: tuple[float, float, float]) -> Any:
    return sim_utils.CuboidCfg(size=size, collision_props=sim_utils.UsdPhysicsCollisionCfg())
