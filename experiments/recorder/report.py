"""results/recorder.json as a page of tables, and as a figure."""

from pathlib import Path
from typing import Any

from experiments.harness import markdown_table, render_sections

Results = dict[str, Any]


def render(results: Results) -> str:
    """Markdown of the sections that were measured."""
    parts = ["# Recorder: results\n", "Written by `python -m experiments.recorder`; README.md explains it.\n"]
    sections = {
        "state": _state, "video": _video, "pipeline": _pipeline, "memory": _memory, "short": _short, "sweep": _sweep,
    }  # fmt: skip
    return "\n".join([*parts, *render_sections(results, sections)])


def draw(results: Results, path: Path) -> None:
    """Draw the rates of writing, and the sweep."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    shown = [name for name in ("state", "video", "sweep") if name in results]
    if not shown:
        return
    figure = Figure(figsize=(5.4 * len(shown), 3.8), layout="constrained")
    for ax, name in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        rows = results[name]["rows"]
        if name == "sweep":
            _draw_sweep(ax, rows)
            continue
        ways = [row["way"] for row in rows]
        at = range(len(rows))
        ax.barh([i - 0.2 for i in at], [r["durable_frames_per_s"] for r in rows], 0.4, label="until durable")
        ax.barh(
            [i + 0.2 for i in at], [r["finished_frames_per_s"] for r in rows], 0.4, label="until the dataset is there"
        )
        ax.set_yticks(list(at), ways)
        ax.invert_yaxis()
        ax.set(xlabel="frames/s", xscale="log", title="State only" if name == "state" else "Two cameras 128 x 128")
        ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _draw_sweep(ax: Any, rows: list[dict[str, Any]]) -> None:
    for size in sorted({row["queue_maxsize"] for row in rows}):
        part = [row for row in rows if row["queue_maxsize"] == size]
        ax.loglog([r["num_envs"] for r in part], [r["env_steps_per_s"] for r in part], "o-", label=f"queue of {size}")
    ax.set(xlabel="num_envs", ylabel="env-steps/s", title="env=kinematic, recorder=async")
    ax.legend(frameon=False, fontsize=8)


def _state(rows: list[dict[str, Any]]) -> str:
    return f"## (a) State only\n\n{_rates(rows, 'lerobot')}"


def _video(rows: list[dict[str, Any]]) -> str:
    return f"## (b) Two cameras of 128 x 128 as video\n\n{_rates(rows, 'lerobot', 'bare encoder')}"


def _rates(rows: list[dict[str, Any]], *references: str) -> str:
    by_way = {row["way"]: row for row in rows}
    header = ("", "frames", "durable, frames/s", "finished, frames/s", *(f"durable, of {name}" for name in references))
    cells = []
    for row in rows:
        ratios = [row["durable_frames_per_s"] / by_way[name]["durable_frames_per_s"] for name in references]
        texts = [f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2f} ×" for ratio in ratios]
        rates = (_n(row["durable_frames_per_s"]), _n(row["finished_frames_per_s"]))
        cells.append((row["way"], _n(row["frames"]), *rates, *texts))
    return markdown_table(header, cells)


def _pipeline(rows: list[dict[str, Any]]) -> str:
    header = ("recorder", "num_envs", "wall, s", "simulator's thread on recording", "held by a full queue")
    cells = [
        (r["recorder"], str(r["num_envs"]), f"{r['wall_s']:.1f}", _share(r["record_share"]), _share(r["blocked_share"]))
        for r in rows
    ]
    return f"## (c) The simulator's thread: env=mujoco\n\n{markdown_table(header, cells)}"


def _memory(rows: list[dict[str, Any]]) -> str:
    header = ("workers", "committed, MB", "max_queue_bytes, MB", "peak over the start, MB", "allowed, MB", "waited, s")
    keys = ("committed_mb", "queue_mb", "peak_over_start_mb", "allowed_mb")
    cells = [(str(r["workers"]), *(_n(r[key]) for key in keys), f"{r['waited_s']:.1f}") for r in rows]
    return (
        f"## (d) Memory: episodes with two cameras, faster than they can be encoded\n\n{markdown_table(header, cells)}"
    )


def _short(rows: list[dict[str, Any]]) -> str:
    header = ("episodes of 10 frames", "first tenth, episodes/s", "last tenth, episodes/s", "finalize, s")
    cells = [(_n(r["episodes"]), _n(r["first_per_s"]), _n(r["last_per_s"]), f"{r['finalize_s']:.1f}") for r in rows]
    return f"## (e) Many short episodes\n\n{markdown_table(header, cells)}"


def _sweep(rows: list[dict[str, Any]]) -> str:
    header = ("num_envs", "queue", "env-steps/s", "peak", "full", "waited, s", "of")
    cells = [
        (
            str(r["num_envs"]), str(r["queue_maxsize"]), _n(r["env_steps_per_s"]), _n(r["queue_peak"]),
            _n(r["backpressure_events"]), f"{r['backpressure_s']:.3f}", f"{r['wall_s']:.2f} s",
        )
        for r in rows
    ]  # fmt: skip
    return f"## (f) Queue size and num_envs: env=kinematic, recorder=async\n\n{markdown_table(header, cells)}"


def _n(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"
