"""One job whose attempts several workers make: what `runner.Job` does, from the driver's side."""

import asyncio
import logging
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mimicpipe.preflight import FAILED_SUFFIX, NULL_RECORDER, check_dataset_root
from mimicpipe.runner import Job

if TYPE_CHECKING:  # heavy: imported once the config is known to be good
    from mimicpipe.cluster.driver import Driver
    from mimicpipe.cluster.messages import Assignment, Launcher
    from mimicpipe.cluster.shared_budget import SharedBudget
    from mimicpipe.recorders.shared_staging import SharedStaging
    from mimicpipe.resume import Settled

_log = logging.getLogger("mimicpipe")
_LEAD_PER_SLOT = 8
"""Attempts that a worker may be ahead of the first one that is not settled, for each of its slots."""
_PLAYED_AT_ONCE = 8
"""Slots of the env that plays a few episodes again."""


class ClusterJob(Job):
    """A job that several workers do; arguments as `Job`."""

    def __init__(self, *job: Any) -> None:
        super().__init__(*job)
        self.launcher: Launcher | None = None
        self.staging: dict[str, SharedStaging] = {}
        self.shared: SharedBudget | None = None
        self.driver: Driver | None = None

    def run(self) -> str:
        """Start the workers and follow them; returns why the run ended."""
        from mimicpipe import build
        from mimicpipe.cluster.driver import Driver
        from mimicpipe.report.attempts import AttemptsLog
        from mimicpipe.report.format import near

        config = self.config
        print(f"output folder: {near(self.output_dir)}", file=sys.stderr, flush=True)  # imports take seconds
        build.check_can_share(config)
        if not build.takes_planner(config):
            self.choices.pop("planner", None)  # what was not used is not named
        with ExitStack() as stack:
            self.launcher = launcher = build.build_component(config, "cluster")
            stack.callback(launcher.close)
            launcher.open()
            settled = self._settled()
            self._hold(settled, stack)
            self.trackers = build.build_trackers(config, self.output_dir)
            self.attempts = attempts = AttemptsLog(self.output_dir / "attempts.jsonl", settled.rows if settled else ())
            stack.callback(attempts.close)
            self.setup_s = time.perf_counter() - self.began_s
            self.shared = self._shared_budget(settled)
            self.budget, self.counters = self.shared.budget, self.shared.counters
            if settled is not None:
                self._count(settled)
            self.driver = Driver(launcher, self.shared, self._assignment, config.stall_timeout_s)
            with asyncio.Runner() as runner:
                reason = runner.run(self._watched(self.driver.run))
            attempts.close()
        self._play_again()
        return reason

    def _hold(self, settled: "Settled | None", stack: ExitStack) -> None:
        """Take the staging folders of the datasets, before any worker writes into them."""
        from mimicpipe.recorders.shared_staging import SharedStaging

        config = self.config
        if config.recorder["_target_"] == NULL_RECORDER:
            return
        kept = {"demos": settled.demos, "failed": settled.failed} if settled is not None else {}
        for name, suffix in {"demos": "", "failed": FAILED_SUFFIX}.items():
            if name == "demos" or config.recorder["save_failed"]:
                root = check_dataset_root(config, suffix)
                self.staging[name] = SharedStaging(root, config.dataset.overwrite, kept.get(name))
                stack.callback(self.staging[name].leave)

    def _shared_budget(self, settled: "Settled | None") -> "SharedBudget":
        from mimicpipe.cluster.shared_budget import SharedBudget
        from mimicpipe.pipeline.budget import BudgetLimits
        from mimicpipe.pipeline.ledger import ERRORS_IN_A_ROW

        assert self.launcher is not None
        assert self.attempts is not None
        config = self.config
        slots = self.launcher.num_workers * config.env["num_envs"]
        return SharedBudget(
            BudgetLimits(config.num_demos, config.max_attempts, config.max_failures),
            self.attempts.write,
            lead=_LEAD_PER_SLOT * slots,
            max_errors=ERRORS_IN_A_ROW * slots,
            outcomes=settled.outcomes if settled is not None else (),
            failed_episodes=settled.failed if settled is not None else 0,
        )

    def _assignment(self, number: int) -> "Assignment":
        """A worker's part of the run, as things stand: what was reported of its share need not be made again."""
        from mimicpipe.cluster.messages import Assignment
        from mimicpipe.pipeline.budget import Share

        assert self.launcher is not None
        assert self.shared is not None
        config, share = self.config, Share(number, self.launcher.num_workers)
        if config.env.get("threads", 0) is None:
            config = replace(config, env={**config.env, "threads": self.launcher.threads})
        logs = max(1, config.recorder.get("workers", 0))
        shards = {name: staging.shard(logs) for name, staging in self.staging.items()}
        return Assignment(config, share, self.shared.outcomes(share), shards)

    async def _finalize(self, *, raising: bool) -> None:
        """Assemble the datasets of the settled attempts."""
        assert self.shared is not None
        self.generated_s = self._wall_s()
        budget, counters = self.shared.budget, self.shared.counters
        expected = {"demos": counters.episodes_committed, "failed": self.shared.failed_episodes}
        for name, staging in self.staging.items():
            await self._publish(name, staging.assembly(budget.attempts, expected[name]), raising)

    def _wall_s(self) -> float:
        """Seconds since the first worker has begun to generate."""
        began = self.driver.began if self.driver is not None else None
        return 0.0 if began is None else time.perf_counter() - began

    def _snapshot(self) -> dict[str, float]:
        from mimicpipe.cluster.totals import total_metrics

        assert self.shared is not None
        assert self.driver is not None
        assert self.launcher is not None
        living, lost, wall_s = list(self.driver.metrics.values()), self.driver.lost_metrics, self._wall_s()
        budget, counters = self.shared.budget, self.shared.counters
        assembling_s = 0.0 if self.generated_s is None else wall_s - self.generated_s
        metrics = total_metrics(budget, counters, living, lost, self.launcher.num_workers, wall_s, assembling_s)
        if self.staging:
            metrics["recorder/finalize_s"] = assembling_s
        return metrics

    def _title(self) -> str:
        assert self.launcher is not None
        return f"{super()._title()}, {self.launcher.num_workers} workers"

    def _play_again(self) -> None:
        """Draw a few episodes that the workers have kept, in an env of this process."""
        from mimicpipe import build
        from mimicpipe.report.sample import chosen

        assert self.driver is not None
        assert self.shared is not None
        self.skipped = self.driver.skipped
        takes = chosen(take for take in self.driver.takes if take.attempt < self.shared.budget.attempts)
        slots = min(_PLAYED_AT_ONCE, self.config.env["num_envs"])
        try:
            env = build.build_env(replace(self.config, env={**self.config.env, "num_envs": slots}))
        except Exception as error:  # noqa: BLE001 - the run is over, and this machine need not have a simulator
            _log.warning("report.html is without pictures and paths: %s: %s", type(error).__name__, error)
            return
        try:
            self._look_back(env, takes, self.final.get("wall_s", 0.0))
        finally:
            env.close()
