"""A policy that picks the cube of task=pick without having learned anything."""

import numpy as np
import torch

from mimicpipe.envs.actions import POSITION_SCALE

ABOVE, CLOSED, LIFT = 30, 36, 0.2


class PickPolicy:
    """Goes to the cube, closes the hand, lifts; every slot by itself.

    Args:
        lets_go: drop the cube so many steps after it was lifted; None holds it.

    Attributes:
        calls: (slots, steps) of each call.
    """

    def __init__(self, lets_go: int | None = None) -> None:
        self.lets_go = lets_go
        self.calls: list[tuple[list[int], list[int]]] = []

    def act(self, slots, seeds, steps, observations):
        self.calls.append((slots.tolist(), steps.tolist()))
        hand, cube = observations["observation.eef_pose"][:, :3], observations["observation.environment_state"][:, :3]
        step = torch.from_numpy(np.ascontiguousarray(steps))[:, None]
        target = torch.where(step < CLOSED, cube, hand + torch.tensor([0.0, 0.0, LIFT]))
        moves = ((target - hand) / POSITION_SCALE).clamp(-0.5, 0.5)
        gripper = torch.where(step < ABOVE, 1.0, -1.0)
        if self.lets_go is not None:
            gripper = torch.where(step > self.lets_go, 1.0, gripper)
        return torch.cat((moves, torch.zeros(len(slots), 3), gripper), dim=1)
