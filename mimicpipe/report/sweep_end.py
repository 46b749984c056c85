"""What a sweep says when it ends: its report.html, and which jobs failed.

Hydra's launchers run the jobs, here or in other processes, and know only whether one raised. So a job of a sweep raises
nothing (`runner.run_job`); what came of it is read from its folder. Light, because Hydra imports it before anything is
checked.
"""

import logging
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

if TYPE_CHECKING:
    from mimicpipe.report.sweep import Job

_log = logging.getLogger("mimicpipe")
_begun: list[Path] = []
"""Folders of sweeps that have begun in this process; Hydra makes the callback and tells nobody else."""


class SweepReport(Callback):
    """Hydra's callback, which notes that a sweep has begun, and where; of the end of one that fails it is not told."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """As Hydra calls it."""
        _begun.append(Path(str(config.hydra.sweep.dir)).absolute())


class SweepEnd:
    """How the sweep ended; known behind `reported_sweep`."""

    exit_code: int = 0


@contextmanager
def reported_sweep(jobs: int) -> Generator[SweepEnd]:
    """If a sweep is begun within: when it is over, whatever ended it, write its page and print which jobs failed.

    Args:
        jobs: how many the command line asks for; 0 if that is not known beforehand.

    Yields:
        The sweep's end, whose exit code is that of the first job that failed; 0 where there was no sweep.
    """
    _begun.clear()
    end = SweepEnd()
    try:
        yield end
    finally:
        for folder in _begun:
            end.exit_code = end_sweep(folder, jobs)


def end_sweep(folder: Path, jobs: int = 0) -> int:
    """Write a sweep's page and print a line that names the jobs that failed.

    Args:
        folder: of the sweep.
        jobs: how many there should be; 0 if that is not known.

    Returns:
        0, or the exit code of the first job that failed; 1 for one that was killed, or has not begun.
    """
    from mimicpipe.report.sweep import read_jobs, write_sweep_page

    found = read_jobs(folder)
    if found:
        try:
            write_sweep_page(folder)
        except Exception as error:  # noqa: BLE001 - the jobs' results stand
            _log.warning("the sweep's report.html could not be written: %s: %s", type(error).__name__, error)
    failed = [job for job in found if not job.good]
    missing = max(0, jobs - len(found))
    if not failed and not missing:
        return 0
    print(f"sweep: {_losses(folder, failed, missing, max(jobs, len(found)))}", file=sys.stderr, flush=True)
    return failed[0].exit_code if failed else 1


def _losses(folder: Path, failed: Sequence["Job"], missing: int, jobs: int) -> str:
    """One line: how many of the jobs failed and which, how many never began."""
    from mimicpipe.report.sweep import read_jobs, swept_keys

    swept, _ = swept_keys(read_jobs(folder))
    names = []
    for job in failed:
        values = ", ".join(f"{key}={job.values[key]}" for key in swept if key in job.values)
        name = str(job.folder.relative_to(folder))
        names.append(f"{name} ({values})" if values else name)
    parts = [f"{len(failed)} of {jobs} jobs failed: {'; '.join(names)}"] if failed else []
    if missing:
        parts.append(f"{missing} of {jobs} jobs did not begin")
    return "; ".join(parts)
