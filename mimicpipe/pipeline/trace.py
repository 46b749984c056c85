"""What a watcher of a run wants to know of each frame, kept beside what is recorded, whatever the recorder is."""

from typing import Any, Protocol

import torch
from torch import Tensor

from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.protocol import SimEnv
from mimicpipe.pipeline.rollout import RolloutBuffer


class EpisodeWatcher(Protocol):
    """Learns from episodes while the run goes on."""

    def frame(self, env: Any, env_ids: Tensor | None, actions: Tensor) -> dict[str, Tensor]:
        """{column: (K, *shape)} of slots (K,) (None: all) before their actions (K, A)."""
        ...

    def succeeded(self, outcome: Outcome, initial_state: Tensor, actions: Tensor, columns: dict[str, Tensor]) -> None:
        """An attempt has succeeded; called in any order, before `settled`.

        Args:
            outcome: of the attempt.
            initial_state: (S,) float64 after the reset.
            actions: (T, A).
            columns: {column: (T, *shape)} of `frame`, on the host.
        """
        ...

    def settled(self, outcome: Outcome) -> None:
        """An attempt's outcome is certain; called in attempt order."""
        ...


class Trace:
    """A watcher's columns of the running episodes.

    Args:
        env: the simulator.
        watcher: whose.
    """

    def __init__(self, env: SimEnv, watcher: EpisodeWatcher) -> None:
        self.watcher = watcher
        self._env = env
        self._buffer = RolloutBuffer(env.num_envs, env.device)
        self._initial: Tensor | None = None

    def restart(self, slots: Tensor) -> None:
        """Slots (K,) have been reset."""
        self._buffer.restart(slots)
        state = self._env.get_state(slots)
        if self._initial is None:
            self._initial = state.new_zeros(self._env.num_envs, state.shape[1])
        self._initial.index_copy_(0, slots, state)

    def ensure(self, steps: int) -> None:
        """Make room for episodes of so many steps."""
        self._buffer.ensure(steps)

    def append(self, slots: Tensor, env_ids: Tensor | None, actions: Tensor) -> None:
        """Write a frame for slots (K,), before actions (K, A)."""
        self._buffer.append(slots, {**self.watcher.frame(self._env, env_ids, actions), "action": actions})

    def finished(self, slot: int, outcome: Outcome) -> None:
        """Tell the watcher of a success."""
        if outcome.success and self._initial is not None:
            columns = self._buffer.take(slot, outcome.length)
            state = self._initial[slot].to("cpu", torch.float64, copy=True)
            self.watcher.succeeded(outcome, state, columns.pop("action"), columns)
