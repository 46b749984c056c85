"""Several steps of some kinematic slots in one compiled call, in the background; see `MimicEnv.start_stretch`.

The loops are those of single steps, on the same numbers, so every bit is the same.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from mimicpipe.envs.kinematic_kernels import Ints, Singles
from mimicpipe.envs.kinematic_state import KinematicState
from mimicpipe.envs.stretch_rows import last_rows, rows_before

Play = Callable[[Singles, Ints, Singles], None]
"""(states (K + R, C) of which the first K are given, sizes (T,), actions (R, A) to fill in)."""


class KinematicStretch:
    """Steps of K slots.

    Args:
        start: (K, C) states to start from.
        sizes: rows of each step, not increasing; R in all.
        action_dim: A.
        play: takes the steps.
        succeeds: (R,) bool of states; the task's success.
        look: {feature: (R, *shape)} of states.
    """

    def __init__(
        self, start: Singles, sizes: Sequence[int], action_dim: int, play: Play,
        succeeds: Callable[[KinematicState], Tensor], look: Callable[[KinematicState], dict[str, Tensor]],
    ) -> None:  # fmt: skip
        self._sizes = np.asarray(sizes, dtype=np.int64)
        count, rows = len(start), int(self._sizes.sum())
        self._count = count
        self._states = torch.empty(count + rows, start.shape[1])
        self._states.numpy()[:count] = start
        self._actions = torch.empty(rows, action_dim)
        self._play, self._succeeds, self._look = play, succeeds, look
        self._success: Tensor | None = None

    def run(self) -> None:
        """Take the steps, and judge them, as there is time for it here."""
        self._play(self._states.numpy(), self._sizes, self._actions.numpy())
        with torch.inference_mode():
            self._success = self._succeeds(self._part(self._states[self._count :]))

    @property
    def final(self) -> Singles:
        """(K, C) where each slot has come to."""
        return self._states.numpy()[last_rows(self._sizes)]

    @property
    def actions(self) -> Tensor:
        """(R, A) float32."""
        return self._actions

    def success(self) -> Tensor:
        """(R,) bool: the task's goal state holds after the row's action."""
        if self._success is None:
            raise RuntimeError("the stretch has not run")
        return self._success

    def observe(self) -> dict[str, Tensor]:
        """{feature: (R, *shape)} before the row's action."""
        before = torch.from_numpy(rows_before(self._sizes))
        return self._look(self._part(self._states.index_select(0, before)))

    def _part(self, states: Tensor) -> KinematicState:
        objects = (states.shape[1] - 17) // 18
        return KinematicState.over(states.t(), objects)
