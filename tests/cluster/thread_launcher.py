"""Workers in threads of this process: what `cluster=ray` does, without Ray."""

import asyncio
from dataclasses import replace
from pathlib import Path

from mimicpipe.cluster.messages import Order, WorkerLostError
from mimicpipe.cluster.worker import ShareRun


class ThreadLauncher:
    """A launcher as `cluster._target_` may name it.

    Args:
        lose: {worker: [attempts]}: a worker is lost when it has this to report for the first, second, ... time.
        silent: workers that never answer.
        elsewhere: {worker: folder}: a worker on whose machine the staging folders are this one.
    """

    def __init__(self, num_workers=2, max_retries=3, worker_timeout_s=60.0, lose=None, silent=(), elsewhere=None):
        self.num_workers, self.max_retries, self.worker_timeout_s = num_workers, max_retries, worker_timeout_s
        self.threads = 1
        self.silent = silent
        self.lose = {int(number): list(attempts) for number, attempts in (lose or {}).items()}
        self.elsewhere = elsewhere or {}
        self.workers = []

    def open(self):
        pass

    def start(self, number, assignment):
        lose = self.lose.setdefault(number, [])
        if number in self.elsewhere:
            folder = Path(self.elsewhere[number])
            shards = {name: replace(shard, folder=folder) for name, shard in assignment.shards.items()}
            assignment = replace(assignment, shards=shards)
        worker = ThreadWorker(ShareRun(assignment).start(), lose, number in self.silent)
        self.workers.append(worker)
        return worker

    def close(self):
        for worker in self.workers:
            worker.kill()


class ThreadWorker:
    def __init__(self, run, lose, silent):
        self.run, self.lose, self.silent = run, lose, silent

    async def poll(self, order):
        report = await asyncio.to_thread(self.run.poll, order, 0.05)
        if self.silent:
            await asyncio.Event().wait()
        if self.lose and any(made.outcome.attempt >= self.lose[0] for made in report.made):
            self.lose.pop(0)
            raise WorkerLostError("it was lost, with what it had to say")
        return report

    def kill(self):
        """The nearest to it that a thread allows."""
        while self.run._thread.is_alive():
            self.run.poll(Order(0, "killed"), 0.05)
