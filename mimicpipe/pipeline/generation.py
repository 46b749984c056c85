"""One coroutine per slot that generates attempts until the budget is reached, and the run that holds them together."""

import asyncio
import functools
import gc
import inspect
from collections import abc
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from mimicpipe.errors import StallError
from mimicpipe.pipeline.batches import ALL_SLOTS, batches_of, run_batch_generator
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.finishing import NOTHING, Returned, finish
from mimicpipe.pipeline.ledger import ERRORS
from mimicpipe.pipeline.loop import env_loop
from mimicpipe.pipeline.protocol import RunOverError
from mimicpipe.pipeline.queues import ActionQueue, RequestQueue
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pipeline.slots import current_slot
from mimicpipe.pipeline.tasks import end_tasks, is_cancelled
from mimicpipe.pipeline.watchdog import Watchdog

_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
"""Of objects that hold others; some tens of megabytes."""


class Generator(Protocol):
    """Anything with `async generate(...)`; it gets those of the keywords below that its signature names."""

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Generate one attempt in slot `env_id`.

        Keywords: env_id, success_term, env_reset_queue, env_action_queue, attempt (`Attempt`), run (`RunState`).

        Returns:
            None or a dict; of its keys, "source_demos" and "metadata" are kept with the attempt, and
            "success": False vetoes.
        """
        ...


@functools.cache  # every slot asks, and reading a signature costs more than the rest of its start
def _keywords_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """The keywords that a function takes; None is any."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return None
    return frozenset(parameters)


async def run_data_generator(
    env_id: int,
    env_reset_queue: RequestQueue,
    env_action_queue: ActionQueue,
    data_generator: Generator,
    run: RunState,
) -> None:
    """Generate attempts in slot `env_id` until no more are wanted.

    consumes: attempt numbers. produces: reset and action requests, finished attempts.
    waits for: the env loop, and, when parked, the budget. An attempt's exception ends that attempt only.
    """
    current_slot.set(env_id)
    generate_attempt = data_generator.generate
    # The plain function, so that the cache holds no generator, and with it no env, alive.
    accepted = _keywords_of(getattr(generate_attempt, "__func__", generate_attempt))
    keywords: dict[str, Any] = {
        "env_id": env_id,
        "success_term": run.success_term,
        "env_reset_queue": env_reset_queue,
        "env_action_queue": env_action_queue,
        "run": run,
    }
    if accepted is not None:
        keywords = {name: value for name, value in keywords.items() if name in accepted}
    takes_attempt = accepted is None or "attempt" in accepted
    slots = np.asarray([env_id])
    try:
        while (attempt := await _next_attempt(run, env_id)) is not None:
            returned = _returned(None)
            error: BaseException | None = None
            try:
                if takes_attempt:
                    keywords["attempt"] = attempt
                returned = _returned(await generate_attempt(**keywords))
            except Exception as caught:  # noqa: BLE001 - reported as the attempt's reason, or raised by _note_error
                error = caught
            except asyncio.CancelledError as caught:
                if is_cancelled():
                    raise
                error = caught  # of something that the generator awaited: its own affair
            if run.over:
                return
            run.reset_queue.discard(env_id)
            run.action_queue.discard(env_id)
            await run.landed(env_id)
            if run.over:
                return
            idle = run.lengths(slots)[0] == 0
            await finish(run, slots, [returned], {} if error is None else {env_id: error})
            if idle:
                # Attempts that end without a step would otherwise follow each other for ever, and the others wait.
                await run.board.next_step(env_id)
    except BaseException:
        run.over = True  # at once: the other slots' tasks are cancelled before the run hears of it
        raise
    finally:
        run.board.park(env_id)


async def _next_attempt(run: RunState, slot: int) -> Attempt | None:
    while True:
        attempt = run.take(slot)
        if attempt is not None:
            run.board.unpark(slot)
            return attempt
        run.board.park(slot)
        if not await run.budget.changed():
            return None


def _returned(results: Any) -> Returned:
    """Read the value a generator has returned; TypeError that names the key if it cannot be used."""
    if results is None:
        return Returned([], NOTHING, vetoed=False)
    if not isinstance(results, dict | Mapping):  # a dict is known at once, a Mapping after a search
        raise TypeError(f"generate() returned a {type(results).__name__}; return None or a dict")
    sources, metadata = results.get("source_demos", ()), results.get("metadata", NOTHING)
    if not isinstance(sources, list | tuple):
        raise TypeError(f"generate() returned source_demos={sources!r}; it must be a list")
    if not isinstance(metadata, dict | Mapping):
        raise TypeError(f"generate() returned metadata={metadata!r}; it must be a dict")
    return Returned(list(sources), metadata, results.get("success") is False)


def setup_async_generation(
    run: RunState, data_generator: Generator, *, task_group: asyncio.TaskGroup, info_pool: Any = None
) -> dict[str, Any]:
    """Create one generator task per slot, or a single one where the generator serves all slots in batches.

    Returns:
        {"tasks", "event_loop", "reset_queue", "action_queue", "info_pool"}.
    """
    batches = batches_of(data_generator)
    if batches is not None:
        tasks = [task_group.create_task(run_batch_generator(batches, run), name=ALL_SLOTS)]
    else:
        tasks = [
            task_group.create_task(
                run_data_generator(slot, run.reset_queue, run.action_queue, data_generator, run),
                name=f"generator[{slot}]",
            )
            for slot in range(run.env.num_envs)
        ]
    return {
        "tasks": tasks,
        "event_loop": asyncio.get_running_loop(),
        "reset_queue": run.reset_queue,
        "action_queue": run.action_queue,
        "info_pool": info_pool,
    }


async def generate(run: RunState, data_generator: Generator, *, info_pool: Any = None) -> str:
    """Run to the end of the budget.

    Returns:
        Why it ended: "num_demos", "max_attempts", "max_failures" or the reason given to `run.budget.stop`.

    Raises:
        Exception: the original one of the simulator, a planner, the recorder, or an attempt in strict mode or where
            `ERRORS_IN_A_ROW` attempts per slot have done nothing but raise.
        StallError: no progress for `stall_timeout_s`.
    """
    this_task = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def abort(error: StallError) -> None:
        run.abort_error = error
        if this_task is not None:
            loop.call_soon_threadsafe(this_task.cancel)

    try:
        with _rare_collections(), Watchdog(run, loop, abort, run.on_stuck):
            await _run_tasks(run, data_generator, info_pool)
    except asyncio.CancelledError:
        if run.abort_error is None:
            raise
        raise run.abort_error from None
    if run.budget.stop_reason == ERRORS and run.last_error is not None:
        raise run.last_error
    return run.budget.stop_reason or "stopped"


@contextmanager
def _rare_collections() -> abc.Generator[None]:
    """Look for garbage rarely: attempts leave hardly any cycles, and each search walks all slots' coroutines."""
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _run_tasks(run: RunState, data_generator: Generator, info_pool: Any) -> None:
    """The env loop and the slots' tasks; ends when the loop does."""
    try:
        async with asyncio.TaskGroup() as group:
            setup = setup_async_generation(run, data_generator, task_group=group, info_pool=info_pool)
            try:
                await env_loop(run)
            finally:
                run.over = True
                for queue in (run.reset_queue, run.action_queue):
                    queue.close(RunOverError("the run is over"))
                await end_tasks(setup["tasks"], run.on_stuck)
    except BaseExceptionGroup as group_error:
        error = _first_leaf(group_error)
        raise error from error.__cause__  # not from the group, and not without what it was raised from


def _first_leaf(group: BaseExceptionGroup) -> BaseException:
    """The first real exception in a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
