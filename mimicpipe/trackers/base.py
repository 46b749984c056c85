"""The tracker contract: where a run's metrics go. A tracker never stops a run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any


class Tracker(ABC):
    """A sink of metrics."""

    @abstractmethod
    def log(self, metrics: Mapping[str, float], env_steps: int, wall_s: float) -> None:
        """Record metrics sampled after `env_steps` environment steps and `wall_s` seconds of the run."""

    @abstractmethod
    def close(self, summary: Mapping[str, Any], exit_code: int) -> None:
        """Record the run's summary and release everything; idempotent."""
