"""The recorder contract: committed episodes in, one dataset out, in commit order."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from mimicpipe.pipeline.episode import Episode
from mimicpipe.pipeline.run_state import FrameColumns

OnDurable = Callable[[Episode, int], None]
"""Called with (episode, episode_index) once the episode survives a kill; from any thread.

A recorder that cannot promise that before the end has let go of the episode's columns by then; its outcome is complete.
"""


class Recorder(ABC):
    """Takes finished episodes and writes them; `episode_index` is the order of `commit`."""

    on_durable: OnDurable | None = None
    frame_columns: FrameColumns | None = None
    """What it wants to have of each frame beside the observations and the action."""

    @abstractmethod
    def commit(self, episode: Episode) -> None:
        """Hand over one episode; may block while a bounded queue is full.

        The episode owns its memory, so the caller may reuse every buffer at once. Nothing committed is ever dropped.

        Raises:
            RuntimeError: after `finalize`, or (RecorderError) when an earlier committed episode could not be written.
            ValueError: NaN or infinity in a column; names the feature.
        """

    def try_commit(self, episode: Episode) -> bool:
        """Commit if that needs no waiting for a full queue; False (and nothing done) if it does."""
        self.commit(episode)
        return True

    @abstractmethod
    def finalize(self) -> Path | None:
        """Drain, complete the dataset and return its path; idempotent, re-raises the same failure on each call."""

    def stats(self) -> dict[str, float]:
        """Metrics `recorder/...` of DESIGN §5 without the prefix; empty where there is no queue."""
        return {}
