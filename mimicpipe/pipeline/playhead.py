"""Waypoints of every slot in one tensor per eef, and where each slot stands in them.

A row of the buffer is `[target pose 16 | gripper G | noise P]`. Advancing N slots by one step is one gather per eef,
whatever N is; an eef that has come to its last waypoint holds it. Where slots stand is known on the host, which loads
the plans; only the waypoints are on the device.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.compiled import compiled
from mimicpipe.pipeline.ends import Ints
from mimicpipe.pipeline.protocol import EefPlans, Plan, Waypoints, WriteWaypoints
from mimicpipe.pipeline.transfer import uploader

Singles = npt.NDArray[np.float32]

_INITIAL_STEPS = 64


@compiled
def move_on(cursor: Ints, last: Ints, slots: Ints, sizes: Ints, at: Ints) -> None:
    """Fill in where slots stand in each step, `at` (R,), and move their `cursor` (N,), at most to `last` (N,).

    Step m is that of the first `sizes[m]` of slots (K,); its rows are behind those of the step before.
    """
    row = 0
    for m in range(len(sizes)):
        for i in range(sizes[m]):
            slot = slots[i]
            at[row] = cursor[slot]
            cursor[slot] = min(cursor[slot] + 1, last[slot])
            row += 1


@compiled
def put(slots: Ints, lengths: Ints, waypoints: Singles, rows: Singles) -> None:
    """Copy waypoints (M, L, W), of each as many as its length (M,) says, to the rows (N, S, W) of slots (M,)."""
    for m in range(len(slots)):
        rows[slots[m], : lengths[m]] = waypoints[m, : lengths[m]]


_Unwritten = tuple[str, Ints, WriteWaypoints]
"""(eef, slots (M,), what writes their waypoints)."""


class Playheads:
    """Plans being played, batched over N slots."""

    def __init__(
        self, num_envs: int, eef_names: tuple[str, ...], gripper_dim: int, noise_dim: int, device: torch.device
    ) -> None:
        self._num_envs = num_envs
        self._gripper_dim = gripper_dim
        self._split = (16, gripper_dim, noise_dim)
        self._width = sum(self._split)
        self._device = device
        self._upload = uploader(device)
        self._has_noise = False
        # Waypoints are written where they are needed first, which may be another thread than the one that plans.
        self._unwritten: list[_Unwritten] = []
        self._writing = threading.Lock()
        self._rows = {
            eef: torch.zeros(num_envs, _INITIAL_STEPS, self._width, dtype=torch.float32, device=device)
            for eef in eef_names
        }
        # Where each slot stands, and where it stops, as rows of the whole buffer.
        first = np.arange(num_envs) * _INITIAL_STEPS
        self._cursor = {eef: first.copy() for eef in eef_names}
        self._last = {eef: first.copy() for eef in eef_names}

    def load(self, eef: str, slots: Ints, plans: EefPlans) -> None:
        """Put new waypoints in front of slots (M,), one row of `plans` each."""
        lengths = plans.lengths.cpu().numpy()
        self._ensure(eef, int(lengths.max()))
        self._has_noise |= plans.has_noise
        if isinstance(plans.given, Tensor):
            with self._writing:
                self._write(self._take_unwritten())
                self._put(eef, slots, lengths, plans.given)
        else:
            self._unwritten.append((eef, slots, plans.given))
        first = slots * self._rows[eef].shape[1]
        self._cursor[eef][slots] = first
        self._last[eef][slots] = first + (lengths - 1)

    def _put(self, eef: str, slots: Ints, lengths: Ints, waypoints: Tensor) -> None:
        if self._device.type == "cpu":
            put(slots, lengths, waypoints.numpy(), self._rows[eef].numpy())
        else:
            self._rows[eef][:, : waypoints.shape[1]].index_copy_(0, self._upload(slots), waypoints)

    def _take_unwritten(self) -> list[_Unwritten]:
        unwritten, self._unwritten = self._unwritten, []
        return unwritten

    def _write(self, unwritten: Sequence[_Unwritten]) -> None:
        for eef, slots, write in unwritten:
            write(slots, self._rows[eef].numpy())

    def load_plan(self, slot: int, plan: Plan) -> int:
        """Put one known plan in front of a slot; returns its steps (the longest eef's)."""
        longest = 0
        for eef in self._rows:
            steps = plan.targets[eef].shape[0]
            longest = max(longest, steps)
            rows = torch.zeros(1, steps, self._width, dtype=torch.float32, device=self._device)
            rows[..., :16] = plan.targets[eef].reshape(steps, 16)
            rows[..., 16 : 16 + self._gripper_dim] = plan.grippers[eef]
            noise = plan.noise.get(eef)
            if noise is not None:
                rows[..., 16 + self._gripper_dim :] = noise
            plans = EefPlans(torch.tensor([0]), torch.tensor([steps]), rows, has_noise=noise is not None)
            self.load(eef, np.asarray([slot], dtype=np.int64), plans)
        return longest

    def advance(self, slots: Ints) -> Waypoints:
        """The current waypoint of slots (K,); their playheads move one step."""
        return self.advance_along(slots, np.asarray([len(slots)]))()

    def advance_along(self, slots: Ints, sizes: Ints) -> Callable[[], Waypoints]:
        """Move the playheads several steps, step m those of the first `sizes[m]` of slots (K,).

        Returns:
            A function that gives the waypoints of these steps, one step behind the other, until others are loaded for
            one of these slots.
        """
        at = {}
        for eef in self._rows:
            at[eef] = np.empty(int(sizes.sum()), dtype=np.int64)
            move_on(self._cursor[eef], self._last[eef], slots, sizes, at[eef])
        capacity = {eef: rows.shape[1] for eef, rows in self._rows.items()}
        return partial(self._gather, self._take_unwritten(), at, capacity, has_noise=self._has_noise)

    def _gather(
        self, unwritten: Sequence[_Unwritten], at: Mapping[str, Ints], capacity: Mapping[str, int], *, has_noise: bool
    ) -> Waypoints:
        """The waypoints `at` (R,) rows of a buffer with room for `capacity` of each slot, which may have grown."""
        with self._writing:
            self._write(unwritten)
            buffers = dict(self._rows)
        targets, grippers, noise = {}, {}, {}
        for eef, rows in buffers.items():
            here = at[eef]
            if rows.shape[1] != capacity[eef]:
                slot, step = np.divmod(here, capacity[eef])
                here = slot * rows.shape[1] + step
            row = rows.view(-1, self._width).index_select(0, self._upload(here))
            pose, grippers[eef], noise[eef] = row.split(self._split, dim=1)
            targets[eef] = pose.view(-1, 4, 4)
        return Waypoints(targets, grippers, noise if has_noise else None)

    def _ensure(self, eef: str, steps: int) -> None:
        rows = self._rows[eef]
        if steps <= rows.shape[1]:
            return
        capacity = max(steps, 2 * rows.shape[1])
        with self._writing:
            self._grow(eef, capacity)
        moved = np.arange(self._num_envs) * (capacity - rows.shape[1])
        self._cursor[eef] += moved
        self._last[eef] += moved

    def _grow(self, eef: str, capacity: int) -> None:
        rows = self._rows[eef]
        grown = torch.zeros(self._num_envs, capacity, self._width, dtype=torch.float32, device=self._device)
        grown[:, : rows.shape[1]] = rows
        self._rows[eef] = grown
