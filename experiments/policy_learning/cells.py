"""The cells of the experiment (a task, a number of demos), the data they need, and how one is measured."""

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.harness import ROOT, compose, read_json
from mimicpipe.config import RunConfig
from mimicpipe.envs.base import MimicEnv
from mimicpipe.report.interval import wilson
from mimicpipe.training.checkpoint import notes_of, save_bc
from mimicpipe.training.columns import load_demos
from mimicpipe.training.fit import BcSettings, fit
from mimicpipe.training.playing import load, simulator_of
from mimicpipe.training.rollouts import EvalSettings, build_env, check_fresh, eval_config, evaluate

SOURCE_DEMOS = 10


@dataclass(frozen=True)
class Size:
    """How large the experiment is."""

    tasks: tuple[str, ...] = ("pick", "stack", "square")
    demos: tuple[int, ...] = (SOURCE_DEMOS, 1000, 100, 300)
    """In the order in which they are measured: what is cut off costs least at the end. 10 are the source demos."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the training."""
    num_envs: int = 50
    training: BcSettings = field(default_factory=lambda: BcSettings(steps=3000))
    """The same number of gradient steps for every number of demos."""
    rollouts: EvalSettings = field(default_factory=lambda: EvalSettings(seed=2_000_000))
    """Not the scenes in which the policy's settings were tried out."""

    def cells(self) -> Iterator["Cell"]:
        """In the order in which they are measured."""
        yield from (Cell(task, demos, self) for demos in self.demos for task in self.tasks)


TOY = Size(
    tasks=("pick",),
    demos=(SOURCE_DEMOS, 12),
    seeds=(0, 1),
    num_envs=4,
    training=BcSettings(hidden=16, depth=1, steps=20, batch=16),
    rollouts=EvalSettings(episodes=4, max_steps=20),
)


@dataclass(frozen=True)
class Cell:
    """One task, learned from one number of demos, once for each seed."""

    task: str
    demos: int
    size: Size

    def key(self) -> dict[str, Any]:
        """All that a cell's result depends on, apart from the sources."""
        data = {"config_hash": self._config().hash(), "episodes": self.demos}
        how = {"training": asdict(self.size.training), "rollouts": asdict(self.size.rollouts)}
        return {"task": self.task, "seeds": list(self.size.seeds), **data, **how}

    def measure(self, runs: Path) -> dict[str, Any]:
        """Make the data, train a policy for each seed, play each; a row of the results.

        Args:
            runs: folder for data and checkpoints; data that are there already are used.
        """
        config, run = self._config(), self._data(runs)
        began = time.process_time()
        demos = load_demos(run / "dataset", self.demos)
        fitted = fit(demos, self.size.seeds, self.size.training)
        training_s = time.process_time() - began
        env = build_env(eval_config(config, {"env.num_envs": str(self.size.num_envs), "env.threads": "1"}))
        try:
            policies = []
            for member, seed in enumerate(self.size.seeds):
                folder = runs / self.task / f"bc-{self.demos}-{seed}"
                shutil.rmtree(folder, ignore_errors=True)
                training = {"settings": asdict(self.size.training), "seed": seed, "losses": fitted.losses[member]}
                save_bc(folder, fitted, member, notes_of("bc", config, demos, training))
                policies.append({"seed": seed, "loss": fitted.losses[member][-1], **self._play(env, folder)})
        finally:
            env.close()
        successes, episodes = (sum(int(p[name]) for p in policies) for name in ("successes", "episodes"))
        return {
            "task": self.task,
            "demos": self.demos,
            "source": self.demos == SOURCE_DEMOS,
            "frames": int(demos.lengths.sum()),
            "success_rate": successes / episodes,
            "wilson_95": list(wilson(successes, episodes)),
            "policies": policies,
            "training_cpu_s": round(training_s, 1),
            "cpu_s": round(time.process_time() - began, 1),
        }

    def _play(self, env: MimicEnv, folder: Path) -> dict[str, Any]:
        found = load(folder, "cpu")
        assert found.notes is not None
        found.check(env)
        settings = self.size.rollouts
        check_fresh(settings, found.notes.dataset["run_seeds"], found.notes.dataset["attempt_seeds"])
        played = evaluate(env, found.policy, simulator_of(folder, None).task["hold_steps"], settings).summary()
        kept = ("successes", "episodes", "success_rate", "wilson_95", "reasons", "mean_length_of_successes")
        return {name: played[name] for name in kept}

    def _overrides(self) -> tuple[str, ...]:
        generator = (f"generator={'replay' if self.demos == SOURCE_DEMOS else 'mimicgen'}",)
        # Smaller data are the first demos of the largest ones.
        count = SOURCE_DEMOS if self.demos == SOURCE_DEMOS else max(self.size.demos)
        limit = (f"max_attempts={SOURCE_DEMOS}",) if self.demos == SOURCE_DEMOS else ()
        which = (f"task={self.task}", "task.variant=D0", *generator, f"num_demos={count}", *limit)
        return ("experiment=policy_learning", *which, "dataset.overwrite=true")

    def _config(self) -> RunConfig:
        return _composed(self._overrides())

    def _data(self, runs: Path) -> Path:
        """Output folder of the run with the demos; it is run unless it is there, complete and of this config."""
        folder = runs / self.task / ("source" if self.demos == SOURCE_DEMOS else "generated")
        record = read_json(folder / "run.json")
        if record.get("config_hash") != self._config().hash() or record.get("exit_code") != 0:
            overrides = (*self._overrides(), f"hydra.run.dir={folder.absolute()}")
            command = [sys.executable, str(ROOT / "run.py"), *overrides]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        return folder


@functools.cache  # of each run once; composing takes as long as a thousand control steps
def _composed(overrides: tuple[str, ...]) -> RunConfig:
    return compose(*overrides)


def same(row: dict[str, Any], cell: Cell) -> bool:
    """Whether a row of the results is of this cell, at this size."""
    return row["key"] == json.loads(json.dumps(cell.key()))


def missing(rows: Sequence[dict[str, Any]], size: Size) -> list[Cell]:
    """Cells that are not among the rows."""
    return [cell for cell in size.cells() if not any(same(row, cell) for row in rows)]
