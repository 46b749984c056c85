"""What a run of the pipeline made an Isaac Lab env do while every slot had work; the same again with `env.step` alone.

The taped part begins where the first slot is reset for its second attempt and ends where the first slot finds no
attempt left, so what only the beginning and the end of a run have is outside.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from mimicpipe.envs.isaaclab.env import IsaacLabEnv
from mimicpipe.rng import Seeds

Put = tuple[Tensor, Tensor]
"""Slots (K,) and their states (K, S) after a reset."""


@dataclass
class Tape:
    """Records while it is open (`with Tape(env) as tape`).

    Args:
        env: on exact states (Newton's MuJoCo solver on a CPU).
    """

    env: IsaacLabEnv
    steps: int = 0
    """Control steps of the taped part, all slots acting."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """CPU seconds of the loop's thread, which is the simulator's, too."""
    _moves: list[Tensor | Put] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _has_stepped: bool = False
    _began: tuple[float, float] | None = None
    _start: Tensor | None = None
    _end: Tensor | None = None

    @property
    def rate(self) -> float:
        """Env-steps per second of the taped part."""
        return self.env.num_envs * self.steps / self.wall_s

    def __enter__(self) -> Self:
        for owner, name, around in (
            (self.env, "reset", self._reset), (self.env, "step", self._step), (self.env.env, "step", self._sim_step)
        ):  # fmt: skip
            self._wrap(owner, name, around)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._stack.close()

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        method = getattr(owner, name)
        setattr(owner, name, lambda *args: around(method, *args))
        self._stack.callback(delattr, owner, name)

    def _reset(self, method: Callable[..., None], ids: Tensor, seeds: Seeds) -> None:
        began = _now()
        method(ids, seeds)
        if self._began is None and self._has_stepped:
            self._began, self._start = began, self.env.get_state()
        elif self._is_open:
            self._moves.append((ids.clone(), self.env.get_state(ids)))

    def _step(self, method: Callable[..., None], actions: Tensor, ids: Tensor | None = None) -> None:
        self._has_stepped = True
        if ids is not None and len(ids) < self.env.num_envs:
            self._close()
        method(actions, ids)

    def _sim_step(self, method: Callable[..., Any], actions: Tensor) -> Any:
        if self._is_open:
            self._moves.append(actions.clone())
            self.steps += 1
        return method(actions)

    @property
    def _is_open(self) -> bool:
        return self._start is not None and self._end is None

    def _close(self) -> None:
        if self._is_open and self._began is not None:
            (wall, cpu), now = self._began, _now()
            self.wall_s, self.cpu_s = now[0] - wall, now[1] - cpu
            self._end = self.env.get_state()

    def replay(self) -> tuple[float, float]:
        """Wall and CPU seconds of Isaac Lab's `env.step` over the same steps, with nothing around it.

        Raises:
            AssertionError: nothing was taped, or the replay ended in another state.
        """
        assert self._start is not None, "no slot was reset for a second attempt"
        assert self._end is not None, "the tape is still open"
        wall_s = cpu_s = 0.0
        with torch.inference_mode():
            self.env.set_state(self._start)
            for move in self._moves:
                if isinstance(move, tuple):
                    self.env.set_state(move[1], move[0])
                    continue
                began = _now()
                self.env.env.step(move)
                ended = _now()
                wall_s, cpu_s = wall_s + ended[0] - began[0], cpu_s + ended[1] - began[1]
            assert torch.equal(self.env.get_state(), self._end), "the replay is another motion"
        return wall_s, cpu_s


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()
