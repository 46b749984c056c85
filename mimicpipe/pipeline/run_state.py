"""Everything one generation run shares between the env loop and the slots' coroutines."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mimicpipe.errors import RequestError, StallError
from mimicpipe.pipeline.budget import ALL_ATTEMPTS, Budget, BudgetLimits, Share
from mimicpipe.pipeline.checks import RequestChecks
from mimicpipe.pipeline.ends import Ints, PlanEnds
from mimicpipe.pipeline.episode import Attempt, Episode, Outcome
from mimicpipe.pipeline.ledger import ERRORS_IN_A_ROW, EpisodeSink, Ledger, OnOutcome
from mimicpipe.pipeline.perturbation import Perturbation, PerturbationConfig
from mimicpipe.pipeline.playhead import Playheads
from mimicpipe.pipeline.protocol import SimEnv
from mimicpipe.pipeline.queues import ActionQueue, OwnedLock, RequestQueue
from mimicpipe.pipeline.rollout import RolloutBuffer
from mimicpipe.pipeline.slots import SlotBoard
from mimicpipe.pipeline.telemetry import Counters, IdleTimingSelector, StageClock
from mimicpipe.pipeline.trace import EpisodeWatcher, Trace
from mimicpipe.pipeline.transfer import downloader, uploader
from mimicpipe.rng import attempt_seeds

_SEED_BLOCK = 1024
"""Attempt seeds are drawn this many at a time: one at a time, numpy's overhead would dominate. One block is kept."""

NO_ATTEMPT = -1
_VERDICTS = ("not_successful", "success_not_held", "success")

SuccessTerm = Callable[[SimEnv], Tensor]
FrameColumns = Callable[[Any, Tensor | None, Tensor], dict[str, Tensor]]
"""(env, slots (K,) or None for all, their actions (K, A)) -> {column: (K, *shape)} of the state before the actions."""


@dataclass(frozen=True)
class RunOptions:
    """Rules of a run."""

    seed: int = 0
    hold_steps: int = 10
    """Consecutive control steps, up to the episode's last, in which success must hold."""
    max_episode_steps: int = 600
    """An attempt that needs more ends with reason "timeout"."""
    strict: bool = False
    """Raise an attempt's first exception instead of counting it as a failure."""
    stall_timeout_s: float = 60.0
    """Without a step for this long the run fails with a report."""
    task_description: str = ""
    """Language instruction; empty is the env's own."""
    errors_in_a_row: int | None = ERRORS_IN_A_ROW
    """Give up after this many attempts per slot that do nothing but raise; None: somebody else sees to that."""


def _both(watcher: EpisodeWatcher | None, on_outcome: OnOutcome) -> OnOutcome:
    """Tell the watcher, too."""
    if watcher is None:
        return on_outcome

    def tell(outcome: Outcome) -> None:
        watcher.settled(outcome)
        on_outcome(outcome)

    return tell


