"""Figure of results/ablations.json: `python -m experiments.ablations.plot` draws it again."""

from pathlib import Path
from typing import Any

from experiments.ablations.cells import BASE, SETTINGS, TASKS, VARIANTS
from experiments.harness import read_json

RESULTS = Path(__file__).parent / "results"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """A row of panels for each factor, a column for each task: success over the factor's values, with intervals."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    factors = list(dict.fromkeys(setting.factor for setting in SETTINGS if setting != BASE))
    shown = [factor for factor in factors if any(row["factor"] == factor for row in rows)]
    figure = Figure(figsize=(8.4, 1.2 + 1.9 * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), len(TASKS), squeeze=False, sharey=True)
    for line, factor in zip(panels, shown, strict=True):
        values = [setting.value for setting in SETTINGS if setting.factor == factor]
        for ax, task in zip(line, TASKS, strict=True):
            _panel(ax, [row for row in rows if row["task"] == task], factor, values)
    for ax, task in zip(panels[0], TASKS, strict=True):
        ax.set_title(task, fontsize=10)
    for line in panels:
        line[0].set_ylabel("success, %", fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def _panel(ax: Any, rows: list[dict[str, Any]], factor: str, values: list[str]) -> None:
    for number, variant in enumerate(VARIANTS):
        own = [row for row in rows if row["variant"] == variant]
        points = [(i, row) for i, v in enumerate(values) for row in own if (row["factor"], row["value"]) == (factor, v)]
        if points:
            at, found = [i + 0.16 * number - 0.08 for i, _ in points], [row for _, row in points]
            rate = [100 * row["success_rate"] for row in found]
            low = [100 * (row["success_rate"] - row["wilson_95"][0]) for row in found]
            high = [100 * (row["wilson_95"][1] - row["success_rate"]) for row in found]
            ax.errorbar(at, rate, yerr=(low, high), fmt="os"[number], color=f"C{number}", markersize=4, label=variant)
        for row in own:
            if row["factor"] == BASE.factor:
                ax.axhline(100 * row["success_rate"], color=f"C{number}", linestyle="dotted", linewidth=1,
                           label=f"{variant} as configured")  # fmt: skip
    names = [value.replace("nearest_neighbor", "nearest").replace("_", "\n") for value in values]
    ax.set_xticks(range(len(values)), names, fontsize=7)
    ax.set(xlabel=factor, ylim=(-3, 103), xlim=(-0.5, len(values) - 0.5))
    ax.xaxis.label.set_fontsize(8)
    ax.tick_params(axis="y", labelsize=7)
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(read_json(RESULTS / "ablations.json")["rows"], RESULTS / "ablations.png")
