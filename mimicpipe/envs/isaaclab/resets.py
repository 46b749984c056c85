"""Resets of an Isaac Lab env's slots, so that the scene of each is a function of its own seed.

Isaac Lab's events draw from the process's global generators, in the order in which slots come. Here an event that draws
is asked for one slot after another, the generators at where that slot has brought them; all else of a reset (scene,
managers, events that draw nothing) is one call for all slots. Whether something draws is seen from the generators, in
every reset: where anything but an event does, slots are reset one by one from then on.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mimicpipe.envs.isaaclab.seeding import GeneratorStates, put_back, seeded
from mimicpipe.rng import Seeds


class SlotResets:
    """The resets of one env.

    Args:
        env: a `ManagerBasedRLEnv`.
        device: where events draw, beside the CPU.
    """

    def __init__(self, env: Any, device: torch.device) -> None:
        self._env = env
        self._device = device
        manager = env.event_manager
        events = [manager.get_term_cfg(name) for name in manager.active_terms.get("reset", [])]
        self._events = [_Event(event, device) for event in events]
        # An event that does not come with each reset counts steps: what it does is not a matter of the slot alone.
        self.together = all(event.min_step_count_between_reset == 0 for event in events)
        """Whether slots are reset in one call."""

    def reset(self, ids: Tensor, seeds: Seeds) -> None:
        """Isaac Lab's reset of slots `ids` (K,), each drawn from its seed; what it leaves out of date stays so."""
        if self.together and len(ids) > 1:
            self.together = self._reset_together(ids, seeds.tolist())
            if self.together:
                return
        for slot, seed in zip(ids.split(1), seeds.tolist(), strict=True):
            with seeded(seed, self._device):
                self._env._reset_idx(slot)

    def _reset_together(self, ids: Tensor, seeds: list[int]) -> bool:
        """Whether nothing was drawn that would have had to be drawn slot by slot."""
        with put_back(self._device) as before, self._slot_by_slot(seeds):
            self._env._reset_idx(ids)
            unchanged = before.same_as(GeneratorStates.now(self._device))
            return unchanged and not any(event.surprised for event in self._events)

    @contextmanager
    def _slot_by_slot(self, seeds: list[int]) -> Generator[None]:
        with put_back(self._device):
            streams = [GeneratorStates.seeded(seed, self._device) for seed in seeds]
        for event in self._events:
            event.begin(streams)
        try:
            yield
        finally:
            for event in self._events:
                event.end()


class _Event:
    """One reset event, which stands in for its function while slots are reset together."""

    def __init__(self, cfg: Any, device: torch.device) -> None:
        self._cfg = cfg
        self._device = device
        self._draws: bool | None = None
        """Whether it draws; None: not known yet."""
        self._streams: list[GeneratorStates] = []
        self._func: Callable[..., None] | None = None
        self.surprised = False
        """It was called for all slots, and drew."""

    def begin(self, streams: list[GeneratorStates]) -> None:
        """Take the function's place; `streams` (K,) are shared with the other events."""
        self._streams, self._func, self._cfg.func = streams, self._cfg.func, self

    def end(self) -> None:
        """Give the function its place back."""
        self._cfg.func, self._func = self._func, None

    def __getattr__(self, name: str) -> Any:
        """What managers ask of a term that is an object, such as `reset`."""
        return getattr(self._func, name)

    def __call__(self, env: Any, env_ids: Tensor, **params: Any) -> None:
        """Act on slots (K,), each with its own stream."""
        function = self._func
        assert function is not None
        with put_back(self._device) as before:
            if self._draws is False:
                function(env, env_ids, **params)
                self._draws = self.surprised = not before.same_as(GeneratorStates.now(self._device))
                return
            drawn = False
            for row, slot in enumerate(env_ids.split(1)):
                stream = self._streams[row]
                stream.put_back()
                function(env, slot, **params)
                self._streams[row] = GeneratorStates.now(self._device)
                drawn |= not stream.same_as(self._streams[row])
            self._draws = drawn
