"""What a watcher of a run wants to know of each frame, kept beside what is recorded, whatever the recorder is."""

from typing import Any, Protocol

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

    def restart(self, slots: Tensor) -> None:
        """Slots (K,) have been reset."""
        self._buffer.restart(slots)

    def ensure(self, steps: int) -> None:
        """Make room for episodes of so many steps."""
        self._buffer.ensure(steps)

    def append(self, slots: Tensor, env_ids: Tensor | None, actions: Tensor) -> None:
        """Write a frame for slots (K,), before actions (K, A)."""
        self._buffer.append(slots, {**self.watcher.frame(self._env, env_ids, actions), "action": actions})

    def finished(self, slot: int, outcome: Outcome, initial_state: Tensor) -> None:
        """Tell the watcher of a success, which began in `initial_state` (S,)."""
        if outcome.success:
            columns = self._buffer.take(slot, outcome.length)
            self.watcher.succeeded(outcome, initial_state, columns.pop("action"), columns)
