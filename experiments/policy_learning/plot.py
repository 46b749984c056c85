"""Figure of results/policy_learning.json: `python -m experiments.policy_learning.plot` draws it again."""

from pathlib import Path
from typing import Any

from experiments.harness import read_json

RESULTS = Path(__file__).parent / "results"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Success over the number of demos, a line for each task; small dots are the single policies."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    sizes = sorted({row["demos"] for row in rows})
    for number, task in enumerate(dict.fromkeys(row["task"] for row in rows)):
        own = sorted((row for row in rows if row["task"] == task), key=lambda row: row["demos"])
        at = [sizes.index(row["demos"]) + 0.06 * (number - 1) for row in own]
        rate = [100 * row["success_rate"] for row in own]
        low = [100 * (row["success_rate"] - row["wilson_95"][0]) for row in own]
        high = [100 * (row["wilson_95"][1] - row["success_rate"]) for row in own]
        ax.errorbar(at, rate, yerr=(low, high), fmt="o-", color=f"C{number}", capsize=3, label=task)
        single = [(x, 100 * p["success_rate"]) for x, row in zip(at, own, strict=True) for p in row["policies"]]
        ax.plot(*zip(*single, strict=True), ".", color=f"C{number}", alpha=0.5, markersize=4)
    sources = {row["demos"] for row in rows if row["source"]}
    ax.set_xticks(range(len(sizes)), [f"{n:,}\n{'source' if n in sources else 'generated'}" for n in sizes])
    ax.set(xlabel="demos that the policy learned from", ylabel="successful rollouts, %", ylim=(-2, 102))
    ax.set_title("The same policy, from source demos and from generated ones")
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    draw(read_json(RESULTS / "policy_learning.json")["rows"], RESULTS / "policy_learning.png")
