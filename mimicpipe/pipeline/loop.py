"""The env loop: the only owner of the simulator.

    slots' coroutines ──put──► env_reset_queue ──► ONE env.reset ──► task_done
                      ──put──► env_action_queue ─► ONE plan_batch ─► playheads
                                                        │ nobody thinks
                                                        ▼
               ONE playhead advance · ONE pose-to-action · the step begins
                                                        │
        meanwhile, of the state before it: ONE observe · ONE rollout write · ONE success ·
        task_done for slots whose plan has ended ──► they finish, reset and plan again
                                                        │
                                                  the step ends

consumes: reset and action requests. produces: simulator steps, rollout frames, served requests.
waits for: every slot that is not parked to have a request (`SlotBoard.all_settled`), and the simulator.
unblocked by: the last thinking slot putting a request or parking. The cost of a step does not grow with Python work per
slot: when a plan ends is known when it is loaded, so a step looks only at the slots that end in it.

Where the simulator steps in the background, a slot whose plan has ended sits out the step that begins, so that the
others need not wait for what it does next. What an attempt does is not changed by when it does it.
"""

import asyncio
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mimicpipe.errors import RequestError
from mimicpipe.pipeline.ends import NO_SLOTS, Flags, Ints
from mimicpipe.pipeline.protocol import EpisodeTimeoutError, NonFiniteError, Plan, Planner, PlanRequests
from mimicpipe.pipeline.run_state import NO_ATTEMPT, RunState
from mimicpipe.pipeline.stretches import Stretches
from mimicpipe.rng import Seeds

_YIELD_EVERY_S = 0.02
"""Signals, the sampler and the watchdog's wishes are served at least this often."""
_GATHERED = 1 / 16
"""Slots that sit out are served together, once they are this share of the active ones, or"""
_GATHER_STEPS = 4
"""at the latest at every so many steps: planning for four slots costs hardly more than for one."""


