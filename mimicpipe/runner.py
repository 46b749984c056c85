"""One job: check, build, run, report. Whatever happens, run.json says how it ended."""

import asyncio
import datetime
import logging
import resource
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from mimicpipe import stdout
from mimicpipe.config import GROUPS, RunConfig, check
from mimicpipe.errors import RecorderError, StallError
from mimicpipe.failures import say_failure
from mimicpipe.preflight import FAILED_SUFFIX, check_machine
from mimicpipe.report.format import near
from mimicpipe.signals import EXIT_CODES, leave_at_once, noted_signals, stop_on_signal

if TYPE_CHECKING:  # heavy: imported once the config is known to be good
    from mimicpipe.build import Recorders
    from mimicpipe.envs.base import MimicEnv
    from mimicpipe.pipeline.budget import Budget
    from mimicpipe.pipeline.run_state import RunState
    from mimicpipe.pipeline.telemetry import Counters
    from mimicpipe.recorders.finalizing import Finalizable
    from mimicpipe.report.attempts import AttemptsLog
    from mimicpipe.report.sample import EpisodeSample, Take
    from mimicpipe.report.series import Series
    from mimicpipe.resume import Settled
    from mimicpipe.trackers.composite import CompositeTracker

_log = logging.getLogger("mimicpipe")

_TRACKED = ("exit_reason", "wall_s", "counts", "rates", "stage_s", "bottleneck", "bottleneck_proof", "config_hash")
"""Of run.json, what trackers are told at the end."""


def run_job(cfg: DictConfig) -> None:
    """Run one job in Hydra's output folder.

    A job of a sweep that fails leaves that in its folder and returns, so that every launcher goes on with the others;
    `reported_sweep` finds it there.

    Raises:
        SystemExit: it failed alone; or a signal ended it, and with it a sweep whose jobs run in this process.
    """
    with noted_signals() as seen:
        context = HydraConfig.get()
        config = check(cfg)
        job = _kind_of_job(config)(config, Path(context.runtime.output_dir), dict(context.runtime.choices), seen)
        try:
            check_machine(job.config)
            reason = job.run()
            exit_code = EXIT_CODES.get(reason, 0)
        except (KeyboardInterrupt, SystemExit) as error:
            reason, exit_code = _ending(error, seen)
        except Exception as error:  # noqa: BLE001 - printed, and the exit code says it
            reason, exit_code = say_failure(error, job.output_dir)
        if seen and exit_code == 0:
            reason, exit_code = seen[0], EXIT_CODES[seen[0]]  # it came when all the demos were there
        try:
            job.report(reason, exit_code)
        except OSError as error:
            print(f"error: no report in {near(job.output_dir)}: {error}", file=sys.stderr)
            exit_code = exit_code or 1
    if exit_code and (context.mode == RunMode.RUN or (exit_code in EXIT_CODES.values() and _is_in_process(context))):
        raise SystemExit(exit_code)  # alone, too: Hydra would add a line of its own to another exception


def _kind_of_job(config: RunConfig) -> "type[Job]":
    if config.cluster["_target_"] is None:
        return Job
    from mimicpipe.cluster.job import ClusterJob

    return ClusterJob


def _is_in_process(context: HydraConf) -> bool:
    """Whether a sweep's jobs run one after the other in its own process; a launcher's worker must not leave."""
    return str(context.launcher._target_).endswith(".BasicLauncher")


def _ending(error: KeyboardInterrupt | SystemExit, seen: Sequence[str]) -> tuple[str, int]:
    """(exit reason, exit code) of a job that left by a signal, or because something in it called `sys.exit`."""
    if isinstance(error, SystemExit) and not seen:
        traceback.print_exception(error)
        return f"SystemExit: {error.code}", 1
    reason = seen[0] if seen else "SIGINT"
    print(f"ended by {reason}", file=sys.stderr)
    return reason, EXIT_CODES[reason]


