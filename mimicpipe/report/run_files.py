"""What a run's output folder says; each file may be missing, as after a kill."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.report.series import Columns, series_of_metrics
from mimicpipe.report.tally import Tally, tally

REPORT = "report.json"
PAGE = "report.html"


@dataclass
class RunFiles:
    """A run, as its files tell it."""

    folder: Path
    run: dict[str, Any]
    """run.json; empty if there is none."""
    tally: Tally
    """Of attempts.jsonl."""
    series: Columns
    """Counters over time."""
    report: dict[str, Any]
    """report.json: what was found out about episodes after the run; empty if there is none."""
    overrides: list[str]
    """Of the command line."""

    @property
    def title(self) -> str:
        """Task and variant, as far as known."""
        task = self.run.get("config", {}).get("task", {})
        return " ".join(part for part in (task.get("name"), task.get("variant")) if part) or self.folder.name


def read_run(folder: Path) -> RunFiles:
    """Read a run's output folder.

    Raises:
        ConfigError: it has neither run.json nor attempts.jsonl nor Hydra's folder, so it is no run's.
    """
    if not any((folder / name).exists() for name in ("run.json", "attempts.jsonl", ".hydra")):
        raise ConfigError(f"{folder}: no output folder of a run (no run.json, attempts.jsonl or .hydra in it)")
    report = read_json(folder / REPORT)
    series = report.get("series") or series_of_metrics(folder / "metrics.jsonl")
    run = read_json(folder / "run.json")
    return RunFiles(folder, run, tally(folder / "attempts.jsonl"), series, report, read_overrides(folder))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no file, or it is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_sweep_overrides(folder: Path) -> list[str]:
    """The overrides that a sweep was started with, as Hydra keeps them; empty where they cannot be read."""
    import yaml

    try:
        given = yaml.safe_load((folder / "multirun.yaml").read_text(encoding="utf-8"))["hydra"]["overrides"]
        return [str(override) for group in ("hydra", "task") for override in given[group]]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return []


def read_overrides(folder: Path) -> list[str]:
    """The overrides that a job was started with, as Hydra keeps them."""
    import yaml

    try:
        found = yaml.safe_load((folder / ".hydra" / "overrides.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return []
    return [str(override) for override in found or ()]
