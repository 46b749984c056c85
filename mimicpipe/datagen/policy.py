"""Plays a policy in every slot: one call of it per control step, for all slots that act.

A slot's coroutine asks once for its reset and once for actions. The request is planned again after each step, so the
coroutine sleeps until the episode ends: at the step in which success has held for `hold_steps`, or at the limit.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from mimicpipe.datagen.waypoint import RequestPort
from mimicpipe.pipeline.ends import Ints
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.protocol import PlanBatch, SimEnv
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.rng import Seeds


class Policy(Protocol):
    """Anything that acts on what an env observes."""

    def act(self, slots: Ints, seeds: Seeds, steps: Ints, observations: Mapping[str, Tensor]) -> Tensor:
        """Actions (K, A) of K slots.

        Args:
            slots: (K,) ascending. What the policy remembers, it remembers by slot.
            seeds: (K,) the attempts' seeds, for whatever is drawn.
            steps: (K,) control steps since the slot's reset; at 0 what is remembered of the slot is of no account.
            observations: {feature: (K, *shape)} of these slots, as `MimicEnv.observe` gives them.
        """
        ...


class _EpisodeOverError(Exception):
    """The slot's episode has ended; not an error, but the way to wake its coroutine without another step."""


@dataclass(slots=True)
class _Request:
    planner: "PolicyPlanner"
    seed: int
    run: RunState


class PolicyPlanner:
    """One call of the policy for all slots that ask.

    Args:
        env: whose observations it sees.
        policy: what acts.
    """

    def __init__(self, env: SimEnv, policy: Policy) -> None:
        self._env = env
        self._policy = policy

    def plan_batch(self, env_ids: Tensor, requests: Sequence[_Request]) -> PlanBatch:
        """One action for each slot whose episode goes on; see `Planner`."""
        run = requests[0].run
        slots = env_ids.cpu().numpy()
        steps = run.counters.batch_steps - run.start[slots]
        held = run.hold.index_select(0, env_ids).cpu().numpy() >= run.options.hold_steps
        going = np.flatnonzero(~held & (steps < run.options.max_episode_steps))
        actions = torch.zeros(len(slots), self._env.action_dim, dtype=torch.float32, device=env_ids.device)
        if len(going):
            rows = torch.from_numpy(going).to(env_ids.device)
            seeds = np.array([requests[row].seed for row in going], dtype=np.int64)
            observations = self._env.observe(env_ids.index_select(0, rows))
            actions.index_copy_(0, rows, self._policy.act(slots[going], seeds, steps[going], observations))
        over = sorted(set(range(len(slots))) - set(going.tolist()))
        return PlanBatch(
            steps=torch.ones(len(slots), dtype=torch.int64),
            eefs={},
            errors={row: _EpisodeOverError() for row in over},
            again=going.tolist(),
            actions=actions,
        )


class PolicyGenerator:
    """Attempt k is the policy in the scene of attempt k's seed; all slots share the generator.

    Args:
        env: the simulator.
        policy: what acts in it.
    """

    def __init__(self, env: SimEnv, policy: Policy) -> None:
        self._planner = PolicyPlanner(env, policy)

    async def generate(
        self,
        env_id: int,
        env_reset_queue: RequestPort,
        env_action_queue: RequestPort,
        *,
        attempt: Attempt,
        run: RunState,
    ) -> dict[str, Any]:
        """Play one episode.

        Args:
            env_id: the slot.
            env_reset_queue: where the reset is asked for.
            env_action_queue: where actions are asked for.
            attempt: seeds the scene, and whatever the policy draws.
            run: says when success has held for long enough.

        Returns:
            "source_demos": [].
        """
        await env_reset_queue.put(env_id)
        await env_action_queue.put((env_id, _Request(self._planner, attempt.seed, run)))
        with contextlib.suppress(_EpisodeOverError):
            await env_action_queue.join()
        return {"source_demos": []}
