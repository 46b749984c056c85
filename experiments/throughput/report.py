"""results/throughput.json and peer.json as pages of tables."""

from typing import Any

from experiments.harness import markdown_table, render_sections


def render(results: dict[str, Any]) -> str:
    """Markdown of the sections that were measured."""
    parts = [
        "# Throughput: results\n",
        "Written by `python -m experiments.throughput`; README.md in its folder explains it.\n",
    ]
    sections = {"orchestration": _orchestration, "physics": _physics, "sweep": _sweep, "peer": _peer}
    return "\n".join([*parts, *render_sections(results, sections)])


def _orchestration(rows: list[dict[str, Any]]) -> str:
    header = ("num_envs", "attempts", "env-steps", "pipeline, env-steps/s", "bare loop, env-steps/s", "ratio", "goal")
    cells = [
        (
            str(r["num_envs"]), str(r["attempts"]), _n(r["env_steps"]), _n(r["pipeline_steps_per_s"]),
            _n(r["bare_steps_per_s"]), _share(r["ratio"]), _goal(r["goal_steps_per_s"], r["goal_met"], _n),
        )
        for r in rows
    ]  # fmt: skip
    return f"## (a) Orchestration: env=kinematic, recorder=none\n\n{markdown_table(header, cells)}"


def _physics(rows: list[dict[str, Any]]) -> str:
    rates = ("num_envs", "env-steps", "bare physics", "recorder=none", "async generated", "async written")
    rate_cells = [
        (
            str(r["num_envs"]), _n(r["env_steps"]), _n(r["raw_steps_per_s"]), _n(r["none_steps_per_s"]),
            _n(r["async_generated_steps_per_s"]), _n(r["async_written_steps_per_s"]),
        )
        for r in rows
    ]  # fmt: skip
    ratios = ("num_envs", "none", "goal", "none, CPU time", "async generated", "goal", "async written")
    ratio_cells = [
        (
            str(r["num_envs"]), _share(r["none_ratio"]), _goal(r["goal_ratio"], r["goal_met"], _share),
            _share(r["none_cpu_ratio"]), _share(r["async_generated_ratio"]),
            _goal(r.get("async_goal_ratio"), r.get("async_goal_met"), _share),
            _share(r["async_written_ratio"]),
        )
        for r in rows
    ]  # fmt: skip
    cpu = ("num_envs", "bare physics, CPU s", "recorder=none, CPU s", "recorder=async, CPU s")
    keys = ("raw", "none", "async_written")
    cpu_cells = [(str(r["num_envs"]), *(f"{r['cpu_s'][key]:.2f}" for key in keys)) for r in rows]
    threads = max(r["physics_threads"] for r in rows)
    return (
        f"## (b) Physics: env=mujoco, task={rows[0]['task']}, up to {threads} physics threads\n\n"
        f"Env-steps per second:\n\n{markdown_table(rates, rate_cells)}\n"
        f"Share of the bare physics' rate:\n\n{markdown_table(ratios, ratio_cells)}\n"
        f"CPU seconds of the process, all threads:\n\n{markdown_table(cpu, cpu_cells)}"
    )


def _sweep(rows: list[dict[str, Any]]) -> str:
    header = ("recorder", "queue", "num_envs", "wall, s", "env-steps/s", "demos/h", "simulator held", "full", "peak")
    cells = [
        (
            r["recorder"], _n(r["queue_maxsize"]), str(r["num_envs"]), f"{r['wall_s']:.1f}", _n(r["env_steps_per_s"]),
            _n(r["demos_per_hour"]), _share(r["held_share"]), _n(r["backpressure_events"]), _n(r["queue_peak"]),
        )
        for r in rows
    ]  # fmt: skip
    first = rows[0]
    heading = f"env={first['env']}, task={first['task']}, {first['attempts']} attempts, median of {first['jobs']} seeds"
    return f"## (c) Recorders and queue sizes: {heading}\n\n{markdown_table(header, cells)}"


def _peer(rows: list[dict[str, Any]]) -> str:
    speed = ("num_envs", "attempts", "repeats", "pipeline, env-steps/s", "peer, env-steps/s", "ratio", "goal")
    speed_cells = [
        (
            str(r["num_envs"]), str(r["attempts"]), str(r["repeats"]), _n(r["pipeline_steps_per_s"]),
            _n(r["peer_steps_per_s"]), _times(r["ratio"]), _goal(r["goal_ratio"], r["goal_met"], _times),
        )
        for r in rows
    ]  # fmt: skip
    demos = ("num_envs", "pipeline, demos/h", "peer, demos/h", "ratio", "peer's time in the env")
    demo_cells = [
        (
            str(r["num_envs"]), _n(r["pipeline_demos_per_hour"]), _n(r["peer_demos_per_hour"]),
            _times(r["demos_ratio"]), _share(r["peer_env_share"]),
        )
        for r in rows
    ]  # fmt: skip
    equal = ("num_envs", "steps", "target poses differ by", "gripper actions differ by", "small turns left out, steps")
    equal_cells = [
        (str(r["num_envs"]), _n(d["steps"]), f"{d['pose']:.1e}", f"{d['gripper']:.1e}", _n(d["small_turns"]))
        for r in rows
        if (d := r["difference"]) is not None
    ]
    first = rows[0]
    return (
        f"## Against Isaac Lab Mimic's own loop: {first['peer']}, env=kinematic, task={first['task']}, no recorder\n\n"
        f"{markdown_table(speed, speed_cells)}\n{markdown_table(demos, demo_cells)}\n"
        "What both execute, without noise and with the nearest demo chosen; the largest difference of any entry in any "
        f"step:\n\n{markdown_table(equal, equal_cells)}"
    )


def _times(value: float) -> str:
    return f"{value:,.0f} ×" if value >= 10 else f"{value:.1f} ×"


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _goal(goal: float | None, met: bool | None, show: Any) -> str:
    return "–" if goal is None else f"≥ {show(goal)}: {'met' if met else 'missed'}"
