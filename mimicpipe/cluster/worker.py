"""One worker's part of a run: the ordinary pipeline over its share of the attempts, in a thread of its own."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from mimicpipe import build
from mimicpipe.cluster.messages import ENDED, GENERATING, SEES_FOLDER, STARTING, Assignment, Fault, Made, Order, Report
from mimicpipe.errors import ConfigError, StallError
from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.metrics import run_metrics
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pipeline.telemetry import IdleTimingSelector
from mimicpipe.pools.growing import GrowingPool
from mimicpipe.preflight import check_devices
from mimicpipe.recorders.finalizing import PatientExecutor, finalize
from mimicpipe.report.sample import EpisodeSample, Take
from mimicpipe.resume import is_recorded_failure

_log = logging.getLogger("mimicpipe")
_MEASURE_EVERY_S = 0.25


class ShareRun:
    """Makes a share's attempts while `poll` is called from another thread.

    consumes: orders. produces: reports of attempts that are durable.
    waits for: orders that allow more attempts. unblocked by: `poll`.

    Args:
        assignment: what is to be made.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._news = threading.Condition()
        self._phase = STARTING
        self._made: list[Made] = []
        self._metrics: dict[str, float] = {}
        self._warnings: list[str] = []
        self._skipped: list[str] = []
        self._takes: list[Take] = []
        self._fault: Fault | None = None
        self._order = Order(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._obey: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="mimicpipe-share", daemon=True)

    def start(self) -> "ShareRun":
        """Begin; returns at once."""
        self._thread.start()
        return self

    def warn(self, text: str) -> None:
        """Let the driver print a warning; from any thread."""
        with self._news:
            self._warnings.append(text)

    def poll(self, order: Order, wait_s: float) -> Report:
        """Take orders, and report what is new, or that nothing is after `wait_s`; from any thread but the run's."""
        with self._news:
            self._order = order
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._obey)
            self._news.wait_for(lambda: self._made or self._phase == ENDED, wait_s)
            made, self._made = self._made, []
            warnings, self._warnings = self._warnings, []
            ended = self._phase == ENDED
            return Report(
                self._phase,
                made,
                self._metrics,
                warnings,
                self._skipped,
                self._takes if ended else (),
                self._fault if ended else None,
            )

    def _run(self) -> None:
        try:
            for shard in self._assignment.shards.values():
                shard.report()
            self._enter(SEES_FOLDER)
            self._generate()
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            self._end(Fault.of(error))
        else:
            self._end(None)

    def _enter(self, phase: str) -> None:
        with self._news:
            self._phase = phase

    def _end(self, fault: Fault | None) -> None:
        with self._news:
            if self._phase != ENDED:
                self._phase, self._fault = ENDED, fault
            self._news.notify_all()

    def _generate(self) -> None:
        config, selector = self._assignment.config, IdleTimingSelector()
        check_devices(config)
        with ExitStack() as stack:
            env = build.build_env(config)
            stack.callback(env.close)
            pool = build.build_pool(config, env, build.build_subtasks(config))
            if isinstance(pool, GrowingPool):
                raise ConfigError("cluster: a pool that grows makes attempts depend on one another; use cluster=none")
            self._skipped = list(pool.skipped)
            generator = build.build_generator(config, env, pool)
            stack.callback(getattr(generator, "close", lambda: None))
            recorders = build.build_shard_recorders(config, env, self._assignment.shards)
            for recorder in recorders.all():
                recorder.on_durable = self._durable
            self._recorders = recorders
            state = build.build_run_state(
                config, env, pool, recorders, self._settled, selector, share=self._assignment.share
            )
            state.on_stuck = self._end_stuck
            state.budget.resume(self._assignment.outcomes)
            sample = EpisodeSample(state)
            runner = stack.enter_context(asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)))
            with torch.inference_mode():
                runner.run(self._drive(state, generator, pool))
            self._takes = sample.kept()

    async def _drive(self, state: RunState, generator: Any, pool: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(PatientExecutor())

        def obey() -> None:
            state.budget.allow(self._order.allowed)
            if self._order.stop is not None:
                state.budget.stop(self._order.stop)

        obey()
        with self._news:
            self._loop, self._obey = loop, obey
            self._phase = GENERATING
        measuring = asyncio.create_task(self._measure(state), name="measure")
        try:
            await generate(state, generator, info_pool=pool)
        except BaseException:
            await self._finalize(raising=False)
            raise
        else:
            await self._finalize(raising=True)
        finally:
            measuring.cancel()
            self._metrics = self._snapshot(state)
            with self._news:
                self._loop = None

    async def _finalize(self, *, raising: bool) -> None:
        """Wait until everything that was committed is durable."""
        for recorder in self._recorders.all():
            try:
                await finalize(recorder, self._assignment.config.stall_timeout_s)
            except Exception as error:
                if raising:
                    raise
                _log.error("completing the shard failed, too: %s", error)

    async def _measure(self, state: RunState) -> None:
        while True:
            self._metrics = self._snapshot(state)
            await asyncio.sleep(_MEASURE_EVERY_S)

    def _snapshot(self, state: RunState) -> dict[str, float]:
        """The metrics of this instant; in the loop's thread."""
        demos = self._recorders.demos
        metrics = run_metrics(state, {} if demos is None else demos.stats())
        return {**metrics, "env_steps": float(state.counters.env_steps)}

    def _settled(self, outcome: Outcome) -> None:
        """An attempt is settled; one that has an episode is reported once that is durable."""
        failed = is_recorded_failure(outcome.success, outcome.length, outcome.reason)
        if outcome.episode_index is None and not (failed and self._recorders.failed is not None):
            self._add(outcome, recorded=False)

    def _durable(self, episode: Episode, _: int) -> None:
        self._add(episode.outcome, recorded=True)

    def _add(self, outcome: Outcome, *, recorded: bool) -> None:
        share, config = self._assignment.share, self._assignment.config
        slot = share.first * config.env["num_envs"] + outcome.slot  # no two workers' slots are the same
        with self._news:
            self._made.append(Made(replace(outcome, slot=slot), recorded))
            self._news.notify_all()

    def _end_stuck(self, error: StallError) -> None:
        """The event loop cannot end the run: the driver ends the process."""
        self._end(Fault.of(error))
