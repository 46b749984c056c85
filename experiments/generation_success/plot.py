"""Figure of results/generation_success.json: `python -m experiments.generation_success.plot` draws it again."""

from pathlib import Path
from typing import Any

from experiments.harness import read_json

RESULTS = Path(__file__).parent / "results"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Success of every cell with its interval, its goal and the published figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    ax = figure.subplots()
    at = range(len(rows))
    rates = [100 * r["success_rate"] for r in rows]
    low = [100 * (r["success_rate"] - r["wilson_95"][0]) for r in rows]
    high = [100 * (r["wilson_95"][1] - r["success_rate"]) for r in rows]
    ax.errorbar(at, rates, yerr=(low, high), fmt="o", color="C0", capsize=4, label="mimicpipe, 95 % interval")
    published = [(x, 100 * r["mimicgen"]) for x, r in enumerate(rows) if r["mimicgen"] is not None]
    if published:
        ax.plot(*zip(*published, strict=True), "D", color="0.5", label="MimicGen, as published")
    left, right = [x - 0.3 for x in at], [x + 0.3 for x in at]
    ax.hlines([100 * r["goal"] for r in rows], left, right, color="C3", linestyles="dotted", label="goal")
    ax.set_xticks(at, [f"{r['task']} {r['variant']}" for r in rows])
    ax.set(ylabel="successful attempts, %", title=f"Generation success, {rows[0]['attempts']} attempts each")
    ax.margins(x=0.15)
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    draw(read_json(RESULTS / "generation_success.json")["rows"], RESULTS / "generation_success.png")