class EnvLoop:
    """State of the loop that no coroutine sees: which slots rest, and single actions."""

    def __init__(self, run: RunState) -> None:
        env = run.env
        self.run = run
        self.resting = NO_SLOTS
        self.to_continue = NO_SLOTS
        self.requests: dict[int, Any] = {}
        self.together: PlanRequests | None = None
        self.actions = torch.zeros(env.num_envs, env.action_dim, dtype=torch.float32, device=env.device)
        self.manual = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.num_manual = 0
        self.has_cameras = False
        self.in_flight: Ints | None = None
        self.moved: Tensor | None = None
        self.stretches = Stretches(run)
        run.catch_up = self._catch_up

    # ---- requests

    def serve_resets(self) -> None:
        """Reset every slot that asked, in one call."""
        run, env = self.run, self.run.env
        self._catch_up()
        singles = run.reset_queue.drain()
        single = np.asarray([slot for slot, _ in singles], dtype=np.int64)
        on_host = np.sort(np.concatenate((single, *(slots for slots, _ in run.reset_queue.drain_all()))))
        ids = run.upload(on_host)
        with run.clock.stage("reset"):
            env.reset(ids, _seeds(run, on_host))
            if given := [(slot, state) for slot, state in singles if state is not None]:
                states = torch.stack([state for _, state in given])
                env.set_state(states.to(env.device), run.upload(np.asarray([slot for slot, _ in given])))
            run.hold.index_fill_(0, ids, 0)
            run.ever.index_fill_(0, ids, 0)
            run.status_stale = True
            for kept in (run.trace, run.rollout):
                if kept is not None:
                    kept.restart(ids)
            if run.trace is not None or run.rollout is not None:
                run.remember_initial_state(ids)
        run.was_reset[on_host] = True
        run.start[on_host] = run.counters.batch_steps
        run.reset_queue.all_done(on_host)

    def asked_in_flight(self) -> bool:
        """Whether a slot that the step in progress moves asks for something, which must wait until it has ended."""
        run = self.run
        if self.in_flight is None or (run.reset_queue.empty() and run.action_queue.empty()):
            return False
        moving = np.zeros(run.env.num_envs, dtype=np.bool_)
        moving[self.in_flight] = True
        return bool(moving[run.reset_queue.waiting()].any() or moving[run.action_queue.waiting()].any())

    def serve_actions(self) -> None:
        """Load every action request: single actions, known plans, and one batched planning call per planner."""
        run = self.run
        singles: list[tuple[int, Tensor]] = []
        to_plan: dict[int, tuple[Planner, list[int], list[Any]]] = {}
        asked = run.action_queue.drain()
        following, self.to_continue = run.ends.still_on(self.to_continue), NO_SLOTS
        self._plan_all(following, run.action_queue.drain_all())
        asked += [(slot, self.requests[slot]) for slot in following.tolist() if slot in self.requests]
        asked.sort(key=itemgetter(0))
        for slot, payload in asked:
            if not run.was_reset[slot]:
                run.action_queue.task_done(slot, RequestError(f"slot {slot} acts before it was reset in this attempt"))
            elif isinstance(payload, Tensor):
                singles.append((slot, payload))
            elif isinstance(payload, Plan):
                steps = run.playheads.load_plan(slot, payload)
                self._schedule(np.asarray([slot]), np.asarray([steps]), np.asarray([False]))
            else:
                group = to_plan.get(id(payload.planner))
                if group is None:
                    group = to_plan[id(payload.planner)] = (payload.planner, [], [])
                group[1].append(slot)
                group[2].append(payload)
        if singles:
            stacked = torch.stack([action for _, action in singles]).to(torch.float32)
            self._load_actions(np.asarray([slot for slot, _ in singles]), stacked, np.zeros(len(singles), np.bool_))
        for planner, slots, requests in to_plan.values():
            again = self._plan(planner, np.asarray(slots), requests)
            self.requests.update((slots[row], requests[row]) for row in again)

    def _load_actions(self, slots: Ints, actions: Tensor, goes_on: Flags) -> None:
        """Slots (K,) execute actions (K, A) in their next step; requests of those that go on are then planned again."""
        finite = self.run.download(torch.isfinite(actions).all(dim=1)).tolist()
        ids = self.run.upload(slots)
        self.actions.index_copy_(0, ids, actions)
        self.manual.index_fill_(0, ids, value=True)
        faults = {row: "is not finite" for row, ok in enumerate(finite) if not ok}
        faults = {**self.run.env.faults_of_actions(actions), **faults}
        for row, fault in faults.items():
            slot = int(slots[row])
            self.manual[slot] = False
            self.run.action_queue.task_done(slot, RequestError(f"slot {slot} put an action that {fault}"))
        good = [row for row in range(len(slots)) if row not in faults]
        self.num_manual += len(good)
        self._schedule(slots[good], np.ones(len(good), dtype=np.int64), goes_on[good])

    def _plan_all(self, following: Ints, batches: list[tuple[Ints, PlanRequests]]) -> None:
        """Plan for slots whose requests are kept together: those of new `batches`, and those that go on."""
        if batches:
            self.together = batches[0][1]
        if self.together is not None:
            slots = np.sort(np.concatenate((following, *(slots for slots, _ in batches))))
            if len(slots):
                self._plan(self.together.planner, slots, self.together)

    def _plan(self, planner: Planner, slots: Ints, requests: Sequence[Any] | PlanRequests) -> list[int]:
        """Load what the planner has planned for slots (K,); the rows whose request is planned again afterwards."""
        run = self.run
        batch = planner.plan_batch(run.upload(slots), requests)
        for eef, plans in batch.eefs.items():
            if plans.rows.numel():
                run.playheads.load(eef, slots[plans.rows.cpu().numpy()], plans)
        for row, error in batch.errors.items():
            run.action_queue.task_done(int(slots[row]), error)
        steps: Ints = batch.steps.cpu().numpy()
        again = np.zeros(len(slots), dtype=np.bool_)
        again[list(batch.again)] = True
        rows, actions = np.flatnonzero(again).tolist(), batch.actions
        if batch.errors:
            good = [row for row in range(len(slots)) if row not in batch.errors]
            slots, steps, again = slots[good], steps[good], again[good]
            actions = None if actions is None else actions[good]
        if actions is None:
            self._schedule(slots, steps, again)
        elif len(slots):
            self._load_actions(slots, actions, again)
        return rows

    def _schedule(self, slots: Ints, steps: Ints, goes_on: Flags) -> None:
        """Slots (K,) act for `steps` (K,) from now.

        Their coroutines are woken then, or at the episode's limit; before the limit, the requests of those that go on
        (K,) are planned again.
        """
        run = self.run
        played = run.counters.batch_steps - run.start[slots]
        left = run.options.max_episode_steps - played
        plays = np.minimum(steps, left)
        run.ends.schedule(slots, run.counters.batch_steps + plays, np.greater(steps, left), goes_on)
        for slot in slots[left <= 0].tolist():
            run.ends.cancel(np.asarray([slot]))
            run.action_queue.task_done(slot, _timeout(run))
        for kept in (run.trace, run.rollout):
            if kept is not None and len(slots):
                kept.ensure(int((played + plays).max()))

    # ---- stepping

    def collect_ended(self) -> None:
        """The slots whose plan has ended with the state that is shown now rest until `wake`."""
        self.resting = self.run.ends.due(self.run.counters.batch_steps)

    @contextmanager
    def step(self) -> Generator[bool]:
        """A control step, or a stretch of several, of every slot that is neither parked nor resting.

        It is in progress while the block runs; gives whether it is several.
        """
        slots, active = self.run.board.active_ids(self.resting)
        known = self.stretches.longest > 1 and not self.num_manual
        going = self.stretches.sizes(slots) if known else None
        with self._one_step(slots, active) if going is None else self._stretch(*going):
            yield going is not None

    @contextmanager
    def _stretch(self, slots: Ints, steps: Ints, sizes: Ints) -> Generator[None]:
        self.in_flight = slots
        try:
            with self.stretches.under_way(slots, steps, sizes, self.resting):
                self._catch_up()
                yield
        finally:
            self.in_flight = None

    @contextmanager
    def _one_step(self, slots: Ints, active: Tensor) -> Generator[None]:
        run, env = self.run, self.run.env
        run.start[self.resting] += 1  # the step does not count for them
        ids = None if active.shape[0] == env.num_envs else active
        with run.clock.stage("step"):
            actions = self._next_actions(slots, active, ids)
            executed = run.executed(actions, slots)
            if ids is not None:
                self.actions.index_copy_(0, ids, executed)
            end = env.start_step(executed if ids is None else self.actions, ids)
            if env.steps_in_background:
                end = run.clock.background(end)
        try:
            self.stretches.settle()
            self._record(ids, active, actions)
            self._judge()
            self.in_flight = slots
            run.counters.batch_steps += 1
            run.counters.env_steps += active.shape[0]
            yield
        finally:
            with run.clock.stage("step"):
                end()
            self.moved, self.in_flight = active, None

    def _record(self, ids: Tensor | None, active: Tensor, actions: Tensor) -> None:
        run = self.run
        if run.trace is not None:
            with run.clock.stage("observe"):
                run.trace.append(active, ids, actions)
        if run.rollout is None:
            return
        with run.clock.stage("render" if self.has_cameras else "observe"):
            observations = run.env.observe(ids)
            self.has_cameras = any(value.ndim == 4 for value in observations.values())
            more = {} if run.frame_columns is None else run.frame_columns(run.env, ids, actions)
        with run.clock.stage("record"):
            run.rollout.append(active, {**observations, "action": actions, **more})

    def _catch_up(self) -> None:
        """Write down what the last step or stretch has left to be written, once for each."""
        self.stretches.settle()
        self._judge()

    def _judge(self) -> None:
        """Count success for the slots that the last step has moved, once for each step."""
        moved, self.moved = self.moved, None
        if moved is None:
            return
        run = self.run
        with run.clock.stage("step"):
            success = run.success_term(run.env)
            if moved.shape[0] == run.env.num_envs:
                run.hold.add_(1).mul_(success)
                run.ever.logical_or_(success)
            else:
                success = success.index_select(0, moved)
                run.hold.index_copy_(0, moved, (run.hold.index_select(0, moved) + 1).mul_(success))
                run.ever.index_copy_(0, moved, run.ever.index_select(0, moved).logical_or_(success))
            run.status_stale = True

    def _next_actions(self, slots: Ints, active: Tensor, ids: Tensor | None) -> Tensor:
        """(K, A) actions of the active slots (`slots` on the host): from the playheads, or the single one put."""
        run = self.run
        count = active.shape[0]
        if self.num_manual == count:
            self.num_manual = 0
            self.manual.zero_()
            return self.actions.index_select(0, active)
        waypoints = run.playheads.advance(slots)
        actions = run.env.target_eef_pose_to_action(waypoints.targets, waypoints.grippers, waypoints.noise, ids)
        if self.num_manual:
            mask = self.manual.index_select(0, active)[:, None]
            actions = torch.where(mask, self.actions.index_select(0, active), actions)
            self.num_manual = 0
            self.manual.zero_()
        return actions

    def wake(self) -> None:
        """Let the coroutines of resting slots go on, or the request that comes next."""
        resting, self.resting = self.resting, NO_SLOTS
        if not len(resting):
            return
        run = self.run
        self._catch_up()
        finite: Flags = run.download(run.env.finite(run.upload(resting))).numpy()
        timed_out, goes_on = run.ends.take(resting)
        for slot in resting[~finite].tolist():
            error = NonFiniteError(f"slot {slot}: the simulator's state is not finite")
            run.action_queue.task_done(slot, error)
        for slot in resting[finite & timed_out].tolist():
            run.action_queue.task_done(slot, _timeout(run))
        well = finite & ~timed_out
        self.to_continue = np.concatenate((self.to_continue, resting[well & goes_on]))
        run.action_queue.all_done(resting[well & ~goes_on])


