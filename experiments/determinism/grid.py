"""A grid of runs that must all be the same: one Hydra multirun, then a look at what each job has left."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.harness import ROOT
from mimicpipe.recorders.digest import digest


@dataclass(frozen=True)
class Grid:
    """One multirun whose jobs must agree."""

    name: str
    what: tuple[str, ...]
    """Overrides that say what is generated."""
    how: tuple[str, ...]
    """Sweeps over what must not matter."""


_ENVS = "env.num_envs=1,2,7,16,64"
_RECORDERS = "recorder=sync,async,sharded,none"

GRIDS = (
    Grid(
        "kinematic", ("env=kinematic", "task=stack", "num_demos=24", "task.max_episode_steps=140"), (_ENVS, _RECORDERS)
    ),
    Grid(
        "mujoco",
        ("task=stack", "num_demos=16"),
        ("env.num_envs=1,7,64", "env.threads=1,2", "recorder=async,sharded"),
    ),
    Grid(
        "cameras",
        ("task=pick", "num_demos=4", "env.cameras=[front,wrist]", "env.image_size=[64,64]"),
        ("env.num_envs=1,4", "recorder=sync,async,sharded"),
    ),
)
SMOKE = (Grid("kinematic", ("env=kinematic", "num_demos=2"), ("env.num_envs=1,2", "recorder=async,none")),)


def run_grid(grid: Grid, folder: Path) -> dict[str, Any]:
    """Run every job of a grid; how many different results there are.

    Args:
        grid: what and how.
        folder: for the runs.

    Raises:
        RuntimeError: a job has failed; with its output.
    """
    command = ["-m", *grid.what, *grid.how]
    own = [f"hydra.sweep.dir={folder}", "hydra.sweep.subdir=${hydra.job.num}", "tracker=none"]
    ran = subprocess.run(
        [sys.executable, "run.py", *command, *own], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if ran.returncode:
        raise RuntimeError(f"run.py {' '.join(command)}: exit code {ran.returncode}\n{ran.stdout[-2000:]}{ran.stderr}")
    jobs = sorted(path for path in folder.iterdir() if (path / "run.json").is_file())
    attempts = [_attempts(job) for job in jobs]
    datasets = [digest(job / "dataset") for job in jobs if (job / "dataset").is_dir()]
    return {
        "name": grid.name,
        "command": f"python run.py {' '.join(command)}",
        "runs": len(jobs),
        "attempts": len(attempts[0]),
        "failed": sum(not row["success"] for row in attempts[0]),
        "attempt_lists": len({json.dumps(rows) for rows in attempts}),
        "recorded": len(datasets),
        "datasets": len(set(datasets)),
        "digest": datasets[0],
    }


def _attempts(job: Path) -> list[dict[str, Any]]:
    """The rows of attempts.jsonl, without what may differ: the slot, and where (and so whether) an episode is kept."""
    lines = (job / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [{key: value for key, value in row.items() if key not in ("slot", "episode_index")} for row in rows]