class Job:
    """A run and what is known of it so far.

    Args:
        config: the checked config.
        output_dir: Hydra's output folder.
        choices: the option chosen in each group.
        seen: names of the signals that have come.
    """

    def __init__(self, config: RunConfig, output_dir: Path, choices: dict[str, str], seen: list[str]) -> None:
        self.config = config
        self.output_dir = output_dir
        self.choices = choices
        self.seen = seen
        self.started = datetime.datetime.now(datetime.UTC)
        self.began_s = time.perf_counter()
        self.setup_s = 0.0
        self.state: RunState | None = None
        self.budget: Budget | None = None
        self.counters: Counters | None = None
        self.recorders: Recorders | None = None
        self.attempts: AttemptsLog | None = None
        self.trackers: CompositeTracker | None = None
        self.series: Series | None = None
        self.sample: EpisodeSample | None = None
        self.episodes: dict[str, Any] = {}
        """What was found out about episodes after the run, for report.html."""
        self.skipped: list[str] = []
        self.datasets: dict[str, Path] = {}
        """What this run published: the dataset ("demos") and that of failed attempts ("failed")."""
        self.generated_s: float | None = None
        """When the last attempt had ended, on the run's clock; None before that."""
        self.final: dict[str, float] = {}

    def run(self) -> str:
        """Build everything and generate; returns why the run ended."""
        import torch

        from mimicpipe import build
        from mimicpipe.pipeline.telemetry import IdleTimingSelector
        from mimicpipe.report.attempts import AttemptsLog
        from mimicpipe.report.sample import EpisodeSample

        config = self.config
        print(f"output folder: {near(self.output_dir)}", file=sys.stderr, flush=True)  # imports take seconds
        with ExitStack() as stack:
            env = build.build_env(config)
            stack.callback(env.close)
            pool = build.build_pool(config, env, build.build_subtasks(config))
            self.skipped = list(pool.skipped)
            generator = build.build_generator(config, env, pool)
            used = {"planner": build.takes_planner(config), "pool": bool(pool.num_datagen_infos)}
            for group in (name for name, is_used in used.items() if not is_used):
                self.choices.pop(group, None)  # what was not used is not named
            stack.callback(getattr(generator, "close", lambda: None))
            # Last, so that nothing is half-written where something above is refused.
            settled = self._settled()
            self.recorders = build.build_recorders(config, env, settled)
            self.trackers = build.build_trackers(config, self.output_dir)
            self.attempts = attempts = AttemptsLog(self.output_dir / "attempts.jsonl", settled.rows if settled else ())
            stack.callback(attempts.close)
            if self.recorders.demos is not None:
                self.recorders.demos.on_durable = attempts.durable
            self.setup_s = time.perf_counter() - self.began_s
            selector = IdleTimingSelector()
            self.state = build.build_run_state(config, env, pool, self.recorders, attempts.settled, selector)
            self.budget, self.counters = self.state.budget, self.state.counters
            self.sample = EpisodeSample(self.state)
            if settled is not None:
                self.budget.resume(settled.outcomes)
                self._count(settled)
            runner = stack.enter_context(asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)))
            # No gradients anywhere, and torch's bookkeeping for them costs a third of a small operation.
            with torch.inference_mode():
                reason = runner.run(self._drive(generator, pool))
            attempts.close()
            self._look_back(env, self.sample.takes(self.state.budget.attempts), self.state.clock.wall_s)
            return reason

    def _look_back(self, env: "MimicEnv", takes: "Sequence[Take]", wall_s: float) -> None:
        """Draw a few episodes, and find out what else report.html shows of them; a failure costs the pictures only."""
        from mimicpipe.report.episodes import look_back

        try:
            self.episodes = look_back(env, takes, self.output_dir, wall_s, self.config.preview)
        except Exception as error:  # noqa: BLE001 - the run is over, and its result stands
            _log.warning("report.html is without pictures and paths: %s: %s", type(error).__name__, error)

    def _settled(self) -> "Settled | None":
        """What the run that is resumed has settled; None for a new run."""
        from mimicpipe.preflight import check_dataset_root
        from mimicpipe.resume import settled_attempts

        config = self.config
        if config.resume is None:
            return None
        failed = check_dataset_root(config, FAILED_SUFFIX) if config.recorder["save_failed"] else None
        attempts, root = self.output_dir / "attempts.jsonl", check_dataset_root(config)
        return settled_attempts(attempts, root, failed, config.dataset.overwrite)

    def _count(self, settled: "Settled") -> None:
        """Let the counters begin where the interrupted run has ended."""
        assert self.counters is not None
        settled.count(self.counters)
        print(f"resumed at attempt {len(settled.rows)}, with {settled.demos} demos", file=sys.stderr, flush=True)

    async def _drive(self, generator: Any, pool: Any) -> str:
        """Generate, watched and finalized."""
        from mimicpipe.pipeline.generation import generate

        state = self.state
        assert state is not None
        state.on_stuck = self._end_stuck
        return await self._watched(lambda: generate(state, generator, info_pool=pool))

    def _title(self) -> str:
        """What runs, in a few words."""
        title = f"{self.config.task['name']} {self.config.task['variant']}"
        return title + f", {self.choices.get('env', 'env')} x {self.config.env['num_envs']}"

    async def _watched(self, work: Callable[[], Awaitable[str]]) -> str:
        """Do the run's work with the live view, stop it on a signal, then finalize the recorders, whatever happened."""
        from mimicpipe.recorders.finalizing import PatientExecutor
        from mimicpipe.report.console import ProgressView
        from mimicpipe.report.sampler import Sampler
        from mimicpipe.report.series import Series

        assert self.budget is not None
        assert self.trackers is not None
        budget, loop = self.budget, asyncio.get_running_loop()
        view = ProgressView(self._title(), self.config.num_demos, max_attempts=self.config.max_attempts)
        self.series = Series(self._snapshot)
        sampler = Sampler(self.series, view, self.trackers)

        def stop(reason: str) -> None:
            sampler.phase = f"{reason}: ending; once more aborts"
            budget.stop(reason)

        loop.set_default_executor(PatientExecutor())
        with view, stop_on_signal(loop, stop, lambda: view.__exit__(), self.seen):
            sampling = asyncio.create_task(sampler.run(), name="sampler")
            try:
                reason = await work()
            except BaseException:
                await self._finalize(raising=False)
                raise
            else:
                sampler.phase = sampler.phase or "writing the last episodes"
                await self._finalize(raising=True)
            finally:
                sampling.cancel()
                self.final = dict(sampler.last())
        return reason

    async def _finalize(self, *, raising: bool) -> None:
        """Complete every dataset, off the loop's thread; a failure is logged where another one is on its way."""
        assert self.state is not None
        assert self.recorders is not None
        self.generated_s = self.state.clock.wall_s
        with self.state.clock.idle_is("record"):
            for name, recorder in self.recorders.named().items():
                await self._publish(name, recorder, raising)

    async def _publish(self, name: str, recorder: "Finalizable", raising: bool) -> None:
        """Complete one dataset."""
        from mimicpipe.recorders.finalizing import finalize

        try:
            path = await finalize(recorder, self.config.stall_timeout_s)
            if path is not None:
                self.datasets[name] = path
        except Exception as error:
            if isinstance(error, RecorderError) and error.published is not None:
                self.datasets[name] = error.published
                self._leave_out(error.missing, demos=name == "demos")
            if raising:
                raise
            _log.error("finalizing the dataset failed, too: %s", error)

    def _leave_out(self, missing: Mapping[int, int], *, demos: bool) -> None:
        """Episodes that were committed, but could not be written, do not count."""
        assert self.counters is not None
        counters = self.counters
        counters.frames_committed -= sum(missing.values())
        if demos and self.attempts is not None:
            counters.episodes_committed -= len(missing)
            self.attempts.without(missing)

    def _end_stuck(self, error: StallError) -> None:
        """The event loop cannot end the run: complete dataset and report from this thread, and end the process."""
        print(f"error: {error}\nnothing can end it, so the process ends here", file=sys.stderr, flush=True)
        reason = f"{type(error).__name__}: {error}"

        def complete() -> None:
            assert self.recorders is not None
            for name, recorder in self.recorders.named().items():
                path = recorder.finalize()
                if path is not None:
                    self.datasets[name] = path

        def report() -> None:
            self.final = self._snapshot()
            self.report(reason, 1)

        for work in (complete, report):
            thread = threading.Thread(target=work, name=f"mimicpipe-{work.__name__}", daemon=True)
            thread.start()
            thread.join(self.config.stall_timeout_s)
        leave_at_once(1)

    def _snapshot(self) -> dict[str, float]:
        from mimicpipe.pipeline.metrics import run_metrics

        assert self.state is not None
        assert self.recorders is not None
        stats = self.recorders.demos.stats() if self.recorders.demos is not None else {}
        if self.recorders.demos is not None:
            wall_s = self.state.clock.wall_s
            stats["finalize_s"] = 0.0 if self.generated_s is None else wall_s - self.generated_s
        return {**run_metrics(self.state, stats), "env_steps": float(self.state.counters.env_steps)}

    def _published(self, name: str, suffix: str) -> dict[str, str] | None:
        if name not in self.datasets:
            return None
        return {"root": str(self.datasets[name]), "repo_id": self.config.dataset.repo_id + suffix}

    def report(self, reason: str, exit_code: int) -> None:
        """Write run.json, close the trackers and, if anything was run, write report.html and print the summary."""
        from mimicpipe.report.summary import print_summary, write_json

        record = self.record(reason, exit_code)
        write_json(self.output_dir / "run.json", record)
        if self.trackers is not None:
            self.trackers.close({key: record[key] for key in _TRACKED}, exit_code)
        self._write_page()
        if self.budget is not None:
            stdout.tell(lambda: print_summary(record, self.output_dir))

    def _write_page(self) -> None:
        """Write report.html, and report.json that it is made of; a failure is a warning."""
        from mimicpipe.report.page import write_run_page
        from mimicpipe.report.run_files import REPORT
        from mimicpipe.report.summary import write_json

        try:
            series = self.series.columns() if self.series is not None else {}
            write_json(self.output_dir / REPORT, {"series": series, **self.episodes}, indent=None)
            write_run_page(self.output_dir)
        except Exception as error:  # noqa: BLE001 - the run's result must not be lost for it
            _log.warning("report.html could not be written: %s: %s", type(error).__name__, error)

    def record(self, reason: str, exit_code: int) -> dict[str, Any]:
        """The content of run.json."""
        from mimicpipe.report.bottleneck import find_bottleneck
        from mimicpipe.report.summary import git_commit, machine, versions

        final, budget, counters, config = self.final, self.budget, self.counters, self.config
        stages = {name[5:-2]: seconds for name, seconds in final.items() if name.startswith("time/")}
        recorder = {name[9:]: value for name, value in final.items() if name.startswith("recorder/")}
        rates = {name[11:]: value for name, value in final.items() if name.startswith("throughput/")}
        bottleneck = find_bottleneck(final)
        return {
            "exit_reason": reason,
            "exit_code": exit_code,
            "argv": sys.argv,
            "choices": {group: self.choices[group] for group in GROUPS if group in self.choices},
            "config_hash": config.hash(),
            "seed": config.seed,
            "started": self.started.isoformat(timespec="seconds"),
            "setup_s": self.setup_s,
            "wall_s": final.get("wall_s", 0.0),
            "counts": {
                "attempts": budget.attempts if budget else 0,
                "successes": budget.successes if budget else 0,
                "failures": budget.failures if budget else 0,
                "episodes": counters.episodes_committed if counters else 0,
                "frames": counters.frames_committed if counters else 0,
                "env_steps": counters.env_steps if counters else 0,
            },
            "reasons": dict(counters.reasons) if counters else {},
            "rates": rates,
            "stage_s": stages,
            "bottleneck": bottleneck.stage if bottleneck else None,
            "bottleneck_proof": bottleneck.as_dict() if bottleneck else None,
            "recorder": recorder,
            "skipped_source_demos": self.skipped,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            "dataset": self._published("demos", ""),
            "failed_dataset": self._published("failed", FAILED_SUFFIX),
            "versions": versions(),
            "machine": machine(),
            "git": git_commit(Path(__file__).parent),
            "config": config.to_dict(),
        }
