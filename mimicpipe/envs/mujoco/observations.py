"""What the MuJoCo env shows of a slot, as features of a dataset."""

from collections.abc import Sequence

from mimicpipe.envs.base import Feature
from mimicpipe.envs.mujoco.arms import Arm
from mimicpipe.envs.mujoco.panda import ARM_JOINTS
from mimicpipe.envs.tasks.base import Task

JOINTS, EEF_POSE, OBJECTS = "observation.state", "observation.eef_pose", "observation.environment_state"

_ARM = (*ARM_JOINTS, "panda_gripper_width")
_POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")


def observation_features(
    task: Task, arms: Sequence[Arm], cameras: Sequence[str], image_size: tuple[int, int]
) -> dict[str, Feature]:
    """{name: feature}. Several arms stand one behind the other in a feature, each with its prefix."""
    scene = (
        *(f"{name}_{part}" for name in task.body_names for part in _POSE),
        *(f"{p.name}_joint" for p in task.parts),
    )
    joints = tuple(arm.prefix + name for arm in arms for name in _ARM)
    poses = tuple(arm.prefix + name for arm in arms for name in _POSE)
    image = Feature("video", (*image_size, 3), ("height", "width", "channels"))
    return {
        JOINTS: Feature("float32", (len(joints),), joints),
        EEF_POSE: Feature("float32", (len(poses),), poses),
        OBJECTS: Feature("float32", (len(scene),), scene),
        **{f"observation.images.{name}": image for name in cameras},
    }
