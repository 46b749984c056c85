"""Errors a user can mend: one line that says what, where, the valid choices and the fix."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType


class MimicpipeError(Exception):
    """Base of every error that is reported as one line, without a traceback."""


class ConfigError(MimicpipeError, ValueError):
    """A wrong key, value or combination in the run's configuration (exit code 2); also a ValueError."""


class SourceDemoError(MimicpipeError):
    """A source demo file that cannot be used; names the file, the demo and the key."""


class RecorderError(RuntimeError):
    """A committed episode or the dataset's storage failed (a RuntimeError, as the seed's recorder raises).

    Attributes:
        published: the folder of the episodes that were saved all the same; None if there is no dataset.
        missing: {index: frames} of episodes that could not be written; in the dataset, those behind them moved up.
    """

    published: Path | None = None
    missing: Mapping[int, int] = MappingProxyType({})


class StallError(MimicpipeError):
    """No simulator step within `stall_timeout_s`; carries the watchdog's report."""


class ClusterError(MimicpipeError):
    """Workers that cannot be had, or one that was lost too often, or has failed; names it."""


class RequestError(ValueError):
    """A generator's queue request that cannot be served (wrong slot, shape, dtype, device or a non-finite value)."""
