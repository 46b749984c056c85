import pytest
import torch
from example_runs import attempts

from examples.mirrored_pool import MirroredPool, mirrored
from mimicpipe import poses
from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.actions import actions_to_poses
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.preflight import BUNDLED_DEMOS

SUBTASKS = {"panda": [SubTaskConfig("cube", "grasp"), SubTaskConfig("cube")]}


@pytest.fixture(scope="module")
def demos() -> list[SourceDemo]:
    pool = MirroredPool(str(BUNDLED_DEMOS / "pick.hdf5"), max_demos=3)
    return pool.load(KinematicEnv(PickTask(), 1), SUBTASKS).demos


def test_each_demo_has_an_image(demos):
    assert [demo.name for demo in demos] == [f"demo_{i}{end}" for end in ("", "_mirrored") for i in range(3)]
    for demo, image in zip(demos[:3], demos[3:], strict=True):
        pose = image.info.object_poses["cube"]
        assert torch.equal(pose[:, 1, 3], -demo.info.object_poses["cube"][:, 1, 3])
        assert torch.equal(pose[:, 0, 3], demo.info.object_poses["cube"][:, 0, 3])
        assert float(poses.rotation_defect(image.info.eef_pose["panda"]).max()) < 1e-5


def test_the_image_of_the_image_is_the_demo(demos):
    twice = mirrored(mirrored(demos[0]))
    assert torch.equal(twice.actions, demos[0].actions)
    assert torch.equal(twice.info.target_eef_pose["panda"], demos[0].info.target_eef_pose["panda"])


def test_its_actions_ask_for_its_targets(demos):
    image = demos[3]
    asked = actions_to_poses("ik_rel", image.info.eef_pose["panda"], image.actions)
    assert torch.allclose(asked, image.info.target_eef_pose["panda"], atol=2e-4)


def test_attempts_are_made_of_images_too(run):
    folder = run("pool=mirrored", "env=kinematic", "recorder=none", "num_demos=20", "env.num_envs=8")
    names = {source["demo"] for row in attempts(folder) for source in row["source_demos"]}
    assert any(name.endswith("_mirrored") for name in names)
    assert any(not name.endswith("_mirrored") for name in names)
