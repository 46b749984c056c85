"""Turns motions into actions: the hand's target goes where it is sent, and the env's own conversion leads there.

A target of its own, and not the measured pose, is what a motion is added to: so a hand that nobody moves stays where it
is, instead of sinking by the servos' error at every step.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.collect.controls import RADIANS_PER_METRE, View
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.base import MimicEnv

MAX_LEAD = 0.04
"""How far a target may be ahead of the hand, metres: what blocks the hand is pushed no harder than that."""
MAX_LEAD_TURN = 0.3
"""The same of its rotation, radians."""


class Steering:
    """The hands' targets of an env of one slot.

    Attributes:
        active: arms that motions go to.
        closed: {eef: whether its gripper is told to close}.
    """

    def __init__(self, env: MimicEnv) -> None:
        self._env = env
        self._choices: list[tuple[str, ...]] = [(name,) for name in env.eef_names]
        if len(env.eef_names) > 1:
            self._choices.append(env.eef_names)
        self.active: tuple[str, ...] = self._choices[0]
        self.restart()

    def restart(self) -> None:
        """Hold the hands where they are, grippers open; after a reset."""
        self._targets = {name: self._measured(name) for name in self._env.eef_names}
        self.closed = dict.fromkeys(self._env.eef_names, False)

    def next_arm(self) -> None:
        """Steer the other arm; after the last one, both in parallel."""
        place = self._choices.index(self.active)
        self.active = self._choices[(place + 1) % len(self._choices)]

    def toggle_gripper(self) -> None:
        """Close the active grippers if one of them is open, else open them."""
        close = not all(self.closed[name] for name in self.active)
        self.closed.update(dict.fromkeys(self.active, close))

    def action(self, motion: Sequence[float], speed: float, view: View) -> Tensor:
        """The action (1, A) of the next step.

        Args:
            motion: see `controls`.
            speed: of a motion of 1, m/s.
            view: whose directions the motion is in.
        """
        if any(motion):
            directions = torch.tensor([view.right(), view.away(), (0.0, 0.0, 1.0)], dtype=torch.float64)
            numbers = torch.tensor(motion, dtype=torch.float64)
            way = speed / self._env.fps
            shift = (numbers[:3, None] * directions).sum(0) * way
            turn = (numbers[3:, None] * directions).sum(0) * way * RADIANS_PER_METRE
            for name in self.active:
                self._targets[name] = moved(self._targets[name], shift, turn)
        for name, target in self._targets.items():
            self._targets[name] = leashed(target, self._measured(name))
        device = self._env.device
        grippers = {name: torch.tensor([[GRIPPER_CLOSE if shut else GRIPPER_OPEN]], device=device)
                    for name, shut in self.closed.items()}  # fmt: skip
        return self._env.target_eef_pose_to_action(self._on(device), grippers)

    def _on(self, device: torch.device) -> Mapping[str, Tensor]:
        return {name: target.to(device, torch.float32) for name, target in self._targets.items()}

    def _measured(self, name: str) -> Tensor:
        return self._env.get_robot_eef_pose(name).to("cpu", torch.float64)


def moved(pose: Tensor, shift: Tensor, turn: Tensor) -> Tensor:
    """A pose (1, 4, 4), shifted by (3,) metres and turned in place by the axis-angle (3,), both in the slot's frame."""
    rot = poses.compose_rotations(poses.matrix_from_axis_angle(turn[None]), pose[:, :3, :3])
    return poses.make_pose(pose[:, :3, 3] + shift, rot)


def leashed(target: Tensor, measured: Tensor) -> Tensor:
    """A target (1, 4, 4), brought back to within `MAX_LEAD` and `MAX_LEAD_TURN` of the measured pose (1, 4, 4)."""
    shift = target[:, :3, 3] - measured[:, :3, 3]
    turn = poses.axis_angle_from_matrix(
        poses.compose_rotations(target[:, :3, :3], measured[:, :3, :3].transpose(1, 2).contiguous())
    )
    far, wide = poses.vector_norm(shift), poses.vector_norm(turn)
    if float(far) <= MAX_LEAD and float(wide) <= MAX_LEAD_TURN:
        return target
    shift = shift * (MAX_LEAD / far).clamp(max=1.0)
    turn = turn * (MAX_LEAD_TURN / wide).clamp(max=1.0)
    rot = poses.compose_rotations(poses.matrix_from_axis_angle(turn), measured[:, :3, :3])
    return poses.make_pose(measured[:, :3, 3] + shift, rot)
