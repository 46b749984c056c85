"""`recorder=none`: counts what would have been written."""

from pathlib import Path

from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.base import Recorder


class NullRecorder(Recorder):
    """Lets go of every episode at once; for benchmarks and for runs whose trajectories nobody needs.

    Attributes:
        episodes: episodes committed.
        frames: frames in them.
        nbytes: bytes in their columns.
    """

    def __init__(self) -> None:
        self.episodes = 0
        self.frames = 0
        self.nbytes = 0
        self._finalized = False

    def commit(self, episode: Episode) -> None:
        """Count the episode and report it as durable: there is nothing that could be lost."""
        if self._finalized:
            raise RuntimeError("NullRecorder is already finalized")
        if episode.length == 0:
            return
        index, self.episodes = self.episodes, self.episodes + 1
        self.frames += episode.length
        self.nbytes += episode.nbytes
        if self.on_durable is not None:
            self.on_durable(episode, index)

    def finalize(self) -> Path | None:
        """Refuse further episodes; there is no dataset, so None."""
        self._finalized = True
        return None
