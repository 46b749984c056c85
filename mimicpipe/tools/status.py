"""How a run is doing, from another terminal: `python -m mimicpipe.tools.status RUN [--watch]`.

RUN is a run's output folder, or a sweep's. It is read, nothing else: the run does not notice. A run writes its figures
every two seconds.
"""

import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.report.console import bottleneck, eta_s, queues
from mimicpipe.report.format import count, duration, elapsed, near, percent
from mimicpipe.report.run_files import read_json
from mimicpipe.report.sweep import is_sweep, read_jobs
from mimicpipe.tools.exits import exit_code, tool_parser
from mimicpipe.trackers.jsonl import JsonlTracker

_EVERY_S = 1.0
_QUIET_S = 10.0
_TAIL = 1 << 16
"""Bytes from the end of metrics.jsonl that hold its last row."""
_SETTING_UP_S = 120.0
"""A run without metrics.jsonl that is younger is still being set up, as far as one can see."""
EXIT_CODES = {"running": 0, "setting up": 0, "ended": 0, "failed": 1, "killed": 3}


@dataclass(frozen=True)
class Status:
    """A run at this moment."""

    folder: Path
    state: str
    """One of `EXIT_CODES`."""
    reason: str
    """Why it ended; empty otherwise."""
    metrics: Mapping[str, float]
    """The last row of metrics.jsonl."""
    age_s: float
    """Since that row was written."""
    num_demos: int | None
    max_attempts: int | None


def read_status(folder: Path) -> Status:
    """Look at a run's output folder.

    Raises:
        ConfigError: it is no run's.
    """
    if not (folder / ".hydra").is_dir() and not (folder / "run.json").is_file():
        raise ConfigError(f"{folder}: no output folder of a run (no .hydra or run.json in it)")
    run, path = read_json(folder / "run.json"), folder / "metrics.jsonl"
    metrics = last_row(path)
    age_s = time.time() - metrics["time"] if "time" in metrics else 0.0
    if path.is_file() and JsonlTracker.is_written(path):
        state = "running"  # also where an earlier run, which this one goes on with, has left run.json
    elif run:
        state = "ended" if run.get("exit_code") in (0, 130, 143) else "failed"
        state = "killed" if run.get("exit_reason") == "killed" else state
    elif not path.is_file() and time.time() - folder.stat().st_mtime < _SETTING_UP_S:
        state = "setting up"
    else:
        state = "killed"
    asked = _asked(folder, run)
    reason = str(run.get("exit_reason", "")) if state in ("ended", "failed") else ""
    return Status(folder, state, reason, metrics, age_s, asked.get("num_demos"), asked.get("max_attempts"))


def last_row(path: Path) -> dict[str, float]:
    """The last whole row of a metrics.jsonl; empty if there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        try:
            return {name: value for name, value in json.loads(line).items() if value is not None}
        except ValueError:
            continue
    return {}


def _asked(folder: Path, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config, or what Hydra has saved of it, for the two numbers that say how far it is to go."""
    import yaml

    if "config" in run:
        return run["config"]
    try:
        found = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, int)} if isinstance(found, dict) else {}


def lines(status: Status) -> list[str]:
    """What there is to say, in a few lines."""
    said = {"ended": f"ended by {status.reason}", "failed": f"failed: {status.reason}"}
    metrics, said_of = status.metrics, said.get(status.state, status.state)
    out = [f"{near(status.folder)}: {said_of}"]
    if metrics:
        out.append(f"  demos       {_progress(status)}")
        out.append(f"  rate        {_rates(metrics)}")
        out += [line.replace("queues: ", "  queues      ") for line in queues(metrics)]
        out += [f"  bottleneck  {found.removeprefix('bottleneck ')}" for found in (bottleneck(metrics),) if found]
    if status.state == "running" and status.age_s > _QUIET_S:
        out.append(f"  no figures for {elapsed(status.age_s)}: completing the dataset, or stalled")
    if status.state == "killed" and not (status.folder / "run.json").is_file():
        here = shlex.quote(near(status.folder))
        out.append(f"  to go on: python run.py resume={here}")
        out.append(f"  to keep what is there: python -m mimicpipe.tools.recover {here}")
    return out


def _progress(status: Status) -> str:
    metrics = status.metrics
    done, attempts = metrics.get("generation/successes", 0.0), metrics.get("generation/attempts", 0.0)
    text = count(done) + (f" of {count(status.num_demos)}" if status.num_demos else "")
    if attempts:
        text += f", {percent(done / attempts)} of {count(attempts)} attempts"
    if status.state == "running" and status.num_demos:
        text += f", ETA {duration(eta_s(metrics, status.num_demos, status.max_attempts))}"
    return text


def _rates(metrics: Mapping[str, float]) -> str:
    units = {"throughput/demos_per_hour": "demos/h", "throughput/env_steps_per_s": "env-steps/s"}
    rates = [f"{count(metrics[name])} {unit}" for name, unit in units.items() if name in metrics]
    return ", ".join([*rates, f"after {elapsed(metrics.get('wall_s', 0.0))}"])


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser(
        "status", __doc__, exit_codes="Exit code: 0 it goes on or has ended well, 1 failed, 3 killed, 2 no run."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's output folder, or a sweep's")
    parser.add_argument("--watch", action="store_true", help="say it again every second until the run is over")
    args = parser.parse_args(argv)

    def work() -> int:
        while True:
            folder = args.run.expanduser().resolve()
            folders = [job.folder for job in read_jobs(folder)] if is_sweep(folder) else [folder]
            found = [read_status(one) for one in folders]
            text = "\n".join(line for status in found for line in lines(status))
            clear = "\x1b[2J\x1b[H" if args.watch and sys.stdout.isatty() else ""
            print(clear + text, flush=True)
            if not args.watch or all(status.state not in ("running", "setting up") for status in found):
                return max(EXIT_CODES[status.state] for status in found)
            time.sleep(_EVERY_S)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
