"""Files as MimicGen writes them (mimicgen/utils/file_utils.py `write_demo_to_hdf5`, scripts/prepare_src_dataset.py)."""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from mimicpipe import poses
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.conversion import conversion_of
from mimicpipe.pools.hdf5 import Hdf5Pool
from mimicpipe.preflight import BUNDLED_DEMOS

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

STACK = {"panda": [SubTaskConfig(object_ref="cubeA", subtask_term_signal="grasp"), SubTaskConfig(object_ref="cubeB")]}
FRAME = np.array([-0.56, 0.0, 0.8])
"""This env's frame in robosuite's world: the Panda's place at the table, at the height of its surface."""


@pytest.fixture
def file(tmp_path):
    """Demos of the package as robosuite would have them: in the world's frame, grippers closing at +1, float64."""
    path = tmp_path / "stack.hdf5"
    with h5py.File(BUNDLED_DEMOS / "stack.hdf5") as source, h5py.File(path, "w") as out:
        data = out.create_group("data")
        data.attrs["total"] = 1
        data.attrs["env_args"] = json.dumps({"env_name": "Stack_D0", "type": 1, "env_kwargs": {}}, indent=4)
        for number in range(3):
            demo, group = source[f"data/demo_{number}"], data.create_group(f"demo_{number}")
            info, count = demo["obs/datagen_info"], len(demo["actions"])
            group.attrs["num_samples"], group.attrs["model_file"] = count, "<mujoco/>"
            group["actions"] = demo["actions"][()] * ([1.0] * 6 + [-1.0])
            group["states"] = np.zeros((count, 45))
            group["obs/robot0_eef_pos"] = np.zeros((count, 3))
            group["src_demo_inds"], group["src_demo_labels"] = np.zeros(2, int), np.zeros((count, 1), int)
            group["datagen_info/eef_pose"] = in_world(info["eef_pose/panda"])
            group["datagen_info/target_pose"] = in_world(info["target_eef_pose/panda"])
            group["datagen_info/gripper_action"] = -info["gripper_action/panda"][()].astype(float)
            for name in ("cubeA", "cubeB"):
                group[f"datagen_info/object_poses/{name}"] = in_world(info[f"object_pose/{name}"])
            for name in ("grasp", "stack"):
                signal = info["subtask_term_signals/grasp"][()].astype(np.int64)
                group[f"datagen_info/subtask_term_signals/{name}"] = signal
            group["datagen_info"].attrs["env_interface_name"] = "MG_Stack"
            group["datagen_info"].attrs["env_interface_type"] = "robosuite"
    return path


def in_world(pose):
    pose = np.array(pose[()], float)
    pose[:, :3, 3] += FRAME
    return pose


@pytest.fixture
def env():
    return KinematicEnv(StackTask("D0"), num_envs=1)


def test_they_are_converted(file, env):
    ours = Hdf5Pool(BUNDLED_DEMOS / "stack.hdf5", max_demos=3).load(env, STACK).demos
    theirs = Hdf5Pool(file, frame=FRAME.tolist(), gripper_scale=-1.0).load(env, STACK).demos
    assert [demo.name for demo in theirs] == ["demo_0", "demo_1", "demo_2"]
    for a, b in zip(ours, theirs, strict=True):
        for field in ("eef_pose", "target_eef_pose", "object_poses", "gripper_action", "subtask_term_signals"):
            for name, value in getattr(a.info, field).items():
                torch.testing.assert_close(getattr(b.info, field)[name], value, atol=1e-6, rtol=0.0)


def test_without_a_conversion_they_are_refused(file, env):
    with pytest.raises(
        SourceDemoError, match=r"demo_0: recorded in robosuite: .*give pool\.gripper_scale=-1"
    ) as raised:
        Hdf5Pool(file).load(env, STACK)
    assert "\n" not in str(raised.value)


def test_they_seed_a_run(file, tmp_path):
    run = tmp_path / "run"
    arguments = [
        "env=kinematic",
        "task=stack",
        f"pool.path={file}",
        "pool.frame=[-0.56,0,0.8]",
        "pool.gripper_scale=-1",
    ]
    fast = ["tracker=none", "preview=false", "recorder=none", "env.num_envs=2", "num_demos=3", "max_attempts=8"]
    assert run_main([*arguments, *fast, f"hydra.run.dir={run}"], tmp_path) == 0
    assert json.loads((run / "run.json").read_text())["exit_reason"] == "num_demos"


def test_a_frame_is_a_pose():
    assert conversion_of(None, None) is None
    turned = conversion_of([1.0, 2.0, 3.0, 0.5, 0.5, 0.5, 0.5], None)
    assert turned is not None
    assert turned.gripper_scale == 1.0
    assert torch.equal(turned.frame[:3, 3], torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert float(poses.rotation_defect(turned.frame)) < 1e-12
    for wrong in ([1.0], [0.0] * 7, [float("nan"), 0.0, 0.0]):
        with pytest.raises(SourceDemoError, match=r"pool\.frame="):
            conversion_of(wrong, None)
