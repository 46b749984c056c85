"""report.html: one page about a run, from the files in its output folder; complete in itself, for `file://` too.

Nothing here needs the simulator, or anything that is slow to import.
"""

from pathlib import Path

from mimicpipe.report import html
from mimicpipe.report.commands import next_commands
from mimicpipe.report.format import count, elapsed, interval, percent
from mimicpipe.report.html import text
from mimicpipe.report.page_episodes import clips, coverage, paths
from mimicpipe.report.page_figures import over_time, stages
from mimicpipe.report.run_files import PAGE, RunFiles, read_run

ENDINGS = {
    "num_demos": "Complete.",
    "max_attempts": "Ended at max_attempts.",
    "max_failures": "Ended at max_failures.",
    "SIGINT": "Ended by SIGINT.",
    "SIGTERM": "Ended by SIGTERM.",
    "killed": "Killed, and recovered.",
}
DONE = ("num_demos", "max_attempts", "max_failures")
_MOST_DEMOS = 40
"""Source demos in the table; of more, those used most."""


def write_run_page(folder: Path) -> Path:
    """Write report.html into a run's output folder; returns its path.

    Raises:
        ConfigError: the folder is no run's.
        OSError: the page cannot be written.
    """
    path = folder / PAGE
    html.write_page(path, run_page(read_run(folder)))
    return path


def run_page(files: RunFiles) -> str:
    """The page as a string."""
    body = (
        _head(files),
        html.section("Asked for", _asked(files)),
        html.section("Came out", _outcomes(files)),
        html.section("Where the time went", stages(files.run), over_time(files)),
        html.section("Episodes", clips(files.report), paths(files.report)),
        html.section("Where objects started", coverage(files.report, files.tally.attempts)),
        html.section("Go on", _commands(files)),
    )
    return html.document(f"{files.title}: mimicpipe run", "\n".join(part for part in body if part))


def _head(files: RunFiles) -> str:
    run, total = files.run, files.tally
    counts, rates = run.get("counts", {}), run.get("rates", {})
    demos, wanted = counts.get("successes", total.successes), run.get("config", {}).get("num_demos")
    reason = run.get("exit_reason")
    ending = _ending(reason)
    of = f" of {count(wanted)}" if wanted else ""
    wall = f" in {elapsed(run['wall_s'])}" if run.get("wall_s") else ""
    lede = f'<b>{count(demos)}{of} demos</b>{wall}. <span class="{tone(reason)}-text">{text(ending)}</span>'
    started = text(str(run.get("started", "")).replace("T", " ").replace("+00:00", " UTC"))
    return (
        f'<p class="kicker">mimicpipe run{f", {started}" if started else ""}</p><h1>{text(files.title)}</h1>'
        f'<p class="lede">{lede}</p>{_facts(files, counts, rates)}'
    )


def tone(reason: str | None) -> str:
    """The colour of how a run ended: all demos are there, a limit came first, or something went wrong."""
    return "ok" if reason == "num_demos" else "limit" if reason in DONE else "bad"


def _ending(reason: str | None) -> str:
    if reason is None:
        return "No run.json: the run goes on, or was killed."
    return ENDINGS.get(reason, f"Failed: {reason}")


def _facts(files: RunFiles, counts: dict[str, int], rates: dict[str, float]) -> str:
    run, attempts = files.run, files.tally.attempts
    facts = []
    if attempts:
        low, high = interval(files.tally.successes, attempts)
        of = f"of {count(attempts)} attempts; 95 % interval {100 * low:.0f} to {100 * high:.0f} %"
        facts.append(("Success", percent(files.tally.successes / attempts), of))
    for name, title, unit in (
        ("demos_per_hour", "Demos", "per hour"),
        ("env_steps_per_s", "Env-steps", "per second, over all slots"),
        ("frames_per_s", "Frames recorded", "per second"),
    ):
        if rates.get(name):
            facts.append((title, count(rates[name]), unit))
    if counts.get("episodes"):
        of = f"{count(counts.get('frames', 0))} frames"
        if run.get("failed_dataset"):
            of += ", with those of failed attempts"
        facts.append(("Demos recorded", count(counts["episodes"]), of))
    if run.get("peak_rss_mb"):
        facts.append(("Memory", f"{count(run['peak_rss_mb'])} MB", "at most"))
    return f'<dl class="facts">{"".join(_fact(*fact) for fact in facts)}</dl>' if facts else ""


