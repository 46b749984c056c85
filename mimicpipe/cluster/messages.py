"""What the driver and its workers say to each other; all of it can be pickled."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from mimicpipe.config import RunConfig
from mimicpipe.errors import ConfigError, MimicpipeError
from mimicpipe.pipeline.budget import Share
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.recorders.shard import Shard
from mimicpipe.report.sample import Take

STARTING, SEES_FOLDER, GENERATING, ENDED = "starting", "sees the folder", "generating", "ended"
"""Where a worker stands."""


@dataclass(frozen=True)
class Assignment:
    """A worker's part of a run."""

    config: RunConfig
    share: Share
    outcomes: Sequence[bool] = ()
    """Of the share's first attempts, which are made already: whether each is a success."""
    shards: Mapping[str, Shard] = field(default_factory=dict)
    """Of the dataset ("demos") and that of failed attempts ("failed"), as far as there are any."""


class Order(NamedTuple):
    """What a worker may do from now on."""

    allowed: int
    """Attempts below this number."""
    stop: str | None = None
    """Why it is to end; None: it is not."""


class Made(NamedTuple):
    """An attempt whose episode, if it has one, is durable."""

    outcome: Outcome
    recorded: bool
    """Whether there is an episode of it, in the dataset or in that of failed attempts."""


@dataclass(frozen=True)
class Fault:
    """The exception that has ended a worker's run."""

    name: str
    message: str
    of_config: bool
    """Whether the run's config is to blame."""
    traceback: str
    """Empty where the message says all."""

    @classmethod
    def of(cls, error: BaseException) -> "Fault":
        """An exception, in words."""
        told = isinstance(error, MimicpipeError)
        text = "" if told else "".join(traceback.format_exception(error))
        return cls(type(error).__name__, str(error), isinstance(error, ConfigError), text)


@dataclass(frozen=True)
class Report:
    """What has happened at a worker since its last report."""

    phase: str
    made: Sequence[Made] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    """As `pipeline.metrics.run_metrics`, with "wall_s" and "env_steps", since it began; empty before that."""
    warnings: Sequence[str] = ()
    skipped: Sequence[str] = ()
    """Source demos that were left out."""
    takes: Sequence[Take] = ()
    """Its first episodes, once it has ended."""
    fault: Fault | None = None


class WorkerLostError(Exception):
    """A worker is gone, or does not answer; says why."""


class WorkerHandle(Protocol):
    """The driver's side of one worker."""

    async def poll(self, order: Order) -> Report:
        """Give the worker its orders, and wait for news, or a moment.

        Raises:
            WorkerLostError: it is gone.
        """
        ...

    def kill(self) -> None:
        """End the worker's process, whatever it does; idempotent."""
        ...


class Launcher(Protocol):
    """Where workers run: what the group `cluster` builds."""

    num_workers: int
    max_retries: int
    """How often a worker that is lost is started again."""
    worker_timeout_s: float
    """A worker that does not answer for this long is lost."""
    threads: int | None
    """What a worker may use of its machine's processors; None: all."""

    def open(self) -> None:
        """Get hold of the machines.

        Raises:
            MimicpipeError: they cannot be had, or are too small.
        """
        ...

    def start(self, number: int, assignment: Assignment) -> WorkerHandle:
        """Start worker `number`; returns at once."""
        ...

    def close(self) -> None:
        """Let go of the machines, and end what is left of the workers; idempotent."""
        ...
