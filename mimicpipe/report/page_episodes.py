"""The part of the page about episodes: clips, paths in 3D, where objects started."""

from collections.abc import Mapping
from typing import Any

from mimicpipe.report import html
from mimicpipe.report.format import count, percent
from mimicpipe.report.html import text
from mimicpipe.report.scene3d import scene
from mimicpipe.report.svg import Points, top_view

Report = Mapping[str, Any]


def clips(report: Report) -> str:
    """A moving picture of each sampled episode; without motion where the reader wants none, and on paper."""
    shown = [episode for episode in report.get("episodes", ()) if episode.get("clip")]
    if not shown:
        why = report.get("pictures")
        return f'<p class="note">No pictures: {text(why)}.</p>' if why else ""
    how = "" if report["pictures"] == "rendered" else f" {text(_capital(report['pictures']))}."
    note = f"The first episodes of each outcome. The last picture stays a second.{how}"
    pictures = "".join(_clip(episode, report["fps"]) for episode in shown)
    return f'<p class="note">{note}</p><div class="clips">{pictures}</div>'


def _clip(episode: Mapping[str, Any], fps: float) -> str:
    kind = "ok" if episode["success"] else "bad"
    words = f"Attempt {count(episode['attempt'])}: {episode['reason']}"
    return (
        f'<figure class="{kind}"><picture>'
        f'<source srcset="{episode["still"]}" media="(prefers-reduced-motion: reduce), print">'
        f'<img src="{episode["clip"]}" width="144" height="144" alt="{text(words)}"></picture>'
        f'<figcaption><span class="{kind}-text">{text(episode["reason"])}</span><br>'
        f"attempt {count(episode['attempt'])}<br>"
        f"{_length(episode, fps)}</figcaption></figure>"
    )


def _length(episode: Mapping[str, Any], fps: float) -> str:
    """How long an episode was, and how much of it is shown."""
    steps, played = episode["steps"], episode.get("played", episode["steps"])
    return f"{steps} steps, {steps / fps:.1f} s" if played >= steps else f"the first {played} of {steps} steps"


def paths(report: Report) -> str:
    """The paths of end effectors, to be turned."""
    episodes = report.get("episodes", ())
    picture = scene(episodes)
    if not picture:
        return ""
    failures = sum(not episode["success"] for episode in episodes)
    entries = [("ok", f"{len(episodes) - failures} successes")]
    if failures:
        entries.append(("bad", f"{failures} failures, dashed"))
    note = (
        "Paths of the end effectors, with a dot of their colour where they end; objects, a grey ring where one started "
        "and a grey dot where it ended. "
        "Drag, or use the arrow keys, to turn."
    )
    return f'<figure style="margin-top:2em"><h3>Paths</h3>{html.key(entries)}{picture}' \
           f"<figcaption>{note}</figcaption></figure>"  # fmt: skip


def coverage(report: Report, attempts: int) -> str:
    """Each object's start positions from above, by outcome."""
    starts = report.get("starts", {})
    success = starts.get("success", ())
    if not success:
        return ""
    shown = f"{count(len(success))} of {count(attempts)} attempts" if len(success) < attempts else "All attempts"
    places: dict[str, list[tuple[float, float]]]
    places = {name: [(100.0 * x, 100.0 * y) for x, y in at if x is not None and y is not None]
              for name, at in starts["objects"].items()}  # fmt: skip
    places = {name: at for name, at in places.items() if len(at) == len(success)}
    if not places:
        return ""
    bounds = _bounds(places)
    figures = []
    for name, at in places.items():
        groups = []
        for kind, style in ((True, "ok"), (False, "bad")):
            rows = [i for i, one in enumerate(success) if one == kind]
            titles = [f"attempt {starts['attempts'][i]}: {'success' if kind else 'failure'}" for i in rows]
            groups.append(Points(name, style, [at[i] for i in rows], titles))
        figures.append(html.captioned(name, top_view(f"Where {name} started, from above", groups, bounds[name])))
    ok = sum(success)
    note = f"{shown}, seen from above, in the slot's frame: {count(ok)} successes"
    outcomes = [("ring", "success")]
    if ok < len(success):
        note += f", {count(len(success) - ok)} failures ({percent(1 - ok / len(success))} of those shown)"
        outcomes.append(("cross", "failure"))
    return f"<p class=note>{note}.</p>{html.key(outcomes)}{html.figures(*figures)}"


def _bounds(places: Mapping[str, list[tuple[float, float]]]) -> dict[str, tuple[float, float, float, float]]:
    """{object: x0, x1, y0, y1} around its points with a margin; all of one size, so that figures have one scale."""
    spans = {name: [(min(values), max(values)) for values in zip(*at, strict=True)] for name, at in places.items()}
    halves = [max(high - low for low, high in along) / 2 for along in zip(*spans.values(), strict=True)]
    margin = max(1.0, 0.12 * max(halves))
    found = {}
    for name, span in spans.items():
        (x0, x1), (y0, y1) = ((sum(ends) / 2 - half - margin, sum(ends) / 2 + half + margin)
                              for ends, half in zip(span, halves, strict=True))  # fmt: skip
        found[name] = (x0, x1, y0, y1)
    return found


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
