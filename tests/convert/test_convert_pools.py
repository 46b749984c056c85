"""What is converted seeds runs, and files of recorder=hdf5 become what recorder=async would have written."""

from typing import Any

import pytest
import torch
from camera_episodes import FEATURES, small_episode
from hdf5_cases import differences
from in_process import run_main

from mimicpipe.convert.options import Options
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.pools.hdf5_file import read_demos
from mimicpipe.pools.lerobot import LeRobotPool
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.recorders.digest import digest_parts
from mimicpipe.recorders.hdf5 import Hdf5Recorder
from mimicpipe.recorders.layout import HDF5_NAME
from mimicpipe.tools.convert import convert

PICK = {"panda": [SubTaskConfig(object_ref="cube", subtask_term_signal="grasp"), SubTaskConfig(object_ref="cube")]}


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """(three bundled source demos, the dataset made of them, the file made of that)."""
    folder = tmp_path_factory.mktemp("bundled")
    options = Options(fps=20, task="Pick up the cube.", max_demos=3)
    convert(BUNDLED_DEMOS / "pick.hdf5", folder / "dataset", options)
    convert(folder / "dataset", folder / "back.hdf5", Options())
    return BUNDLED_DEMOS / "pick.hdf5", folder / "dataset", folder / "back.hdf5"


def test_source_demos_come_back(converted):
    source, _, back = converted
    everything: Any = {"eef_names": None, "object_names": None, "signal_names": None, "start_signal_names": None}
    before = read_demos(source, max_demos=3, gripper_from_actions=None, observations=True, **everything).demos
    after = read_demos(back, gripper_from_actions=None, observations=True, **everything).demos
    assert len(after) == 3
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one.actions, other.actions)
        assert one.initial_state is not None
        assert other.initial_state is not None
        assert torch.equal(one.initial_state, other.initial_state)
        assert one.observations.keys() == other.observations.keys() == {
            "observation.state", "observation.eef_pose", "observation.environment_state"
        }  # fmt: skip
        for group in ("eef_pose", "object_poses", "target_eef_pose", "gripper_action", "subtask_term_signals"):
            mine, others = getattr(one.info, group), getattr(other.info, group)
            assert mine.keys() == others.keys()
            assert all(torch.equal(mine[name], others[name]) for name in mine)


def test_a_runs_dataset_is_a_pool_as_before(tmp_path):
    arguments = ["env=kinematic", "num_demos=2", "tracker=none", "preview=false", f"hydra.run.dir={tmp_path / 'run'}"]
    assert run_main(arguments, tmp_path) == 0
    dataset = tmp_path / "run" / "dataset"
    convert(dataset, tmp_path / "demos.hdf5", Options())
    convert(tmp_path / "demos.hdf5", tmp_path / "again", Options())
    assert digest_parts(tmp_path / "again") == digest_parts(dataset)
    env = KinematicEnv(PickTask("D0"), num_envs=1)
    before, after = (LeRobotPool(root).load(env, PICK).demos for root in (dataset, tmp_path / "again"))
    assert len(after) == 2
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one.info.target_eef_pose["panda"], other.info.target_eef_pose["panda"])
        assert torch.equal(one.info.subtask_term_signals["grasp"], other.info.subtask_term_signals["grasp"])


def test_a_file_of_recorder_hdf5_becomes_the_dataset_of_recorder_async(recorded_dataset, tmp_path):
    recorder = Hdf5Recorder(
        tmp_path / "demos", "local/demos", 20, FEATURES, robot_type="panda", run_info={"task": "pick", "seed": 3}
    )
    for number in range(3):
        recorder.commit(small_episode(number, 4 + number))
    recorder.finalize()
    convert(tmp_path / "demos", tmp_path / "dataset", Options(images=True))
    assert digest_parts(tmp_path / "dataset") == digest_parts(recorded_dataset)
    convert(tmp_path / "dataset", tmp_path / "back.hdf5", Options(frames=True))
    assert differences(tmp_path / "demos" / HDF5_NAME, tmp_path / "back.hdf5") == []
