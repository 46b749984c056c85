"""What is left of a run: run.json, written on every exit, and the summary a person reads."""

import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mimicpipe.report.console import stage_shares
from mimicpipe.report.format import count, elapsed, near, percent

_PACKAGES = ("mimicpipe", "torch", "mujoco", "lerobot", "numpy", "hydra-core", "wandb")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide what a run does; one that is missing is left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass  # not Linux: the name from `platform` will do
    return {"system": platform.platform(), "cpu": cpu, "cpus": len(os.sched_getaffinity(0))}


def git_commit(folder: Path) -> dict[str, Any] | None:
    """{"commit", "dirty"} of the work tree that a folder lies in; None if there is none."""
    commands = (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True, timeout=10
            ).stdout
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.strip(), "dirty": bool(status.strip())}


def write_json(path: Path, value: Mapping[str, Any], indent: int | None = 2) -> None:
    """Write a JSON file whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent, default=str)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def open_commands(repo_id: str, root: Path) -> list[str]:
    """Shell commands that open a dataset: with LeRobot's class, and in LeRobot's viewer."""
    code = (
        # Without this, LeRobot logs a hundred lines where FFmpeg is missing, and goes on with PyAV.
        "import logging; logging.disable(logging.WARNING); "
        "from lerobot.datasets.lerobot_dataset import LeRobotDataset; "
        f"d = LeRobotDataset({json.dumps(repo_id)}, root={json.dumps(str(root))}); print(d); print(d[0])"
    )
    viewer = Path(sys.executable).with_name("lerobot-dataset-viz")
    options = ["--repo-id", repo_id, "--root", str(root), "--episode-index", "0"]
    return [shlex.join([near(Path(sys.executable)), "-c", code]), shlex.join([near(viewer), *options])]


def print_summary(run: Mapping[str, Any], output_dir: Path, console: Console | None = None) -> None:
    """Print what a person wants to know at the end.

    Args:
        run: the content of run.json.
        output_dir: the run's folder.
        console: where to print; None is stdout.
    """
    out = console or Console(highlight=False)
    ok = run["exit_code"] == 0
    heading = f"{count(_demos(run))} of {count(run['config']['num_demos'])} demos in {elapsed(run['wall_s'])}"
    out.print()
    ending = {"num_demos": "", "max_attempts": "max_attempts reached", "max_failures": "max_failures reached"}
    reason = ending.get(run["exit_reason"], f"ended by {run['exit_reason']}")
    out.print(Text.assemble((heading, "bold green" if ok else "bold red"), f"  {reason}"), soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=10)
    table.add_column(overflow="fold")
    for name, value in _rows(run):
        table.add_row(name, value)
    out.print(table)
    for name, path in _paths(run, output_dir):
        out.print(Text.assemble((f"{name:<12}", "dim"), near(path)), soft_wrap=True)
    dataset = run.get("dataset")
    if dataset is not None and (Path(dataset["root"]) / "meta" / "info.json").is_file():  # LeRobot's layout
        opener, viewer = open_commands(dataset["repo_id"], Path(near(Path(dataset["root"]))))
        out.print(Text("\nOpen it, or watch an episode (the viewer needs `pip install 'lerobot[viz]'`):"))
        out.print(Text(f"  {opener}"), soft_wrap=True)
        out.print(Text(f"  {viewer}"), soft_wrap=True)


def _demos(run: Mapping[str, Any]) -> int:
    """Successes, or of them those that are in the dataset, where there is to be one."""
    return run["counts"]["successes" if run["choices"].get("recorder") == "none" else "episodes"]


def _rows(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    counts, rates, recorder = run["counts"], run["rates"], run.get("recorder", {})
    attempts = counts["attempts"]
    rows = [("attempts", f"{count(attempts)}, {percent(counts['successes'] / attempts)} success" if attempts else "0")]
    failures = {reason: n for reason, n in run["reasons"].items() if reason != "success"}
    if failures:
        ordered = sorted(failures.items(), key=lambda item: -item[1])
        rows.append(("failed", ", ".join(f"{count(n)} {reason}" for reason, n in ordered)))
    if run.get("skipped_source_demos"):
        rows.append(("skipped", f"source demos {', '.join(run['skipped_source_demos'])}"))
    rates_shown = (("demos_per_hour", "demos/h"), ("env_steps_per_s", "env-steps/s"), ("frames_per_s", "frames/s"))
    rows.append(("rate", ", ".join(f"{count(rates[name])} {unit}" for name, unit in rates_shown if rates.get(name))))
    shares = stage_shares({f"time/{stage}_s": seconds for stage, seconds in run["stage_s"].items()})
    if shares:
        rows.append(("time", ", ".join(f"{stage} {percent(share)}" for stage, share in shares.items())))
        proof = run.get("bottleneck_proof")
        rows.append(("bottleneck", f"{run['bottleneck']}: {proof['proof']}" if proof else str(run["bottleneck"])))
    if "queue_peak" in recorder:
        limit = f" of {count(recorder['queue_maxsize'])}" if recorder.get("queue_maxsize") else ""
        held = (
            f"held the simulator up {count(recorder['backpressure_events'])} times, {recorder['backpressure_s']:.1f} s"
        )
        rows.append(("recorder", f"queue peak {count(recorder['queue_peak'])}{limit}, {held}"))
    rows.append(("memory", f"{count(run['peak_rss_mb'])} MB at most"))
    return rows


def _paths(run: Mapping[str, Any], output_dir: Path) -> Sequence[tuple[str, Path]]:
    """What there is to look at, with what it is."""
    dataset, failed = run.get("dataset"), run.get("failed_dataset")
    candidates = [
        ("dataset", Path(dataset["root"])) if dataset else None,
        ("failed", Path(failed["root"])) if failed else None,
        ("attempts", output_dir / "attempts.jsonl"),
        ("metrics", output_dir / "metrics.jsonl"),
        ("W&B", output_dir / "wandb"),
        ("TensorBoard", output_dir / "tensorboard"),
        ("run", output_dir / "run.json"),
        ("preview", output_dir / "preview.gif"),
        ("report", output_dir / "report.html"),
    ]
    return [candidate for candidate in candidates if candidate is not None and candidate[1].exists()]
