"""Figure of results/generation_success.json: `python -m experiments.generation_success.plot` draws it again."""

from pathlib import Path
from typing import Any

from experiments.harness import read_json

RESULTS = Path(__file__).parent / "results"


def label(row: dict[str, Any]) -> str:
    """A cell's name in table and figure."""
    generator = "" if row["generator"] == "mimicgen" else f" {row['generator']}"
    return f"{row['task']} {row['variant']}{generator}"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Success of every cell with its interval, its goal and the published figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.6 + 0.22 * len(rows)), layout="constrained")
    ax = figure.subplots()
    at = range(len(rows))
    rates = [100 * r["success_rate"] for r in rows]
    low = [100 * (r["success_rate"] - r["wilson_95"][0]) for r in rows]
    high = [100 * (r["wilson_95"][1] - r["success_rate"]) for r in rows]
    ax.errorbar(rates, at, xerr=(low, high), fmt="o", color="C0", markersize=4, label="mimicpipe, 95 % interval")
    published = [(100 * r["published"], y) for y, r in enumerate(rows) if r["published"] is not None]
    if published:
        ax.plot(*zip(*published, strict=True), "D", color="0.5", markersize=4, label="as published")
    above, below = [y - 0.35 for y in at], [y + 0.35 for y in at]
    ax.vlines([100 * r["goal"] for r in rows], above, below, color="C3", linestyles="dotted", label="goal")
    ax.set_yticks(at, [label(r) for r in rows], fontsize=8)
    ax.invert_yaxis()
    ax.set(
        xlabel="successful attempts, %", title=f"Generation success, {rows[0]['attempts']} attempts each", xlim=(0, 102)
    )
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    draw(read_json(RESULTS / "generation_success.json")["rows"], RESULTS / "generation_success.png")
