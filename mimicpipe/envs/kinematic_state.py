"""The state of N kinematic slots: one (C, N) tensor, cut into named rows once.

In memory a component's numbers lie side by side, which is what tensor operations want; or, for a loop over slots, a
slot's do.

Bodies come first, the eef as body 0, then the M objects, each a 4x4 pose in 16 rows, so that a task can look at
(N, 4, 4) poses without a copy. Then one row of gripper width, M rows of "carried" (0 or 1) and M rows of linear speed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(slots=True)
class KinematicState:
    """Views of one state tensor; writing to a view changes the state."""

    data: Tensor
    """(16 (M + 1) + 1 + 2 M, N) float32, the state itself."""
    bodies: Tensor
    """(M + 1, 4, 4, N) poses; body 0 is the eef."""
    frames: Tensor
    """(M + 1, 3, 4, N): their rotations and positions."""
    frame_rows: tuple[Tensor, ...]
    """Three (M + 1, 1, 4, N): the rows of [rotation | position], to be multiplied by columns of a rotation."""
    eef_rot: Tensor
    """(3, 3, N)"""
    eef_pos: Tensor
    """(3, N), metres."""
    object_rot: Tensor
    """(M, 3, 3, N)"""
    object_pos: Tensor
    """(M, 3, N), metres."""
    object_height: Tensor
    """(M, N) heights of the objects' centres, metres."""
    object_up: Tensor
    """(M, 3, N) the base frame's up axis in each object's frame."""
    width: Tensor
    """(N,) distance between the fingers, metres."""
    held: Tensor
    """(M, N), 1 where the object is carried, 0 elsewhere."""
    speed: Tensor
    """(M, N) linear speeds in the last step, m/s."""
    always: Tensor
    """(1, N) bool, true; no part of the state."""

    @property
    def by_slot(self) -> npt.NDArray[np.float32]:
        """(N, C) the same memory for compiled loops; only of a state on the CPU."""
        return self.data.numpy().T

    @classmethod
    def over(cls, data: Tensor, num_objects: int) -> "KinematicState":
        """Views of `data` (C, N)."""
        bodies = data[: 16 * (num_objects + 1)].view(num_objects + 1, 4, 4, -1)
        rest = data[16 * (num_objects + 1) :]
        return cls(
            data=data,
            bodies=bodies,
            frames=bodies[:, :3],
            frame_rows=bodies[:, :3].unsqueeze(1).unbind(2),
            eef_rot=bodies[0, :3, :3],
            eef_pos=bodies[0, :3, 3],
            object_rot=bodies[1:, :3, :3],
            object_pos=bodies[1:, :3, 3],
            object_height=bodies[1:, 2, 3],
            object_up=bodies[1:, 2, :3],
            width=rest[0],
            held=rest[1 : 1 + num_objects],
            speed=rest[1 + num_objects :],
            always=torch.ones(1, data.shape[1], dtype=torch.bool, device=data.device),
        )

    @classmethod
    def empty(cls, num_objects: int, num_envs: int, device: torch.device, *, by_slot: bool = False) -> "KinematicState":
        """A state of zeros whose poses have a valid last row; with `by_slot` a slot's numbers lie side by side."""
        rows = 16 * (num_objects + 1) + 1 + 2 * num_objects
        data = torch.zeros(num_envs, rows, device=device).t() if by_slot else torch.zeros(rows, num_envs, device=device)
        state = cls.over(data, num_objects)
        state.bodies[:, 3, 3] = 1.0
        return state

    def gather(self, env_ids: Tensor) -> "KinematicState":
        """A copy of the slots `env_ids` (K,)."""
        return KinematicState.over(self.data.index_select(1, env_ids), self.held.shape[0])

    def scatter(self, other: "KinematicState", env_ids: Tensor) -> None:
        """Overwrite the slots `env_ids` (K,) with those of `other`."""
        self.data.index_copy_(1, env_ids, other.data)