class RunState:
    """Queues, budget, buffers and counters of one run over one env."""

    def __init__(
        self,
        env: SimEnv,
        limits: BudgetLimits,
        options: RunOptions,
        *,
        sink: EpisodeSink | None = None,
        failed_sink: EpisodeSink | None = None,
        on_outcome: OnOutcome = lambda _: None,
        success_term: SuccessTerm | None = None,
        lock: OwnedLock | None = None,
        selector: IdleTimingSelector | None = None,
        frame_columns: FrameColumns | None = None,
        perturbation: PerturbationConfig | None = None,
        watcher: EpisodeWatcher | None = None,
        share: Share = ALL_ATTEMPTS,
    ) -> None:
        n, device = env.num_envs, env.device
        self.env = env
        self.options = options
        self.clock = StageClock(selector)
        self.counters = Counters()
        self.board = SlotBoard(n, device)
        self.budget = Budget(limits, on_stop=self.board.stop, share=share)
        self.reset_queue = RequestQueue("env_reset_queue", self.board, lock=lock)
        checks = RequestChecks(device, env.action_dim, env.eef_names, env.gripper_dim, env.noise_dim)
        self.action_queue = ActionQueue(self.board, checks, lock=lock)
        self.reset_queue.not_during = self.action_queue
        self.trace = None if watcher is None else Trace(env, watcher)
        self.ledger = Ledger(
            self.budget,
            self.clock,
            self.counters,
            sink,
            failed_sink,
            _both(watcher, on_outcome),
            max_errors=None if options.errors_in_a_row is None else options.errors_in_a_row * n,
        )
        self.playheads = Playheads(n, env.eef_names, env.gripper_dim, env.noise_dim, device)
        self.rollout = RolloutBuffer(n, device) if sink is not None or failed_sink is not None else None
        self.frame_columns = frame_columns
        """What is recorded of a frame beside the observations and the action."""
        self.perturbation: Perturbation | None = None
        if perturbation is not None and perturbation.probability > 0:
            self.perturbation = Perturbation(env, perturbation)
        self.own_success = success_term is None
        """The env's own, which an env can count over several steps."""
        self.success_term: SuccessTerm = success_term or (lambda e: e.success())
        self.attempts = np.full(n, NO_ATTEMPT, dtype=np.int64)
        """Index of the attempt that the slot is at."""
        self.seeds = np.zeros(n, dtype=np.int64)
        """Its seed."""
        self.used_demos: dict[int, list[Any]] = {}
        """{slot: what its attempt has been made of so far}, as a generator may tell it: an attempt that ends with an
        exception returns nothing."""
        self.was_reset = np.zeros(n, dtype=np.bool_)
        self.start = np.zeros(n, dtype=np.int64)
        """The batch step in which the slot's episode began, and one more for each step that it sat out."""
        self.flying: frozenset[int] = frozenset()
        """Slots that are in the middle of a stretch of steps, which cannot be looked at, and"""
        self.landing: asyncio.Future[None] | None = None
        """what is done when it is over."""
        self.catch_up: Callable[[], None] = lambda: None
        """Writes down what the loop has put off: frames and successes of the last step or stretch."""
        self.returns = 0
        """How often a slot that was away has come back."""
        self.ends = PlanEnds(n)
        self.initial_state: Tensor | None = None
        self.upload, self.download = uploader(device), downloader(device)
        self.hold = torch.zeros(n, dtype=torch.int32, device=device)
        self.ever = torch.zeros(n, dtype=torch.bool, device=device)
        self._read_status()
        self._seeds: list[int] = []
        self._seeds_from = -1
        self.last_error: BaseException | None = None
        self.abort_error: BaseException | None = None
        self.on_stuck: Callable[[StallError], None] | None = None
        """Called where the run cannot end in any other way; should end the process."""
        self.on_finished: Callable[[int, Outcome], None] | None = None
        """Called with (slot, outcome) of each finished attempt that the rollout buffer still holds; must be quick."""
        self.over = False
        """The run has ended, or failed: what an attempt in flight still does is of no account."""

    def take(self, slot: int) -> Attempt | None:
        """Give the slot the next attempt, if one is wanted now."""
        for index in self.budget.take_nowait():
            attempt = Attempt(index, self._seed(index))
            self._begin(slot, *attempt)
            return attempt
        return None

    def take_all(self, slots: Ints) -> Ints:
        """Give the next attempts that are wanted now to the first of slots (K,); which those are."""
        indices = self.budget.take_nowait(len(slots))
        given = slots[: len(indices)]
        if len(given):
            numbers = np.arange(indices.start, indices.stop, indices.step)
            self._begin(given, numbers, attempt_seeds(self.options.seed, numbers))
        return given

    def _begin(self, slots: int | Ints, indices: int | Ints, seeds: int | Ints) -> None:
        self.attempts[slots] = indices
        self.seeds[slots] = seeds
        self.was_reset[slots] = False
        self.start[slots] = self.counters.batch_steps

    def end_attempts(self, slots: Ints) -> None:
        """The attempts of slots (K,) are over, and nothing of them is needed any more."""
        self.ends.cancel(slots)
        self.attempts[slots] = NO_ATTEMPT
        self.was_reset[slots] = False
        if self.used_demos:
            for slot in slots.tolist():
                self.used_demos.pop(slot, None)

    def _seed(self, index: int) -> int:
        begin = index - index % _SEED_BLOCK
        if begin != self._seeds_from:
            self._seeds_from = begin
            self._seeds = attempt_seeds(self.options.seed, range(begin, begin + _SEED_BLOCK)).tolist()
        return self._seeds[index - begin]

    @contextmanager
    def away(self, slot: int) -> Generator[None]:
        """While the block runs, the slot sits out the steps of the others: `with run.away(env_id): await slow_work`.

        Its state and its episode's length stand still, so an attempt's bits do not depend on how long that took.

        Raises:
            RequestError: the slot has a request in a queue; await `join` first.
        """
        if not self.board.is_thinking(slot):
            raise RequestError(f"slot {slot} cannot go away while it has a request; await join() first")
        left_at = self.counters.batch_steps
        self.board.leave(slot)
        try:
            yield
        finally:
            self.returns += 1
            self.board.come_back(slot)
            self.start[slot] += self.counters.batch_steps - left_at

    async def landed(self, slot: int) -> None:
        """Wait until the slot is not in the middle of a stretch of steps, and all that it has done is written down."""
        if slot in self.flying and self.landing is not None:
            with self.away(slot):
                await self.landing
        self.catch_up()

    def executed(self, actions: Tensor, slots: Ints) -> Tensor:
        """The actions (K, A) of slots (K,) as they reach the simulator."""
        if self.perturbation is None:
            return actions
        steps = self.counters.batch_steps - self.start[slots]
        return self.perturbation.executed(actions, slots, self.seeds[slots], steps)

    def lengths(self, slots: Ints) -> Ints:
        """(K,) control steps of the current episodes of slots (K,)."""
        return np.where(self.was_reset[slots], self.counters.batch_steps - self.start[slots], 0)

    def verdicts(self, slots: Ints) -> list[str]:
        """(K,) "success", or why they are none, of the episodes of slots (K,) as they stand now."""
        if self.status_stale:
            self._read_status()
        verdict = np.where(self._held[slots] >= self.options.hold_steps, 2, self._ever[slots])
        return [_VERDICTS[number] for number in np.where(self.was_reset[slots], verdict, 0).tolist()]

    def _read_status(self) -> None:
        """Bring the success counters to the host: one small copy for all slots, none on a CPU."""
        self.status_stale = False
        self._held = self.download(self.hold).numpy()
        self._ever = self.download(self.ever).numpy()

    def episode(self, slot: int, outcome: Outcome, metadata: dict[str, Any]) -> Episode | None:
        """Copy the slot's finished episode to the host; None where nobody records it."""
        if self.rollout is None or not self.ledger.wants(outcome.success) or outcome.length == 0:
            return None
        columns = self.rollout.take(slot, outcome.length)
        task = self.options.task_description or self.env.task_description
        return Episode(outcome, columns, task, self.first_state(slot), metadata)

    def remember_initial_state(self, ids: Tensor) -> None:
        """Slots (K,) have been reset."""
        state = self.env.get_state(ids)
        if self.initial_state is None:
            self.initial_state = state.new_zeros(self.env.num_envs, state.shape[1])
        self.initial_state.index_copy_(0, ids, state)

    def first_state(self, slot: int) -> Tensor:
        """(S,) float64 on the host: the slot's state after its reset; (0,) where nobody wants it."""
        state = self.initial_state
        return self.download(state[slot]).clone() if state is not None else torch.zeros(0, dtype=torch.float64)
