"""report.html of a sweep: every job with its overrides and figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mimicpipe.errors import ConfigError
from mimicpipe.report import html
from mimicpipe.report.commands import sweep_commands
from mimicpipe.report.format import count, elapsed, percent
from mimicpipe.report.html import text
from mimicpipe.report.page import DONE, ENDINGS, tone
from mimicpipe.report.run_files import PAGE, read_json, read_overrides, read_sweep_overrides


@dataclass(frozen=True)
class Job:
    """One job of a sweep."""

    folder: Path
    run: Mapping[str, Any]
    """run.json; empty where it was killed."""
    values: Mapping[str, str]
    """{key: value} of its overrides."""

    @property
    def good(self) -> bool:
        """Whether it ended as it should."""
        return self.run.get("exit_reason") in DONE

    @property
    def exit_code(self) -> int:
        """As run.json has it; 1 where it was killed."""
        return int(self.run.get("exit_code", 1))

    def figure(self, *path: str) -> float | None:
        """A number of run.json."""
        found: Any = self.run
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return float(found) if isinstance(found, int | float) else None


def is_sweep(folder: Path) -> bool:
    """Whether a folder holds jobs, and is none itself."""
    return not (folder / ".hydra").exists() and bool(_job_folders(folder))


def write_sweep_page(folder: Path) -> Path:
    """Write report.html into a sweep's folder; returns its path.

    Raises:
        ConfigError: there is no job in it.
    """
    jobs = read_jobs(folder)
    if not jobs:
        raise ConfigError(f"{folder}: no folder of a sweep (no job in it)")
    path = folder / PAGE
    html.write_page(path, sweep_page(folder, jobs))
    return path


def read_jobs(folder: Path) -> list[Job]:
    """The jobs of a sweep, in order of their numbers."""
    return [_job(path) for path in _job_folders(folder)]


def _job_folders(folder: Path) -> list[Path]:
    found = [path.parent for path in folder.rglob(".hydra") if path.parent != folder]
    return sorted(found, key=lambda path: [(0, int(p), "") if p.isdecimal() else (1, 0, p)
                                           for p in path.relative_to(folder).parts])  # fmt: skip


def _job(folder: Path) -> Job:
    values = {}
    for override in read_overrides(folder):
        key, _, value = override.partition("=")
        values[key.lstrip("+~")] = value
    return Job(folder, read_json(folder / "run.json"), values)


def sweep_page(folder: Path, jobs: Sequence[Job]) -> str:
    """The page as a string."""
    swept, fixed = swept_keys(jobs)
    body = (
        f'<p class="kicker">mimicpipe sweep</p><h1>{text(" × ".join(swept) or folder.name)}</h1>'
        f'<p class="lede"><b>{count(len(jobs))} jobs</b>, {_endings(jobs)}{_failed(folder, jobs)}.</p>',
        html.section("Jobs", _jobs(folder, jobs, swept)),
        html.section("Compared", _compared(jobs, swept)),
        html.section("Go on", html.commands(sweep_commands(folder, read_sweep_overrides(folder)))),
        html.section("The same for all", html.pairs([*((key, text(value)) for key, value in fixed.items()),
                                                     ("Folder", f"<span class=mono>{text(folder)}</span>")])),
    )  # fmt: skip
    return html.document(
        f"{' × '.join(swept) or folder.name}: mimicpipe sweep", "\n".join(part for part in body if part)
    )


def _endings(jobs: Sequence[Job]) -> str:
    """How many have all their demos, and how many came to a limit first."""
    tones = [tone(job.run.get("exit_reason")) for job in jobs]
    complete, limited = tones.count("ok"), tones.count("limit")
    said = f'<span class="ok-text">{count(complete)} complete</span>' if complete else "none complete"
    if limited:
        said += f', <span class="limit-text">{count(limited)} ended at max_attempts or max_failures</span>'
    return said


def _failed(folder: Path, jobs: Sequence[Job]) -> str:
    names = [text(job.folder.relative_to(folder)) for job in jobs if not job.good]
    return f"; failed: {', '.join(names)}" if names else ""


def swept_keys(jobs: Sequence[Job]) -> tuple[list[str], dict[str, str]]:
    """(keys whose value differs between jobs, {key: value} of the others)."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.values))
    swept = [key for key in keys if len({job.values.get(key) for job in jobs}) > 1]
    return swept, {key: jobs[0].values[key] for key in keys if key not in swept}


def _jobs(folder: Path, jobs: Sequence[Job], swept: Sequence[str]) -> str:
    heads = ("job", *swept, "ended", "attempts", "success", "demos", "wall", "bottleneck")
    rows = []
    for job in jobs:
        name = str(job.folder.relative_to(folder))
        link = f'<a href="{text(name)}/{PAGE}">{text(name)}</a>' if (job.folder / PAGE).exists() else text(name)
        rows.append((link, *(text(job.values.get(key, "")) for key in swept), *_figures(job)))
    first = 2 + len(swept)
    return f'<div class="jobs">{html.table(heads, rows, range(first, first + 4))}</div>'


def _figures(job: Job) -> tuple[str, ...]:
    reason = job.run.get("exit_reason")
    ending = ENDINGS.get(reason, str(reason)).removesuffix(".") if reason else "killed, or still running"
    if len(ending) > 60:
        ending = f"{ending[:57]}..."
    attempts, successes = job.figure("counts", "attempts"), job.figure("counts", "successes")
    share = percent(successes / attempts) if attempts and successes is not None else "–"
    wall = job.figure("wall_s")
    proof = job.run.get("bottleneck_proof")
    return (
        f'<span class="{tone(reason)}-text">{text(ending)}</span>',
        "–" if attempts is None else count(attempts),
        share,
        "–" if successes is None else count(successes),
        elapsed(wall) if wall else "–",
        f"{text(proof['stage'])} {percent(proof['share'])}" if proof else "–",
    )


def _success(job: Job) -> float | None:
    attempts, successes = job.figure("counts", "attempts"), job.figure("counts", "successes")
    return successes / attempts if attempts and successes is not None else None


def _held(job: Job) -> float | None:
    wall, held = job.figure("wall_s"), job.figure("recorder", "backpressure_s")
    return held / wall if wall and held is not None else None


_COMPARED: tuple[tuple[str, str, Callable[[Job], float | None], Callable[[float], str]], ...] = (
    ("Success", "ok", _success, percent),
    ("Demos per hour", "c3", lambda job: job.figure("rates", "demos_per_hour"), count),
    ("Env-steps per second", "c1", lambda job: job.figure("rates", "env_steps_per_s"), count),
    ("Simulator held up by the recorder", "bad", _held, percent),
    ("Memory, MB", "c7", lambda job: job.figure("peak_rss_mb"), count),
)
"""Title, style, the figure and how it is written."""


def _compared(jobs: Sequence[Job], swept: Sequence[str]) -> str:
    """One chart of bars for each figure, jobs from top to bottom."""
    names = [", ".join(job.values.get(key, "–") for key in swept) or job.folder.name for job in jobs]
    charts = []
    for title, style, figure, written in _COMPARED:
        values = [figure(job) for job in jobs]
        known = [value for value in values if value is not None]
        if not known:
            continue
        most = 1.0 if written is percent else max(known) or 1.0
        rows = [
            (text(name), "–" if value is None else written(value), html.bar((value or 0.0) / most, style))
            for name, value in zip(names, values, strict=True)
        ]
        charts.append(html.captioned(title, html.table((", ".join(swept) or "job", "", "|"), rows, (1,))))
    return html.figures(*charts)
