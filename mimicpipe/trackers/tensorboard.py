"""TensorBoard event files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mimicpipe.trackers.base import Tracker


class TensorboardTracker(Tracker):
    """Scalars against environment steps, and the config and summary as text.

    Args:
        directory: the run's output folder; the event files go into its `tensorboard/`.
        config: the run's config as plain containers.

    Raises:
        ImportError: tensorboard is not installed; names the extra that has it.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("tracker=tensorboard needs tensorboard: pip install -e '.[tensorboard]'") from error
        self._writer = SummaryWriter(str(directory / "tensorboard"))
        self._writer.add_text("config", _code(config))

    def log(self, metrics: Mapping[str, float], env_steps: int, wall_s: float) -> None:
        """Write each metric; TensorBoard's wall time axis is the time of writing, `wall_s` is kept as a scalar."""
        for name, value in {**metrics, "wall_s": wall_s}.items():
            self._writer.add_scalar(name, value, env_steps)

    def close(self, summary: Mapping[str, Any], exit_code: int) -> None:
        """Write the summary and close the files."""
        self._writer.add_text("summary", _code({**summary, "exit_code": exit_code}))
        self._writer.close()


def _code(value: Mapping[str, Any]) -> str:
    """JSON, indented as a Markdown code block."""
    return "\n".join(f"    {line}" for line in json.dumps(value, indent=2, default=str).splitlines())
