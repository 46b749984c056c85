"""Weights & Biases; offline unless asked otherwise. Needs no login and prints nothing of its own."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mimicpipe.trackers.base import Tracker

INIT_TIMEOUT_S = 30.0
FINISH_TIMEOUT_S = 30.0
"""A server that does not answer holds a run up for at most this long; what was not sent stays in the run's folder."""


class WandbTracker(Tracker):
    """One W&B run.

    Args:
        directory: the run's output folder; W&B writes into its `wandb/`.
        config: the run's config as plain containers.
        mode: "offline", "online" or "disabled".
        project, entity, group, job_type, name, tags: W&B's own.

    Raises:
        Exception: wandb is missing, there is no login (online), or the server does not answer.
    """

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, Any],
        mode: str = "offline",
        project: str = "mimicpipe",
        entity: str | None = None,
        group: str | None = None,
        job_type: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        import wandb

        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=INIT_TIMEOUT_S,
            finish_timeout=FINISH_TIMEOUT_S,
            finish_timeout_raises=True,
            disable_code=True,
        )
        wandb.setup(settings=settings)
        if mode == "online" and not wandb.login(prompt=False):
            raise RuntimeError("W&B has no login here: run `wandb login`, or use tracker.mode=offline and sync later")
        self._run = wandb.init(
            dir=str(directory),
            config=dict(config),
            mode=mode,  # ty: ignore[invalid-argument-type]
            project=project,
            entity=entity,
            group=group,
            job_type=job_type,
            name=name,
            tags=list(tags),
            reinit="create_new",  # jobs of a sweep share the process; each has a run of its own
            settings=settings,
        )
        self._run.define_metric("env_steps")
        self._run.define_metric("wall_s")
        self._run.define_metric("*", step_metric="env_steps")

    def log(self, metrics: Mapping[str, float], env_steps: int, wall_s: float) -> None:
        """Log all metrics with both of their axes, `env_steps` (the default) and `wall_s`."""
        self._run.log({**metrics, "env_steps": env_steps, "wall_s": wall_s})

    def close(self, summary: Mapping[str, Any], exit_code: int) -> None:
        """Write the summary and finish the run, waiting for the server for at most `FINISH_TIMEOUT_S`.

        Raises:
            TimeoutError: the server has not taken everything; says how to send it later.
        """
        folder = Path(self._run.dir).parent
        try:
            self._run.summary.update(dict(summary))
        finally:
            try:
                self._run.finish(exit_code=exit_code)
            except TimeoutError:
                raise TimeoutError(
                    f"the W&B server has not answered for {FINISH_TIMEOUT_S:g} s, and lacks the end of this run; "
                    f"`wandb sync {shlex.quote(str(folder))}` sends it later"
                ) from None
