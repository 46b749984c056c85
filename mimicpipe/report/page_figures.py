"""The part of the page about time: stages, bottleneck, backpressure, throughput and queues."""

from collections.abc import Mapping, Sequence
from typing import Any

from mimicpipe.pipeline.telemetry import STAGES
from mimicpipe.report import html
from mimicpipe.report.format import count, elapsed, percent
from mimicpipe.report.html import text
from mimicpipe.report.run_files import RunFiles
from mimicpipe.report.series import rates
from mimicpipe.report.svg import Line, line_chart

MEANING = {
    "plan": "generators and planner",
    "reset": "resets",
    "step": "the simulator",
    "observe": "observations",
    "render": "cameras",
    "record": "copying, recording, completing the dataset",
    "wait": "nothing to do: generators await something",
}
_SECONDS = "time since the start, s"
_COMPLETING = "the dataset is being completed after the last attempt"


def stages(run: Mapping[str, Any]) -> str:
    """Stage times as one stacked bar, with the bottleneck and what the recorder's queue did."""
    seconds = {stage: value for stage, value in run.get("stage_s", {}).items() if value > 0}
    total = sum(seconds.values())
    if not total:
        return ""
    styles = {stage: f"c{number}" for number, stage in enumerate(STAGES, start=1)}
    order = sorted(seconds, key=lambda stage: -seconds[stage])
    bars = "".join(
        f'<span class="{styles.get(stage, "c7")}" style="flex:{seconds[stage] / total:.5f}" '
        f'title="{text(stage)}: {elapsed(seconds[stage])}"></span>'
        for stage in order
    )
    entries = [
        (styles.get(stage, "c7"), f"<b>{text(stage)}</b> {percent(seconds[stage] / total)}, {elapsed(seconds[stage])}"
         f' <span class="note">{text(MEANING.get(stage, ""))}</span>')
        for stage in order
    ]  # fmt: skip
    label = ", ".join(f"{stage} {percent(seconds[stage] / total)}" for stage in order)
    proof = run.get("bottleneck_proof")
    bottleneck = f"<p><b>Bottleneck: {text(proof['stage'])}.</b> {text(_sentence(proof['proof']))}</p>" if proof else ""
    return (
        f'<div class="stack" role="img" aria-label="Stage times: {text(label)}">{bars}</div>{html.key(entries)}'
        f"{bottleneck}{_backpressure(run)}"
    )


def _backpressure(run: Mapping[str, Any]) -> str:
    recorder, wall = run.get("recorder", {}), run.get("wall_s") or 0.0
    if "queue_peak" not in recorder or not wall:
        return ""
    limit = f" of {count(recorder['queue_maxsize'])}" if recorder.get("queue_maxsize") else ""
    events, held = recorder.get("backpressure_events", 0), recorder.get("backpressure_s", 0.0)
    said = f"held the simulator up {count(events)} times, {elapsed(held)} ({percent(held / wall)} of the run)"
    if not events:
        said = "never held the simulator up"
    return f"<p><b>Backpressure.</b> The recorder's queue {said}. At most {count(recorder['queue_peak'])}{limit} " \
           "episodes waited in it.</p>"  # fmt: skip


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def over_time(files: RunFiles) -> str:
    """Throughput, and the depths of the queues."""
    series = files.series
    steps, demos = ((rates(series, key) if series else ([], [])) for key in ("env_steps", "generation/successes"))
    if len(steps[0]) < 2:
        return '<p class="note">Too short for figures over time.</p>'
    per_hour = demos[0], [3600 * value for value in demos[1]]
    right = max(series["wall_s"])
    finalize = files.run.get("recorder", {}).get("finalize_s", 0.0)
    band = (right - finalize, _COMPLETING) if finalize > 0.02 * right else None

    def chart(title: str, lines: Sequence[Line], caption: str = "", limit: tuple[float, str] | None = None) -> str:
        picture = line_chart(f"{title}, over time", lines, _SECONDS, right=right, limit=limit, band=band)
        return html.captioned(title, picture, caption)

    requests = [
        Line("env_action_queue", "c1", *rates(series, "queue/action_wait_s")),
        Line("env_reset_queue", "c2", *rates(series, "queue/reset_wait_s")),
    ]
    parts = [
        chart("Env-steps per second", [Line("env-steps per second", "c1", *steps)]),
        chart("Demos per hour", [Line("demos per hour", "c3", *per_hour)]),
        chart("Requests waiting", requests, html.key([("c1", "env_action_queue"), ("c2", "env_reset_queue")])),
    ]
    if any(series["recorder/queue_wait_s"]):
        waiting = Line("episodes", "c1", *rates(series, "recorder/queue_wait_s"))
        size = files.run.get("recorder", {}).get("queue_maxsize", 0)
        limit = (float(size), f"limit {count(size)}") if size and max(waiting.ys) > size / 4 else None
        parts.append(chart("Episodes waiting for the writer", [waiting], limit=limit))
    shaded = f" Shaded: {_COMPLETING}." if band else ""
    note = f'<p class="note">Means over intervals of a second or more.{shaded}</p>'
    return f'{note}<div class="figures two">{"".join(parts)}</div>'
