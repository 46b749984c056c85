"""Isaac Lab's own registered stack task, with local shapes: it is made, described, reset and stepped as any other."""

from functools import partial

import numpy as np
import torch
from isaaclab_marks import SLOW, require
from isaaclab_stack_demos import write_stack_demos

from mimicpipe import rng
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.envs.isaaclab.env import IsaacLabEnv
from mimicpipe.pools.hdf5 import Hdf5Pool

require()
pytestmark = list(SLOW)

STACK = "Isaac-Stack-Cube-Franka-IK-Rel-Mimic-v0"


def localized(cfg, run) -> None:
    from mimicpipe.envs.isaaclab.local_shapes import franka_stack

    run.append(type(cfg).__name__)
    franka_stack(cfg)


def test_the_registered_stack_task_serves_the_pipeline(tmp_path):
    seen: list[str] = []
    env = IsaacLabEnv(STACK, 2, presets=["newton_mjwarp"], configure=partial(localized, run=seen), env_spacing=0.0)
    try:
        assert seen == ["FrankaCubeStackIKRelMimicEnvCfg"]
        assert (env.layout, env.eef_names, env.object_names) == ("ik_rel", ("franka",), ("cube_1", "cube_2", "cube_3"))
        assert env.task_settings is not None
        settings = env.task_settings
        assert [s.subtask_term_signal for s in settings.subtasks["franka"]] == ["grasp_1", "stack_1", "grasp_2", None]
        assert settings.datagen.generation_select_src_per_subtask
        assert list(env.get_subtask_term_signals()) == ["grasp_1", "grasp_2", "stack_1"]
        assert env.get_subtask_start_signals() == {}
        assert not env.success().any()
        _check_reset(env)
        read = Hdf5Pool(str(write_stack_demos(tmp_path / "stack.hdf5")), max_demos=2).load(env, settings.subtasks)
        pool = DataGenInfoPool(env, settings.subtasks)
        pool.add_demos(read.demos)
        assert len(read.demos) == 2
    finally:
        env.close()


def _check_reset(env: IsaacLabEnv) -> None:
    """The hand's frame is a sensor, which Isaac Lab leaves where it was before the reset."""
    seeds = rng.attempt_seeds(0, np.array([1, 2]))
    env.reset(env.all_ids(), seeds)
    first = env.get_robot_eef_pose("franka")
    shift = torch.zeros(2, 6)
    shift[:, 2] = -0.1
    for _ in range(3):
        still = {"franka": env.get_robot_eef_pose("franka")}
        env.step(env.target_eef_pose_to_action(still, {"franka": torch.ones(2, 1)}, {"franka": shift}))
    moved = env.get_robot_eef_pose("franka")
    assert float(moved[:, 2, 3].max()) < float(first[:, 2, 3].min()) - 0.02
    env.reset(torch.tensor([1]), seeds[:1])
    again = env.get_robot_eef_pose("franka")
    assert torch.equal(again[1], first[0])
    assert torch.equal(again[0], moved[0])
