"""Follows the workers of a run: orders out, reports in, a successor for each one that is lost."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from mimicpipe.cluster.messages import (
    ENDED,
    GENERATING,
    STARTING,
    Assignment,
    Fault,
    Launcher,
    Order,
    Report,
    WorkerHandle,
    WorkerLostError,
)
from mimicpipe.cluster.shared_budget import SharedBudget
from mimicpipe.errors import ClusterError, ConfigError
from mimicpipe.pipeline.ledger import ERRORS
from mimicpipe.report.sample import Take

_log = logging.getLogger("mimicpipe")
FAILED = "failed"
"""Why a budget stops when a worker's run cannot go on."""


class Driver:
    """Keeps every worker of a run at work until the budget is settled.

    consumes: reports. produces: orders, and what the reports say, to the budget.
    waits for: reports, each for `worker_timeout_s` at most. An exception in a worker ends the run, as it does in a run
    of one process; a worker whose process is gone, or does not answer, is started again.

    Args:
        launcher: where workers run.
        shared: settles what they make.
        assign: the assignment of worker 0, 1, ... as things stand.
        end_within_s: what a worker may take to end once it has been told to; after that it is killed.
    """

    def __init__(
        self, launcher: Launcher, shared: SharedBudget, assign: Callable[[int], Assignment], end_within_s: float
    ) -> None:
        self._launcher = launcher
        self._shared = shared
        self._assign = assign
        self._end_within_s = end_within_s
        self._error: Exception | None = None
        self.metrics: dict[int, Mapping[str, float]] = {}
        """The latest of each worker."""
        self.lost_metrics: list[Mapping[str, float]] = []
        """The last ones of those that were lost."""
        self.skipped: list[str] = []
        self.takes: list[Take] = []
        self.began: float | None = None
        """When the first worker was seen to generate, on `time.perf_counter`."""

    async def run(self) -> str:
        """Run to the end of the budget; every worker has ended, or was killed, when this returns or raises.

        Returns:
            Why it ended, as `pipeline.generation.generate`.

        Raises:
            ConfigError: a worker finds that the config cannot be run there.
            ClusterError: a worker was lost too often, or its part of the run has failed.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(self._launcher.num_workers):
                group.create_task(self._follow(number), name=f"worker[{number}]")
        if self._error is not None:
            raise self._error
        budget = self._shared.budget
        if budget.stop_reason == ERRORS:
            count = self._shared.counters.errors_in_a_row
            raise ClusterError(f"{count} attempts in a row ended with an exception; the log has the first of each kind")
        if budget.stop_reason is None:
            raise RuntimeError(f"every worker has ended, although attempt {budget.frontier} is not settled")
        return budget.stop_reason

    async def _follow(self, number: int) -> None:
        """Follow a worker and its successors to the end."""
        lost = 0
        while self._shared.budget.stop_reason is None:
            assignment = self._assign(number)
            worker = self._launcher.start(number, assignment)
            try:
                await self._listen(number, worker, assignment)
                return
            except WorkerLostError as error:
                lost += 1
                self._note_loss(number, lost, error)
            finally:
                worker.kill()

    def _note_loss(self, number: int, lost: int, error: WorkerLostError) -> None:
        if number in self.metrics:
            self.lost_metrics.append(self.metrics.pop(number))
        if self._shared.budget.stop_reason is not None:
            return  # it was to end anyway
        most = self._launcher.max_retries
        if lost > most:
            again = f", {lost} times, which is more than cluster.max_retries={most}" if most else ""
            self._fail(ClusterError(f"worker {number} was lost{again}: {error}"))
        else:
            _log.warning("worker %d was lost, and is started again (%d of %d): %s", number, lost, most, error)

    async def _listen(self, number: int, worker: WorkerHandle, assignment: Assignment) -> None:
        """Exchange orders and reports with one worker until it ends.

        Raises:
            WorkerLostError: it is gone, or does not answer.
        """
        heard, checked, told_at = False, False, None
        while True:
            order = Order(self._shared.horizon, self._shared.budget.stop_reason)
            if order.stop is not None:
                told_at = told_at or time.monotonic()
                if time.monotonic() - told_at > self._end_within_s:
                    _log.warning("worker %d has not ended within %g s, and is killed", number, self._end_within_s)
                    return
            report = await self._answer(worker, order, heard)
            heard = True
            if not checked and report.fault is None and report.phase != STARTING:
                checked = await self._check_folder(assignment)
            self._take(number, report)
            if report.phase == ENDED:
                return

    async def _answer(self, worker: WorkerHandle, order: Order, heard: bool) -> Report:
        limit = self._launcher.worker_timeout_s
        try:
            return await asyncio.wait_for(worker.poll(order), limit)
        except TimeoutError:
            what = "answered for" if heard else "begun within"
            why = "" if heard else " (is there room for it, or do other runs hold the processors?)"
            raise WorkerLostError(f"it has not {what} {limit:g} s{why}") from None

    async def _check_folder(self, assignment: Assignment) -> bool:
        """Whether what the worker writes arrives where the dataset is assembled; a failure ends the run."""
        try:
            for shard in assignment.shards.values():
                await asyncio.to_thread(shard.check_answer)
        except ConfigError as error:
            self._fail(error)
        return True

    def _take(self, number: int, report: Report) -> None:
        for text in report.warnings:
            _log.warning("worker %d: %s", number, text)
        if report.metrics:
            self.metrics[number] = report.metrics
        if report.phase == GENERATING and self.began is None:
            self.began = time.perf_counter()
        self.skipped = self.skipped or list(report.skipped)
        self.takes.extend(report.takes)
        self._shared.report(report.made)
        if report.fault is not None:
            self._fail(_error_of(number, report.fault))

    def _fail(self, error: Exception) -> None:
        """End the run with an error; the first one counts."""
        self._error = self._error or error
        self._shared.budget.stop(FAILED)


def _error_of(number: int, fault: Fault) -> Exception:
    """A worker's fault as an exception of the driver's."""
    if fault.of_config:
        return ConfigError(f"worker {number}: {fault.message}")
    if fault.traceback:
        _log.error("worker %d:\n%s", number, fault.traceback.rstrip())
    return ClusterError(f"worker {number}: {fault.name}: {fault.message}")
