"""Scripts of several arms: who waits for whom, and pauses that are drawn for each arm."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.errors import ConfigError
from mimicpipe.pools.experts import EXPERTS, Habits, Move, Scene, stay
from mimicpipe.pools.script_player import ScriptEnsemble
from mimicpipe.pools.scripted import expert_for

COUNT = 3
SEEDS = rng.attempt_seeds(0, np.arange(COUNT))


def ahead(scene: Scene, _habits: Habits) -> Tensor:
    pose = scene.commanded.clone()
    pose[:, 0, 3] += 0.1
    return pose


def start() -> Tensor:
    return poses.make_pose(torch.zeros(COUNT, 3), torch.eye(3).expand(COUNT, 3, 3))


def play(scripts: dict[str, tuple[Move, ...]], steps: int = 120) -> dict[str, Tensor]:
    """Grippers {eef: (T, K)} of arms that are at once where they are told to be."""
    where = {eef: start() for eef in scripts}
    ensemble = ScriptEnsemble(scripts, SEEDS, 0, 20, where)
    grippers: dict[str, list[Tensor]] = {eef: [] for eef in scripts}
    for _ in range(steps):
        commands = ensemble.act(where, {})
        if bool(ensemble.done.all()):
            break
        where = {eef: command.target for eef, command in commands.items()}
        for eef, command in commands.items():
            grippers[eef].append(command.gripper[:, 0])
    return {eef: torch.stack(values) for eef, values in grippers.items()}


def test_a_move_waits_until_another_arms_move_is_over() -> None:
    told = play({
        "left": (Move(ahead, GRIPPER_OPEN, pause=(2, 9), label="there"), Move(stay, GRIPPER_CLOSE, pause=(20, 20))),
        "right": (Move(stay, GRIPPER_OPEN, pause=(0, 0)), Move(stay, GRIPPER_CLOSE, pause=(0, 0), after="there")),
    })  # fmt: skip
    first_closed = {eef: (values == GRIPPER_CLOSE).int().argmax(dim=0) for eef, values in told.items()}
    # Both begin in the step after the left arm's pause, which differs from slot to slot.
    assert torch.equal(first_closed["left"], first_closed["right"])
    assert len(set(first_closed["left"].tolist())) > 1


def test_without_the_wait_the_arm_goes_on_alone() -> None:
    told = play({
        "left": (Move(ahead, GRIPPER_OPEN, pause=(9, 9)), Move(stay, GRIPPER_CLOSE)),
        "right": (Move(stay, GRIPPER_OPEN, pause=(0, 0)), Move(stay, GRIPPER_CLOSE)),
    })  # fmt: skip
    left, right = ((values == GRIPPER_CLOSE).int().argmax(dim=0) for values in told.values())
    assert (right < left).all()


def test_arms_that_wait_for_each_other_stand_still() -> None:
    told = play({
        "left": (Move(ahead, GRIPPER_CLOSE, label="a", after="b"),),
        "right": (Move(ahead, GRIPPER_CLOSE, label="b", after="a"),),
    })  # fmt: skip
    assert all(len(values) == 120 and (values >= 0).all() for values in told.values())


def test_a_label_that_no_other_arm_has_is_refused() -> None:
    scripts = {"left": (Move(stay, GRIPPER_OPEN, label="mine", after="mine"),), "right": (Move(stay, GRIPPER_OPEN),)}
    with pytest.raises(ValueError, match="a move of left waits for mine; no move of another arm has this label"):
        ScriptEnsemble(scripts, SEEDS, 0, 20, {eef: start() for eef in scripts})


def test_an_expert_of_other_arms_than_the_envs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def expert(_task: Task) -> dict[str, tuple[Move, ...]]:
        return {"left": (), "right": ()}

    monkeypatch.setitem(EXPERTS, "pick", expert)
    with pytest.raises(ConfigError, match="the expert for task pick moves left, right; this env has panda"):
        expert_for(KinematicEnv(PickTask(), 1))
