"""Ways of one arm while another one is on its own: they do not meet, and where they would, one waits."""

from functools import cache

import numpy as np
import pytest
import torch
from planning_cases import NOTHING, SETTINGS, scenes_of

from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.bimanual_lift import BimanualLiftTask
from mimicpipe.planners.collision import Collisions
from mimicpipe.planners.joint_motion import NoWayError, Search
from mimicpipe.rng import attempt_seeds

MIDDLE = (0.45, 0.0, 0.35)
"""Where both hands want to be, metres."""
GOES, STAYS = 40, 30
"""Steps of the left hand to the middle, and there."""


@cache
def env() -> MujocoEnv:
    env = MujocoEnv(BimanualLiftTask(), 1)
    env.reset(torch.arange(1), attempt_seeds(1, [0]))
    return env


def pose_of(eef: str) -> np.ndarray:
    return env().get_robot_eef_pose(eef)[0].double().numpy()


def moved_to(eef: str, position: tuple[float, float, float]) -> np.ndarray:
    goal = pose_of(eef)
    goal[:3, 3] = position
    return goal


def straight(eef: str, goal: np.ndarray, steps: int) -> np.ndarray:
    start = pose_of(eef)
    return np.stack([start + (goal - start) * k / steps for k in range(1, steps + 1)])


def left_goes(*, back: bool) -> np.ndarray:
    there = straight("left", moved_to("left", MIDDLE), GOES)
    stay = np.repeat(there[-1:], STAYS, axis=0)
    return np.concatenate((there, stay, there[::-1])) if back else np.concatenate((there, stay))


def request(goal: np.ndarray, others: dict[str, np.ndarray]) -> MotionRequest:
    return MotionRequest(
        eef="right",
        seed=7,
        number=0,
        start=pose_of("right").astype(np.float32),
        goal=goal.astype(np.float32),
        gripper=np.ones(1, dtype=np.float32),
        state=env().get_state()[0].numpy(),
        skill=NOTHING,
        acts_on=None,
        others={eef: targets.astype(np.float32) for eef, targets in others.items()},
    )


def is_apart(joints: np.ndarray, others: dict[str, np.ndarray]) -> bool:
    """Whether the right arm, at these joint positions (T, 7), touches nothing while the left one goes its way."""
    looked = Collisions(
        scenes_of(env()), "right", env().get_state()[0].numpy(), closing=False, clearance=0.005, others=others
    )
    for step, row in enumerate(joints):
        looked.at(step + 1)
        if looked.overlap(row, 0.0) is not None:
            return False
    return True


def test_another_arm_is_where_its_targets_lead_at_each_step() -> None:
    targets = left_goes(back=False)
    looked = Collisions(
        scenes_of(env()), "right", env().get_state()[0].numpy(), closing=False, clearance=0.005,
        others={"left": targets},
    )  # fmt: skip
    assert looked.last == len(targets)
    right = scenes_of(env()).arms["right"]
    there = right.reach(looked.start, moved_to("right", MIDDLE))
    assert there is not None
    assert looked.overlap(there, 0.0) is None
    looked.at(looked.last)
    assert looked.overlap(there, 0.0) is not None
    looked.at(0)
    assert looked.overlap(there, 0.0) is None


def test_a_way_that_would_meet_another_arm_waits_until_that_has_gone() -> None:
    others, goal = {"left": left_goes(back=True)}, moved_to("right", MIDDLE)
    alone = Search(scenes_of(env()), request(goal, {}), SETTINGS).run()
    assert not is_apart(alone.followed, others)
    motion = Search(scenes_of(env()), request(goal, others), SETTINGS).run()
    assert is_apart(motion.followed, others)
    waits = len(others["left"])
    assert np.array_equal(motion.targets[:waits], np.repeat(request(goal, {}).start[None], waits, axis=0))
    assert np.array_equal(motion.targets[-1], request(goal, {}).goal)
    assert len(motion.targets) == len(motion.joints) == len(motion.followed)


def test_a_way_that_is_free_beside_another_arm_does_not_wait() -> None:
    others, goal = {"left": left_goes(back=True)}, moved_to("right", (0.45, -0.4, 0.35))
    motion = Search(scenes_of(env()), request(goal, others), SETTINGS).run()
    assert is_apart(motion.followed, others)
    assert len(motion.targets) == len(Search(scenes_of(env()), request(goal, {}), SETTINGS).run().targets)


def test_there_is_no_way_to_where_another_arm_stays() -> None:
    with pytest.raises(NoWayError, match=r"ends in a collision|was found|cannot follow"):
        Search(scenes_of(env()), request(moved_to("right", MIDDLE), {"left": left_goes(back=False)}), SETTINGS).run()


def test_what_another_hand_holds_moves_with_it() -> None:
    """The left hand is in the middle with the carton between its fingers, and takes it to its side."""
    scenes, state = scenes_of(env()), env().get_state()[0].numpy().copy()
    model, left, right = scenes.model, scenes.arms["left"], scenes.arms["right"]
    joints = left.reach(state[1 + left.columns(model)], moved_to("left", MIDDLE))
    assert joints is not None
    state[1 + left.columns(model)] = joints
    for finger in ("1", "2"):
        state[1 + int(model.joint(f"{left.prefix}panda_finger_joint{finger}").qposadr[0])] = 0.016
    carton = 1 + int(model.joint("carton_joint").qposadr[0])
    state[carton : carton + 3] = MIDDLE
    state[carton + 3 : carton + 7] = [1.0, 0.0, 0.0, 0.0]
    start = moved_to("left", MIDDLE)
    away = np.stack([start + k / 30 * (pose_of("left") - start) for k in range(1, 31)])
    for is_carried in (True, False):
        if not is_carried:  # open fingers hold nothing: the carton is left there
            for finger in ("1", "2"):
                state[1 + int(model.joint(f"{left.prefix}panda_finger_joint{finger}").qposadr[0])] = 0.04
        looked = Collisions(scenes, "right", state, closing=False, clearance=0.005, others={"left": away})
        there = right.reach(looked.start, moved_to("right", (MIDDLE[0], MIDDLE[1] - 0.04, MIDDLE[2])))
        assert there is not None
        assert looked.overlap(there, 0.0) is not None
        looked.at(looked.last)
        assert (looked.overlap(there, 0.0) is None) == is_carried
