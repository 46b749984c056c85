"""One coroutine for all slots, for generators whose attempts need no thought of their own between reset and end.

A slot's coroutine costs a few tens of microseconds an attempt, whatever it does: with thousands of slots that do the
same, more than the simulator. Such a generator says what many attempts ask for in one call, and the attempts that end
in the same step are judged, replaced and planned together. What an attempt does is the same either way.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from mimicpipe.pipeline.ends import NO_SLOTS, Ints
from mimicpipe.pipeline.finishing import NOTHING, Returned, finish
from mimicpipe.pipeline.protocol import PlanRequests
from mimicpipe.pipeline.queues import Served
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.rng import Seeds

ALL_SLOTS = "generator[all]"
"""Name of the task that serves all slots."""


@runtime_checkable
class BatchGenerator(Protocol):
    """A generator that can also begin many attempts at once; each resets its slot and asks for one plan."""

    @property
    def in_batches(self) -> bool:
        """Whether `begin` is what `generate` would do."""
        ...

    def begin(self, slots: Ints, attempts: Ints, seeds: Seeds, run: RunState) -> PlanRequests:
        """Begin attempts (K,) in slots (K,); the same object every time, which then holds their requests, too."""
        ...

    def source_demos(self, slots: Ints) -> list[list[Any]]:
        """(K,) what the attempts in slots (K,) have been made of; see `Outcome.source_demos`."""
        ...


def batches_of(generator: Any) -> BatchGenerator | None:
    """The generator, if it can serve all slots in batches."""
    return generator if isinstance(generator, BatchGenerator) and generator.in_batches else None


async def run_batch_generator(generator: BatchGenerator, run: RunState) -> None:
    """Generate attempts in every slot until no more are wanted.

    consumes: attempt numbers. produces: reset and action requests, finished attempts.
    waits for: the env loop. An attempt's exception ends that attempt only.
    """
    served = run.action_queue.served = Served()
    sitting = _SittingOut(run, served)
    free: Ints = np.arange(run.env.num_envs)
    running = 0
    try:
        while True:
            begun = _begin(generator, run, free)
            free = free[len(begun) :]
            run.board.park_all(free)
            running += len(begun)
            if not running and not len(sitting.slots):
                if not run.budget.on_hold:
                    return
                await run.budget.changed()
                continue
            ended, errors = await served.wait()
            if run.over:
                return
            running -= len(ended)
            idle = ended[run.lengths(ended) == 0]
            returned = [Returned(demos, NOTHING, vetoed=False) for demos in generator.source_demos(ended)]
            await finish(run, ended, returned, errors)
            # Attempts that end without a step would otherwise follow each other for ever, and the others wait.
            free = np.sort(np.concatenate((free, np.setdiff1d(ended, idle), sitting.released())))
            sitting.add(idle)
    except BaseException:
        run.over = True  # at once: the env loop is cancelled before the run hears of it
        raise
    finally:
        run.board.park_all(np.arange(run.env.num_envs))


def _begin(generator: BatchGenerator, run: RunState, free: Ints) -> Ints:
    """Begin the attempts that are wanted in slots (K,); in which."""
    slots = run.take_all(free)
    if len(slots):
        run.board.unpark_all(slots)
        requests = generator.begin(slots, run.attempts[slots], run.seeds[slots], run)
        # The reset is served first. Nothing happens between the two, so there is no need to wait for it.
        run.reset_queue.put_all(slots)
        run.action_queue.put_all(slots, requests)
    return slots


class _SittingOut:
    """Slots that are parked until the others have stepped."""

    def __init__(self, run: RunState, served: Served) -> None:
        self.slots = NO_SLOTS
        self._board = run.board
        self._served = served
        self._go_on = False

    def add(self, slots: Ints) -> None:
        """These slots (K,), too."""
        if not len(slots):
            return
        self._board.park_all(slots)
        self.slots = np.concatenate((self.slots, slots))
        self._board.at_next_step(self._release)

    def _release(self) -> None:
        self._go_on = True
        self._served.wake()

    def released(self) -> Ints:
        """Those that go on now."""
        if not self._go_on:
            return NO_SLOTS
        slots, self.slots, self._go_on = self.slots, NO_SLOTS, False
        return slots
