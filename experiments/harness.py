"""What the experiments share: a run built once and generated many times, the machine's description, small tables."""

import asyncio
import gc
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mimicpipe import build
from mimicpipe.cli import check_command_line
from mimicpipe.config import RunConfig
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pipeline.generation import Generator as DemoGenerator
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunState
from mimicpipe.pipeline.telemetry import IdleTimingSelector
from mimicpipe.report.summary import git_commit, machine, versions

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"


def compose(*overrides: str) -> RunConfig:
    """The checked config of `python run.py OVERRIDES`.

    Raises:
        ConfigError: the command line cannot be run.
    """
    (job,) = check_command_line(overrides, CONF)
    return job.config


@dataclass(frozen=True)
class Parts:
    """What a run is made of, apart from its budget and its recorder."""

    config: RunConfig
    env: MimicEnv
    pool: DataGenInfoPool
    generator: DemoGenerator


@contextmanager
def built(*overrides: str) -> Generator[Parts]:
    """Build the parts that `run.py` would build, and close the env at the end."""
    config = compose("tracker=none", *overrides)
    env = build.build_env(config)
    try:
        pool = build.build_pool(config, env, build.build_subtasks(config))
        yield Parts(config, env, pool, build.build_generator(config, env, pool))
    finally:
        env.close()


@dataclass(frozen=True)
class Sample:
    """One timed piece of work."""

    env_steps: int
    wall_s: float
    cpu_s: float
    """CPU seconds of all threads of this process."""

    @property
    def rate(self) -> float:
        """Env-steps per second of wall time."""
        return self.env_steps / self.wall_s


class Stopwatch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def sample(self, env_steps: int) -> Sample:
        """What has passed until now, for this many env-steps."""
        return Sample(env_steps, time.perf_counter() - self._wall, time.process_time() - self._cpu)


@dataclass(frozen=True)
class Generated:
    """One run: `until_generated` ends with the last attempt, `until_written` when the dataset is complete."""

    until_generated: Sample
    until_written: Sample
    state: RunState
    recorder: dict[str, float]


def run_pipeline(parts: Parts, config: RunConfig | None = None) -> Generated:
    """One run to the end of its budget, as `run.py` does it but without a live view.

    Args:
        parts: env, pool and generator, which may have been used before.
        config: budget and recorder; None is that of `parts`.
    """
    config = config or parts.config
    recorders = build.build_recorders(config, parts.env)
    selector = IdleTimingSelector()
    gc.collect()  # a run of its own process has no earlier run to clear away
    watch = Stopwatch()
    state = build.build_run_state(config, parts.env, parts.pool, recorders, lambda _: None, selector)
    runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector))
    with runner, torch.inference_mode():
        runner.run(generate(state, parts.generator, info_pool=parts.pool))
    until_generated = watch.sample(state.counters.env_steps)
    stats: dict[str, float] = {}
    for recorder in recorders.all():
        recorder.finalize()
        stats |= recorder.stats()
    return Generated(until_generated, watch.sample(state.counters.env_steps), state, stats)


@contextmanager
def torch_threads(count: int) -> Generator[None]:
    """Let torch use so many threads within one operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def describe_machine() -> dict[str, Any]:
    """What a result was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {**machine(), "memory_gb": round(memory / 1e9, 1), "versions": versions(), "git": git_commit(ROOT)}


def source_hash() -> str:
    """SHA-256 over everything in the package and in conf/ that can change what a run does."""
    digest = hashlib.sha256()
    for path in sorted(p for folder in (ROOT / "mimicpipe", CONF) for p in folder.rglob("*.*")):
        if path.suffix in (".py", ".yaml", ".hdf5"):
            digest.update(f"{path.relative_to(ROOT)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def machine_line(description: dict[str, Any]) -> str:
    """The description in one sentence."""
    packages = ", ".join(f"{name} {version}" for name, version in description["versions"].items())
    git = description["git"] or {}
    commit = f"commit {git['commit'][:10]}{' with changes' if git['dirty'] else ''}" if git else "no commit"
    return f"{description['cpu']}, {description['cpus']} CPUs, {description['system']}; {packages}; {commit}."


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are right-aligned."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def results_folder(name: str, given: Path | None, *, smoke: bool) -> Path:
    """Where an experiment's results go: as told, else into its results/, or those of a toy size into outputs/smoke/."""
    return given or (ROOT / "outputs" / "smoke" / name if smoke else ROOT / "experiments" / name / "results")


def write_text(path: Path, text: str) -> None:
    """Write a file and the folders to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def measure_section(
    section: str, rows_of: Callable[[], list[dict[str, Any]]], file: Path, description: dict[str, Any]
) -> dict[str, Any]:
    """Measure one section of an experiment and put it into a JSON file; all sections that are in the file then.

    Args:
        section: its name.
        rows_of: measures it.
        file: results of the experiment; other sections stay as they are.
        description: of the machine.
    """
    print(f"{section}: measuring", file=sys.stderr, flush=True)
    began, load = time.perf_counter(), round(os.getloadavg()[0], 2)
    rows = rows_of()
    runtime = round(time.perf_counter() - began, 1)
    measured = {"machine": description, "load_average_before": load, "runtime_s": runtime, "rows": rows}
    results = {**read_json(file), section: measured}
    write_text(file, json.dumps(results, indent=1) + "\n")
    print(f"{section}: {runtime} s", file=sys.stderr)
    return results


def render_sections(results: dict[str, Any], sections: dict[str, Callable[[list[dict[str, Any]]], str]]) -> list[str]:
    """Of each section that was measured its text, and the machine's line."""
    parts: list[str] = []
    for section, to_text in sections.items():
        if section in results:
            measured = results[section]
            took = f"Took {measured['runtime_s']:.0f} s; load average before it {measured['load_average_before']}."
            parts += [to_text(measured["rows"]), f"{machine_line(measured['machine'])} {took}\n"]
    return parts
