"""Slots reset in one call draw what they draw one by one; nothing here imports Isaac Lab."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mimicpipe import rng
from mimicpipe.envs.isaaclab.resets import SlotResets

SLOTS = 4
CPU = torch.device("cpu")


class Env:
    """What Isaac Lab's reset does with events, and the values that each slot was given."""

    def __init__(self, *events: Callable[..., None], steps_between: int = 0) -> None:
        self.values: dict[int, list[float]] = {slot: [] for slot in range(SLOTS)}
        self.calls: list[tuple[str, int]] = []
        self.managers_draw = False
        self.cfgs = {
            str(number): SimpleNamespace(func=event, params={}, min_step_count_between_reset=steps_between)
            for number, event in enumerate(events)
        }
        self.event_manager = SimpleNamespace(active_terms={"reset": list(self.cfgs)}, get_term_cfg=self.cfgs.get)

    def _reset_idx(self, ids: Tensor) -> None:
        self.calls.append(("reset", len(ids)))
        for slot in ids.tolist():
            self.values[slot] = []
        for cfg in self.cfgs.values():
            cfg.func(self, ids, **cfg.params)
        if self.managers_draw:
            torch.rand(1)

    def note(self, ids: Tensor, values: Tensor) -> None:
        for slot, value in zip(ids.tolist(), values.tolist(), strict=True):
            self.values[slot].append(value)


def default(env: Any, ids: Tensor) -> None:
    env.calls.append(("default", len(ids)))
    env.note(ids, torch.zeros(len(ids)))


def by_torch(env: Any, ids: Tensor) -> None:
    env.calls.append(("torch", len(ids)))
    env.note(ids, torch.rand(len(ids)))


def by_others(env: Any, ids: Tensor) -> None:
    env.note(ids, torch.from_numpy(np.random.random(len(ids))) + random.random() + torch.rand(len(ids)))


def sometimes(env: Any, ids: Tensor) -> None:
    env.note(ids, torch.rand(len(ids)) if len(env.calls) > 5 else torch.ones(len(ids)))


class Stateful:
    """A term that is an object, whose own `reset` Isaac Lab's manager calls."""

    def __init__(self) -> None:
        self.resets = 0

    def reset(self, env_ids: Tensor) -> None:
        self.resets += len(env_ids)

    def __call__(self, env: Any, ids: Tensor) -> None:
        env.note(ids, torch.rand(len(ids)))
        env.cfgs["0"].func.reset(env_ids=ids)


def drawn(env: Env, together: bool, attempts: tuple[int, ...] = (3, 1, 2)) -> dict[int, list[float]]:
    resets = SlotResets(env, CPU)
    resets.together &= together
    ids = torch.tensor([2, 0, 3])
    for _ in range(2):
        resets.reset(ids, rng.attempt_seeds(0, np.array(attempts)))
    return env.values


def test_slots_draw_together_what_they_draw_alone():
    events = (default, by_torch, default, by_others)
    env = Env(*events)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    together = drawn(env, together=True)
    assert torch.equal(torch.rand(3), expected)  # the global generators are as they were
    assert together == drawn(Env(*events), together=False)
    assert together[1] == []
    assert len({values[1] for slot, values in together.items() if slot != 1}) == 3
    second = env.calls[env.calls.index(("reset", 3)) + 1 :]
    second = second[second.index(("reset", 3)) :]
    assert second == [("reset", 3), ("default", 3), *[("torch", 1)] * 3, ("default", 3)]
    assert [cfg.func for cfg in env.cfgs.values()] == list(events)


def test_a_reset_that_draws_outside_its_events_is_made_slot_by_slot():
    env, alone = Env(default, by_torch), Env(default, by_torch)
    env.managers_draw = alone.managers_draw = True
    assert drawn(env, together=True) == drawn(alone, together=False)
    assert [call for call in env.calls if call[0] == "reset"] == [("reset", 3), *[("reset", 1)] * 6]


def test_an_event_that_begins_to_draw_is_noticed():
    assert (
        drawn(Env(default, sometimes), together=True)[2]
        != drawn(Env(default, sometimes), together=True, attempts=(4, 5, 6))[2]
    )
    env, alone = Env(default, sometimes), Env(default, sometimes)
    alone.calls = [("default", 0)] * 6
    assert drawn(env, together=True) == drawn(alone, together=False)


def test_events_that_count_steps_are_a_matter_of_each_slot():
    assert not SlotResets(Env(default, steps_between=3), CPU).together


def test_a_term_that_is_an_object_stays_one():
    term = Stateful()
    env = Env(term)
    assert drawn(env, together=True) == drawn(Env(Stateful()), together=False)
    assert term.resets == 6


def test_functions_are_put_back_when_an_event_fails():
    def failing(env: Any, ids: Tensor) -> None:
        raise RuntimeError("no")

    env = Env(by_torch, failing)
    with pytest.raises(RuntimeError, match="no"):
        drawn(env, together=True)
    assert [cfg.func for cfg in env.cfgs.values()] == [by_torch, failing]
