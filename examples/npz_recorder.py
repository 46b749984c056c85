"""A recorder of one's own: one .npz file an episode."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.envs.base import Feature
from mimicpipe.pipeline.episode import Episode
from mimicpipe.recorders.base import Recorder


class NpzRecorder(Recorder):
    """Writes `<root>/episode_000000.npz`, ..., each at once, and `<root>/info.json` at the end.

    Args:
        root: folder, made with the first episode.
        fps: control rate, Hz.
        features: columns of an episode, by LeRobot name.
        run_info: kept in info.json.
    """

    def __init__(self, root: Path, fps: int, features: Mapping[str, Feature], run_info: Mapping[str, Any]) -> None:
        self._root = Path(root)
        names = {name: feature.names for name, feature in features.items()}
        self._info = {"fps": fps, "names": names, "run": dict(run_info)}
        self._episodes = 0
        self._finalized = False

    def commit(self, episode: Episode) -> None:
        """Write one episode; it survives a kill from here on."""
        if self._finalized:
            raise RuntimeError("NpzRecorder is already finalized")
        if episode.length == 0:
            return
        index = self._episodes
        self._root.mkdir(parents=True, exist_ok=True)
        columns = {name: column.numpy() for name, column in episode.columns.items()}
        path = self._root / f"episode_{index:06d}.npz"
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(
                file,
                attempt=episode.outcome.attempt,
                initial_state=episode.initial_state.numpy(),
                **columns,
            )
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)  # whole or not at all
        self._episodes += 1
        if self.on_durable is not None:
            self.on_durable(episode, index)

    def finalize(self) -> Path | None:
        """Write info.json; None if there was no episode."""
        if not self._finalized and self._episodes:
            text = json.dumps({"episodes": self._episodes, **self._info}, indent=2)
            (self._root / "info.json").write_text(text + "\n", encoding="utf-8")
        self._finalized = True
        return self._root if self._episodes else None
