"""The page of the experiment."""

from typing import Any

from experiments.harness import markdown_table, render_sections

_HEADER = ("way", "num_envs", "attempts", "env-steps/s", "of env.step alone", "attempts that succeed")


def render(results: dict[str, Any]) -> str:
    """Markdown of the measured sections."""
    return "\n".join(render_sections(results, {"rates": _rates}))


def _rates(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            row["way"], str(row["num_envs"]), str(row["attempts"]), f"{row['steps_per_s']:,.1f}",
            f"{100 * row['share']:.0f} %", "-" if row["success"] is None else f"{100 * row['success']:.0f} %",
        )
        for row in rows
    ]  # fmt: skip
    within = next((r["share_within_env_step"] for r in rows if "share_within_env_step" in r), None)
    note = "" if within is None else f"\nThe peer's loop spends {100 * within:.0f} % of its time in its `env.step`.\n"
    return f"### {rows[0]['task']} on a CPU\n\n{markdown_table(_HEADER, cells)}{note}"
