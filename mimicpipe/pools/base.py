"""The contract of a pool's source: where the demos come from that a run starts with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv

OnError = Literal["raise", "skip"]
"""What to do with a demo that cannot be used."""


@dataclass(slots=True)
class ReadResult:
    """Demos in natural order of their names, and what was left out."""

    demos: list[SourceDemo] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(demo, reason), with on_error="skip" only."""


class DemoSource(Protocol):
    """What the group `pool` builds."""

    def load(self, env: MimicEnv, subtask_configs: SubtaskConfigs) -> ReadResult:
        """Demos with everything that the env and the subtasks need.

        Raises:
            SourceDemoError: a demo cannot be used, or (on_error="skip") none can.
        """
        ...


class DatasetReader(Protocol):
    """What reads LeRobot datasets among a pool's paths."""

    def list_episodes(self, root: Path) -> list[str]:
        """Names of a dataset's episodes, in order.

        Raises:
            SourceDemoError: it cannot be read.
        """
        ...

    def read_usable(
        self, root: Path, demo_keys: Sequence[str] | None, max_demos: int | None, on_error: OnError
    ) -> ReadResult:
        """Episodes as source demos: those of `demo_keys`, at most `max_demos`; with on_error="skip" maybe none.

        Raises:
            SourceDemoError: one cannot be used.
        """
        ...