def _timeout(run: RunState) -> EpisodeTimeoutError:
    return EpisodeTimeoutError(f"the episode has reached max_episode_steps={run.options.max_episode_steps}")


def _seeds(run: RunState, slots: Ints) -> Seeds:
    without = slots[run.attempts[slots] == NO_ATTEMPT]
    if len(without):
        raise RuntimeError(f"slot {without[0]} asked for a reset without an attempt")
    return run.seeds[slots]


async def env_loop(run: RunState) -> None:
    """Drive the simulator until the budget is settled; see the module's head for the protocol.

    Raises: whatever the simulator or a planner raises; the caller ends the run.
    """
    loop = EnvLoop(run)
    budget, board = run.budget, run.board
    yielded = time.perf_counter()
    while budget.stop_reason is None:
        if await _all_served(loop):
            yielded = time.perf_counter()
        elif time.perf_counter() - yielded > _YIELD_EVERY_S:
            await asyncio.sleep(0)
            yielded = time.perf_counter()
            continue
        if budget.stop_reason is not None:
            break
        if board.num_parked == board.num_envs:
            if board.release():
                await asyncio.sleep(0)
            elif board.num_away or budget.on_hold:
                run.clock.switch("plan")
                await board.someone_is_back()
            elif not await budget.changed() and budget.stop_reason is None:
                raise RuntimeError("every slot is parked although the budget is not settled")
            continue
        loop.collect_ended()
        active = board.num_envs - board.num_parked
        if not run.env.steps_in_background or len(loop.resting) > loop.stretches.most_resting * active:
            loop.wake()
            if board.thinking or len(loop.to_continue):
                continue
        with loop.step() as many:
            if many or len(loop.resting) >= _GATHERED * active or run.counters.batch_steps % _GATHER_STEPS == 0:
                loop.wake()
            board.release()
            await _all_served(loop)
    await run.ledger.drain()


async def _all_served(loop: EnvLoop) -> bool:
    """Wait until no slot thinks, and serve what they ask for, until all act or are parked; whether one did think."""
    run, thought = loop.run, False
    while run.budget.stop_reason is None:
        if run.board.thinking:
            thought = True
            run.clock.switch("plan")
            await run.board.all_settled()
        elif loop.asked_in_flight():
            break
        elif not run.reset_queue.empty():
            loop.serve_resets()
        elif len(loop.to_continue) or not run.action_queue.empty():
            with run.clock.stage("plan"):
                loop.serve_actions()
            if not run.board.thinking:
                break
        else:
            break
    return thought
