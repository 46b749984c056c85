"""The page of the experiment."""

from typing import Any

from experiments.harness import markdown_table, render_sections

_HEADER = (
    "way",
    "num_envs",
    "attempts",
    "env-steps/s",
    "of env.step alone",
    "in the whole run",
    "attempts that succeed",
)


def render(results: dict[str, Any]) -> str:
    """Markdown of the measured sections."""
    return "\n".join(render_sections(results, {"rates": _rates}))


def _rates(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            row["way"], str(row["num_envs"]), str(row["attempts"]), f"{row['steps_per_s']:,.1f}",
            f"{100 * row['share']:.0f} %", "-" if row["whole"] is None else f"{row['whole']:,.1f}",
            "-" if row["success"] is None else f"{100 * row['success']:.0f} %",
        )
        for row in rows
    ]  # fmt: skip
    within = next((r["share_within_env_step"] for r in rows if "share_within_env_step" in r), None)
    note = f"\nMedians of {rows[0]['turns']} turns."
    shares = [f"{100 * row['cpu_share']:.0f} % ({row['way']})" for row in rows if "cpu_share" in row]
    if shares:
        note += f" In CPU time of the loop's thread the share of `env.step` alone is {', '.join(shares)}."
    if within is not None:
        note += f" The peer's loop spends {100 * within:.0f} % of its time in its `env.step`, recorder included."
    return f"### {rows[0]['task']} on a CPU\n\n{markdown_table(_HEADER, cells)}{note}\n"
