"""The tables. What was not measured on a GPU says so."""

from typing import Any

from experiments.harness import machine_line, markdown_table

RECORDERS = ("none", "async", "sharded")
NOT_MEASURED = "not measured"
GOAL = {4096: 0.9}
"""{num_envs: least share of the bare physics' rate, with recorder=none}."""
_HEADER = (
    "num_envs", "bare physics, env-steps/s", "pipeline, env-steps/s", "ratio",
    *(f"demos/h, recorder={name}" for name in RECORDERS), "device memory, MB",
)  # fmt: skip


def render(results: dict[str, Any], sizes: tuple[int, ...]) -> str:
    """The page: agreement, then speed at each of the sizes.

    Args:
        results: {"gpu": name or None, "machine", "agreement", "speed"}; only figures of a GPU are shown.
        sizes: num_envs of the rows.
    """
    gpu = results.get("gpu")
    where = f"On {gpu}. {machine_line(results['machine'])}" if gpu else "No GPU machine was at hand."
    return "\n".join(["# env=mujoco_warp on a GPU\n", f"{where}\n", _agreement(results), _speed(results, sizes)])


def _agreement(results: dict[str, Any]) -> str:
    header = ("compared with env=mujoco after 1 s", "eef, mm", "cube, mm", "same bits twice", "same bits alone")
    rows = [
        (
            f"{row['num_envs']} envs on {row['device']}", f"{row['eef_mm']:.4f}", f"{row['cube_mm']:.4f}",
            _yes(row["same_bits_twice"]), _yes(row["same_bits_alone"]),
        )
        for row in results.get("agreement", [])
        if results.get("gpu")
    ]  # fmt: skip
    return "## Agreement\n\n" + markdown_table(header, rows or [("on a GPU", *[NOT_MEASURED] * 4)])


def _speed(results: dict[str, Any], sizes: tuple[int, ...]) -> str:
    measured = {row["num_envs"]: row for row in results.get("speed", [])} if results.get("gpu") else {}
    rows = [_speed_row(size, measured.get(size)) for size in sizes]
    return "## Speed\n\n" + markdown_table(_HEADER, rows)


def _speed_row(size: int, row: dict[str, Any] | None) -> tuple[str, ...]:
    if row is None:
        return str(size), *[NOT_MEASURED] * (len(_HEADER) - 1)
    goal = f" (goal {GOAL[size]:.2f})" if size in GOAL else ""
    return (
        str(size), f"{row['raw_env_steps_per_s']:,.0f}", f"{row['none']['env_steps_per_s']:,.0f}",
        f"{row['ratio']:.3f}{goal}", *(f"{row[name]['demos_per_hour']:,.0f}" for name in RECORDERS),
        f"{row['device_memory_mb']:,.0f}",
    )  # fmt: skip


def _yes(value: bool) -> str:
    return "yes" if value else "no"