def _fact(title: str, value: str, small: str) -> str:
    return f"<div><dt>{text(title)}</dt><dd>{text(value)}<small>{text(small)}</small></dd></div>"


def _asked(files: RunFiles) -> str:
    run = files.run
    config, git, machine = run.get("config", {}), run.get("git"), run.get("machine")
    commit = f"{git['commit'][:10]}{', with changes' if git['dirty'] else ''}" if git else ""
    rows = [
        ("Overrides", "".join(f"<div class=mono>{text(override)}</div>" for override in files.overrides) or "none"),
        ("Groups", text(", ".join(f"{group}={option}" for group, option in run.get("choices", {}).items()))),
        ("Slots", count(config["env"]["num_envs"]) if config else ""),
        ("Seed", text(run.get("seed", ""))),
        ("Config hash", f"<span class=mono>{text(run.get('config_hash', ''))}</span>" if run else ""),
        ("Versions", text(", ".join(f"{name} {number}" for name, number in run.get("versions", {}).items()))),
        ("Commit", f"<span class=mono>{text(commit)}</span>" if commit else ""),
        ("Machine", text(f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['system']}") if machine else ""),
        ("Folder", f"<span class=mono>{text(files.folder)}</span>"),
    ]
    return html.pairs(rows) + html.folded("The whole config", html.pairs(html.flat(config)) if config else "")


def _outcomes(files: RunFiles) -> str:
    total = files.tally
    if not total.attempts:
        return '<p class="note">No attempt had ended.</p>'
    rows = [
        (
            text(reason),
            count(n),
            percent(n / total.attempts),
            html.bar(n / total.attempts, "ok" if reason == "success" else "bad"),
        )
        for reason, n in total.reasons.most_common()
    ]
    by_reason = html.table(("Outcome", "attempts", "share", "|"), rows, (1, 2))
    lengths = [f"{name} {total.steps[kind] / n:.0f} steps" for kind, name, n in (
        (True, "successes", total.successes), (False, "failures", total.attempts - total.successes)) if n]  # fmt: skip
    skipped = files.run.get("skipped_source_demos")
    left_out = f"<p>Left out of the pool: {text('; '.join(skipped))}</p>" if skipped else ""
    return (
        html.figures(
            html.captioned("By outcome", by_reason, f"Mean length: {', '.join(lengths)}."),
            html.captioned("By source demo", *_by_demo(files)),
        )
        + left_out
    )


def _by_demo(files: RunFiles) -> tuple[str, str]:
    """A table, and what there is to know about it."""
    used = sorted(files.tally.demos.items(), key=lambda item: (-item[1].attempts, item[0]))
    if not used:
        return '<p class="note">No attempt names a source demo.</p>', ""
    rows = [
        (text(demo), count(use.attempts), percent(use.successes / use.attempts),
         html.bar(use.successes / use.attempts, "ok"))
        for demo, use in used[:_MOST_DEMOS]
    ]  # fmt: skip
    more = f" The {_MOST_DEMOS} used most, of {count(len(used))}." if len(used) > _MOST_DEMOS else ""
    note = f"Attempts with at least one segment of the demo, and how many of them succeeded.{more}"
    return html.table(("Source demo", "attempts", "success", "|"), rows, (1, 2)), note


def _commands(files: RunFiles) -> str:
    return html.commands(next_commands(files.run, files.folder, files.overrides))
