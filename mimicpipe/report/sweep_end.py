"""Writes a sweep's report.html when the sweep ends. Light, because Hydra imports it before anything is checked."""

import logging
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

_log = logging.getLogger("mimicpipe")


class SweepReport(Callback):
    """Hydra's callback: called once the last job has ended, unless a signal has ended the sweep."""

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """As Hydra calls it."""
        end_sweep(Path(str(config.hydra.sweep.dir)).absolute())


def end_sweep(folder: Path) -> None:
    """Write a sweep's page; a failure is a warning."""
    from mimicpipe.report.sweep import write_sweep_page

    try:
        write_sweep_page(folder)
    except Exception as error:  # noqa: BLE001 - the jobs' results stand
        _log.warning("the sweep's report.html could not be written: %s: %s", type(error).__name__, error)
