"""results/soak.json as a page of tables and two figures."""

from pathlib import Path
from typing import Any

from experiments.harness import machine_line, markdown_table

TITLES = {
    "growth": "Many episodes",
    "slow_disk": "A slow disk",
}


def render(results: dict[str, Any]) -> str:
    """Markdown of the runs that were measured."""
    page = ["# Soak: results\n", "Written by `python -m experiments.soak`; README.md in its folder explains it.\n"]
    for section, title in TITLES.items():
        if section in results:
            result = results[section]
            page += [f"## {title}\n", _machine(result), _said(section, result["run"]), _table(section, result["run"])]
    return "\n".join(page)


def _machine(result: dict[str, Any]) -> str:
    return f"{machine_line(result['machine'])} Load average before: {result['load_average_before']}.\n"


def _said(section: str, run: dict[str, Any]) -> str:
    facts = [
        f"{run['attempts']:,} attempts, {run['env_steps']:,} env-steps at {run['num_envs']} envs "
        f"in {run['wall_s'] / 60:.1f} minutes.",
        f"From the third and fourth tenth of the run to its last two, memory changed by "
        f"{_change(run['rss_growth'], 2)} ({'flat' if run['rss_flat'] else 'NOT flat'}), CPU time per env-step by "
        f"{_change(run['cpu_per_step_growth'])}, wall time per env-step by {_change(run['wall_per_step_growth'])}.",
    ]
    if section == "slow_disk":
        recorder, checked = run["recorder"], run["checked"]
        facts += [
            f"The disk took {run['disk_mb_per_s']} MB/s and hung for {run['hang'][1]:g} s every {run['hang'][0]:g} s. "
            f"Bottleneck {run['bottleneck']['stage']}: {run['bottleneck']['proof']} "
            f"({recorder['backpressure_events']:,.0f} commits waited, at most {recorder['queue_peak']:.0f} episodes "
            f"of {recorder['queue_maxsize']:.0f} in the queue).",
            f"Nothing lost: {checked['episodes']:,} episodes and {checked['frames']:,} frames are in the dataset as "
            f"attempts.jsonl has them; digest `{checked['digest'][:16]}…`.",
        ]
    return "\n".join(f"* {fact}" for fact in facts) + "\n"


def _change(share: float | None, digits: int = 1) -> str:
    return "an unknown share (too short a run)" if share is None else f"{100 * share:+.{digits}f} %"


def _table(section: str, run: dict[str, Any]) -> str:
    unit = "attempts until" if section == "growth" else "minutes until"
    scale = 1 if section == "growth" else 60
    header = (unit, "memory, MB", "wall µs / env-step", "CPU µs / env-step")
    rows = [
        [
            f"{part['until'] / scale:,.0f}" if scale == 1 else f"{part['until'] / scale:.1f}",
            f"{part['rss_mb']:.1f}",
            *(
                "-" if (cost := part[name]) is None else f"{cost:.2f}"
                for name in ("wall_us_per_step", "cpu_us_per_step")
            ),
        ]
        for part in run["parts"]
    ]
    return markdown_table(header, rows)


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """A figure for each run: memory over time, and the time per step of each tenth, or the recorder's queue."""
    import matplotlib as mpl

    mpl.use("Agg")
    drawn = []
    for section in TITLES:
        if section in results:
            drawn.append(folder / f"{section}.png")
            figure = _figure(section, results[section]["run"])
            figure.savefig(drawn[-1], dpi=150, metadata={"Software": None})
    return drawn


def _figure(section: str, run: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    samples = run["samples"]
    scale, unit = (1.0, "s") if run["wall_s"] < 300 else (60.0, "minutes")
    time = [seconds / scale for seconds in samples["wall_s"]]
    left.plot(time, samples["system/rss_mb"], color="C0")
    left.set(xlabel=unit, ylabel="resident memory, MB", title=TITLES[section])
    left.set_ylim(0, 1.15 * max(samples["system/rss_mb"]))
    if section == "growth":
        tenths = range(1, len(run["parts"]) + 1)
        for name, label, color in (("cpu_us_per_step", "CPU", "C0"), ("wall_us_per_step", "wall", "0.6")):
            costs = [float("nan") if part[name] is None else part[name] for part in run["parts"]]
            right.plot(tenths, costs, "o-", color=color, label=label)
        right.set(xlabel="tenth of the run", ylabel="µs per env-step")
        right.set_ylim(bottom=0)
        right.legend(frameon=False)
    else:
        right.plot(time, samples["recorder/queue_size"], color="C1", drawstyle="steps-post")
        right.axhline(run["recorder"]["queue_maxsize"], color="0.6", linestyle="--")
        right.set(xlabel=unit, ylabel="episodes in the recorder's queue (dashed: limit)")
        right.set_ylim(bottom=0)
    for ax in (left, right):
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    return figure
