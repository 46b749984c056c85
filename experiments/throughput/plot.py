"""Figures of results/*.json: `python -m experiments.throughput.plot` draws them again without measuring."""

from pathlib import Path
from typing import Any

from experiments.harness import read_json

RESULTS = Path(__file__).parent / "results"


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draw a figure for each section that was measured; returns the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    figures = {"orchestration": _orchestration, "physics": _physics, "sweep": _sweep, "peer": _peer}
    drawn = []
    for section, figure_of in figures.items():
        if section in results:
            path = folder / f"{section}.png"
            figure_of(results[section]["rows"]).savefig(path, dpi=150, metadata={"Software": None})
            drawn.append(path)
    return drawn


def _axes(columns: int = 1, width: float = 5.4) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, 3.8), layout="constrained")
    axes = figure.subplots(1, columns)
    for ax in axes if columns > 1 else (axes,):
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _orchestration(rows: list[dict[str, Any]]) -> Any:
    figure, ax = _axes()
    envs = [r["num_envs"] for r in rows]
    ax.loglog(envs, [r["bare_steps_per_s"] for r in rows], "o--", color="0.5", label="bare loop of the env's tensors")
    ax.loglog(envs, [r["pipeline_steps_per_s"] for r in rows], "o-", color="C0", label="pipeline, recorder=none")
    goals = [(r["num_envs"], r["goal_steps_per_s"]) for r in rows if r["goal_steps_per_s"]]
    if goals:
        ax.plot(*zip(*goals, strict=True), "v", color="C3", label="goal")
    ax.set(xlabel="num_envs", ylabel="env-steps/s", title="Orchestration, env=kinematic, one thread")
    ax.set_xticks(envs, [str(n) for n in envs])
    ax.legend(frameon=False)
    return figure


def _physics(rows: list[dict[str, Any]]) -> Any:
    figure, ax = _axes(width=7.6)
    bars = (
        ("raw_steps_per_s", "bare physics", "0.6"),
        ("none_steps_per_s", "pipeline, recorder=none", "C0"),
        ("async_generated_steps_per_s", "recorder=async, to the last attempt", "C1"),
        ("async_written_steps_per_s", "recorder=async, to the written dataset", "C2"),
    )
    width = 0.8 / len(bars)
    for i, (key, label, color) in enumerate(bars):
        at = [x + (i - (len(bars) - 1) / 2) * width for x in range(len(rows))]
        ax.bar(at, [r[key] for r in rows], width, label=label, color=color)
    goals = [(x, r["goal_ratio"] * r["raw_steps_per_s"]) for x, r in enumerate(rows) if r["goal_ratio"]]
    if goals:
        at, heights = zip(*goals, strict=True)
        left, right = [x - 0.4 for x in at], [x + 0.4 for x in at]
        ax.hlines(heights, left, right, color="C3", linestyles="dotted", label="goal of recorder=none")
    ax.set_xticks(range(len(rows)), [str(r["num_envs"]) for r in rows])
    ax.set(xlabel="num_envs", ylabel="env-steps/s", title=f"Physics, env=mujoco, task={rows[0]['task']}")
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _sweep(rows: list[dict[str, Any]]) -> Any:
    figure, (left, right) = _axes(2)
    envs = sorted({r["num_envs"] for r in rows})
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        queue = row["queue_maxsize"]
        series.setdefault(row["recorder"] if queue is None else f"async, queue {queue}", []).append(row)
    for label, line in series.items():
        style = "o-" if label.startswith("async") else "s--"
        left.plot([r["num_envs"] for r in line], [r["demos_per_hour"] for r in line], style, label=label)
    left.set(xscale="log", xlabel="num_envs", ylabel="demos/h, dataset written", title="Throughput")
    left.set_ylim(bottom=0)
    left.set_xticks(envs, [str(n) for n in envs])
    left.minorticks_off()
    left.legend(frameon=False, fontsize="small")
    for i, num_envs in enumerate(envs):
        line = [r for r in rows if r["recorder"] == "async" and r["num_envs"] == num_envs]
        sizes = [r["queue_maxsize"] for r in line]
        right.plot(sizes, [100 * r["held_share"] for r in line], "o-", color=f"C{i}", label=f"async, {num_envs} envs")
        for sync in (r for r in rows if r["recorder"] == "sync" and r["num_envs"] == num_envs):
            share = 100 * sync["held_share"]
            right.axhline(share, color=f"C{i}", linestyle="dotted", label=f"sync, {num_envs} envs")
    right.set(xscale="log", xlabel="recorder.async_queue_maxsize", ylabel="% of wall time", title="Simulator held up")
    right.set_ylim(bottom=0)
    sizes = sorted({r["queue_maxsize"] for r in rows if r["queue_maxsize"]})
    right.set_xticks(sizes, [str(size) for size in sizes])
    right.minorticks_off()
    right.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _peer(rows: list[dict[str, Any]]) -> Any:
    figure, ax = _axes()
    envs = [r["num_envs"] for r in rows]
    lines = (
        ("repeats_pipeline_steps_per_s", "pipeline_steps_per_s", "mimicpipe", "C0"),
        ("repeats_peer_steps_per_s", "peer_steps_per_s", "Isaac Lab Mimic", "C1"),
    )
    for repeats, key, label, color in lines:
        ax.loglog(envs, [r[key] for r in rows], "-", color=color, label=label)
        points = [(r["num_envs"], rate) for r in rows for rate in r[repeats]]
        ax.plot(*zip(*points, strict=True), ".", color=color, alpha=0.6)
    for r in rows:
        ratio = f"{r['ratio']:,.0f}×" if r["ratio"] >= 10 else f"{r['ratio']:.1f}×"
        at = (r["num_envs"], r["pipeline_steps_per_s"])
        ax.annotate(ratio, at, (-6, 6), textcoords="offset points", ha="right", color="C0", fontsize="small")
    ax.set(xlabel="num_envs", ylabel="env-steps/s", title="Same env and demos, no recorder, one thread")
    ax.margins(x=0.12)
    ax.set_xticks(envs, [str(n) for n in envs])
    ax.minorticks_off()
    ax.legend(frameon=False, loc="upper left")
    return figure


if __name__ == "__main__":
    for file in ("throughput.json", "peer.json"):
        for drawn_path in draw(read_json(RESULTS / file), RESULTS):
            print(drawn_path)
